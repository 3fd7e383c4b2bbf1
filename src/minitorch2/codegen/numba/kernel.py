"""A scheduled kernel -> the source of a range function, and what to call it with.

Three shapes, chosen by where memory is contiguous:

    pointwise    for i in range(lo, hi):            the outer loops, flattened, shared by threads
                     for j in range(n): ...         the inner loop, which is vectorized
    rows         for i in range(lo, hi):            one row: reductions along contiguous memory
                     for r in range(k): ...         one loop per pass over the row
    columns      for i in range(lo, hi):            a block of outputs that are neighbours in memory
                     for r in range(k):
                         for j in block: ...        reductions across rows: many accumulators

A fused kernel makes as many passes over the reduction loops as its results depend on each other;
values needed by a later pass stay on the stack where the schedule has removed their buffers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from minitorch2.codegen.common import Block, TextValue, kernel_name, print_expr, user_lines
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.handler import Arguments, NumbaHandler
from minitorch2.codegen.numba.runtime import KernelSource
from minitorch2.codegen.numba.vocabulary import LIBM
from minitorch2.loopir.expressions import Expr, floor_div, index_symbols, product
from minitorch2.loopir.loop_order import reduces_across
from minitorch2.loopir.memory_plan import SCRATCH_COLUMNS, passes
from minitorch2.loopir.ops import ReductionKind, compute_dtype, use_handler
from minitorch2.loopir.schedule import KernelNode, Schedule, SchedulerNode, bodies

COLUMN_BLOCK = 512
POINTWISE_BLOCK = 4096
FEW_ITERATIONS = 64
# A transposed access is read in tiles of so many elements each way: a cache line of float32.
TILE = 16
# Longer sums of float32 are accumulated in float64. A row's sum is many sums side by side (one per
# vector lane), so it may be longer than a column's.
LONG_ROW_SUM = 16384
LONG_COLUMN_SUM = 1024
# A thread should get at least so much work; 1 is about a twentieth of a nanosecond.
WORK_OF_A_THREAD = 150_000
_UNKNOWN_SIZE = 512
_FUNCTION_CALL = re.compile(rf"\b({'|'.join(sorted({*LIBM, 'sigmoid', 'rsqrt'}))})\(")


@dataclass(frozen=True)
class NumbaKernel:
    """A kernel and its call: `kernel(iterations, address of each buffer..., each size...)`."""

    source: KernelSource
    iterations: Expr
    buffers: tuple[str, ...]
    sizes: tuple[Expr, ...]


def print_kernel(
    node: KernelNode, schedule: Schedule, dtypes: Mapping[str, torch.dtype], number: int
) -> NumbaKernel:
    """The kernel of a scheduled node.

    Raises:
        LoweringError: a primitive has no Numba form for its dtype.
    """
    shape = _choose_shape(node)
    return shape(node, schedule, dtypes).print(kernel_name(node, number))


def _choose_shape(node: KernelNode) -> type[_KernelPrinter]:
    if not any(body.is_reduction for body in bodies(node)):
        return _PointwisePrinter
    return _ColumnPrinter if reduces_across(node) else _RowPrinter


class _KernelPrinter:
    """What the three shapes share. Subclasses say how loops nest and where accumulators are."""

    def __init__(
        self, node: KernelNode, schedule: Schedule, dtypes: Mapping[str, torch.dtype]
    ) -> None:
        self.node = node
        self.schedule = schedule
        self.bodies = bodies(node)
        self.levels = passes(node)
        written = {body.name for body in self.bodies}
        read = {name for body in self.bodies for name in body.read_names}
        self.arguments = Arguments(
            dict(dtypes),
            {name: _root(name, schedule) for name in dtypes},
            {_root(name, schedule) for name in read - schedule.removed},
            {_root(name, schedule) for name in written - schedule.removed},
        )
        self._forget_unread()
        self.handler = NumbaHandler(self.arguments)
        self.handler.on_store = self._keep
        self.handler.reduce = self._reduce
        self.function = self.handler.block
        self.kept = index_symbols("i", len(node.ranges))
        self.reduced = index_symbols("r", len(node.reduction_ranges))
        self.handler.ranges = (
            *zip(self.kept, node.ranges),
            *zip(self.reduced, node.reduction_ranges),
        )
        self.scratch: dict[str, str] = {}
        self.current = self.bodies[0]

    def _forget_unread(self) -> None:
        """A buffer of this kernel that is always at hand is not read from memory."""
        for body in self.bodies:
            readers = [b for b in self.bodies if body.name in b.read_names]
            is_scalar = body.is_reduction or not body.covers_reduction
            same_pass = all(self.levels[b.name] == self.levels[body.name] for b in readers)
            root = _root(body.name, self.schedule)
            if (is_scalar or same_pass) and root == body.name:
                self.arguments.read.discard(root)

    def print(self, name: str) -> NumbaKernel:
        """Write all loops, then the function around them."""
        with use_handler(self.handler):
            iterations = self.write_loops()
        signature = (
            *self.arguments.pointers.values(), *self.arguments.sizes.values(), "error",
        )  # fmt: skip
        lines = [f"def {name}(lo, hi, {', '.join(signature)}):"]
        lines += [f"    {line}" for line in user_lines(self.node)]
        lines += list(self.function.render(1))
        lines.append("    return 0")
        roots = tuple(self.arguments.pointers)
        types = tuple(operators.MEMORY_TYPE[self.arguments.dtypes[root]] for root in roots)
        source = KernelSource(
            name, "\n".join(lines) + "\n", types, len(self.arguments.sizes), self._grain()
        )
        return NumbaKernel(source, iterations, roots, tuple(self.arguments.sizes))

    def write_loops(self) -> Expr:
        """Write the body of the function; answer with the number of iterations."""
        raise NotImplementedError

    def _grain(self) -> int:
        lines = [line.strip() for line in self.function.render()]
        cost = sum(
            10 * len(_FUNCTION_CALL.findall(line)) + (2 if "_ptr" in line else 1) for line in lines
        )
        elements = 1
        for size in self.inner_sizes():
            elements *= size if isinstance(size, int) else _UNKNOWN_SIZE
        return max(1, WORK_OF_A_THREAD // max(1, cost * elements))

    def inner_sizes(self) -> Sequence[Expr]:
        """The loops inside one iteration."""
        raise NotImplementedError

    # -- loops ----------------------------------------------------------------------------------

    def enter(self, header: str, *variables: str) -> Block:
        """Open a loop inside the current one; its variables depend on its depth."""
        block = Block(header, parent=self.handler.block)
        self.handler.block = block
        for variable in variables:
            self.handler.depths[variable] = block.depth
        return block

    def leave(self, block: Block) -> None:
        """Close a loop."""
        block.close()
        assert block.parent is not None
        self.handler.block = block.parent

    def enter_flattened(self, count: int, extra: Expr = 1, extra_name: str = "") -> Block:
        """The loop shared by threads over the first `count` kept loops, and maybe over blocks."""
        sizes = [*self.node.ranges[:count], *([extra] if extra_name else [])]
        names = [*(str(s) for s in self.kept[:count]), *([extra_name] if extra_name else [])]
        return self.enter_shared(names, sizes)

    def enter_shared(self, names: Sequence[str], sizes: Sequence[Expr]) -> Block:
        """One loop shared by threads that stands for a nest of loops."""
        if len(names) == 1:
            return self.enter(f"for {names[0]} in range(lo, hi):", names[0])
        block = self.enter("for i in range(lo, hi):", *names)
        for position, name in enumerate(names):
            inner = product(sizes[position + 1 :])
            text = "i" if inner == 1 else f"i // {self.text(inner)}"
            if position:
                text += f" % {self.text(sizes[position])}"
            block.lines.append(f"{name} = {text}")
        return block

    def text(self, size: Expr) -> str:
        """A size as text: a literal, or an expression of size arguments in parentheses."""
        text = self.handler.index(size)[0]
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def run(self, body: SchedulerNode) -> None:
        """Write a loop body into the current loop."""
        self.current = body
        body.run(self.kept, self.reduced if body.covers_reduction else ())

    # -- values of the kernel's own buffers --------------------------------------------------------

    def _keep(self, name: str, value: TextValue) -> bool:
        """A body has computed a value: remember it; whether memory must have it too."""
        self.handler.at_hand[name] = lambda: value
        if name not in self.schedule.removed:
            return True
        if name in self.scratch:
            element = operators.store(value.dtype, value.text)
            self.handler.block.lines.append(f"{self.scratch[name]}[{self._position()}] = {element}")
        return False

    def _position(self) -> str:
        raise NotImplementedError

    def _reduce(
        self, kind: ReductionKind, dtype: torch.dtype, values: list[TextValue]
    ) -> TextValue:
        raise NotImplementedError

    def accumulator_dtype(self, kind: str, dtype: torch.dtype, limit: int) -> torch.dtype:
        """float64 for sums of float32 longer than `limit`, else the values' own dtype."""
        length = product(self.node.reduction_ranges)
        is_long = not isinstance(length, int) or length > limit
        is_sum = kind in ("sum", "prod") and dtype == torch.float32
        return torch.float64 if is_sum and is_long else dtype


def _root(name: str, schedule: Schedule) -> str:
    """The buffer whose memory a buffer uses."""
    while name in schedule.inplace:
        name = schedule.inplace[name]
    return name


class _PointwisePrinter(_KernelPrinter):
    """No reductions: the last loop inside, all others flattened."""

    def write_loops(self) -> Expr:
        ranges = self.node.ranges
        outer, inner = product(ranges[:-1]), ranges[-1] if ranges else 1
        if len(ranges) < 2:
            block = (
                self.enter_flattened(len(ranges))
                if ranges
                else self.enter("for i in range(lo, hi):")
            )
            self._run_all()
            self.leave(block)
            return inner
        symbol = str(self.kept[-1])
        across = self._transposed_loop()
        if across is not None:
            return self._write_tiles(across)
        if self._is_blocked():
            blocks = floor_div(inner + POINTWISE_BLOCK - 1, POINTWISE_BLOCK)
            loop = self.enter_flattened(len(ranges) - 1, blocks, "block")
            start = f"block * {POINTWISE_BLOCK}"
            limits = f"{start}, min({start} + {POINTWISE_BLOCK}, {self.text(inner)})"
        else:
            blocks = 1
            loop = self.enter_flattened(len(ranges) - 1)
            limits = self.text(inner)
        inside = self.enter(f"for {symbol} in range({limits}):", symbol)
        self._run_all()
        self.leave(inside)
        self.leave(loop)
        return product((outer, blocks))

    def _transposed_loop(self) -> int | None:
        """An outer loop along which some access is contiguous while the inner loop strides."""
        for body in self.bodies:
            for access in (*body.reads_of, *body.writes_of):
                far = access.strides[-1]
                if (
                    1 in access.strides[:-1]
                    and far is not None
                    and (not isinstance(far, int) or far >= TILE)
                ):
                    return access.strides.index(1)
        return None

    def _write_tiles(self, across: int) -> Expr:
        """Square tiles over loop `across` and the inner loop; the other loops are flattened."""
        ranges = self.node.ranges
        others = [i for i in range(len(ranges) - 1) if i != across]
        counts = [floor_div(ranges[i] + TILE - 1, TILE) for i in (across, -1)]
        names = [*(str(self.kept[i]) for i in others), "tile0", "tile1"]
        sizes = [*(ranges[i] for i in others), *counts]
        opened = [self.enter_shared(names, sizes)]
        for tile, i in (("tile0", across), ("tile1", len(ranges) - 1)):
            symbol = str(self.kept[i])
            start, limit = f"{tile} * {TILE}", self.text(ranges[i])
            opened.append(
                self.enter(
                    f"for {symbol} in range({start}, min({start} + {TILE}, {limit})):", symbol
                )
            )
        self._run_all()
        for block in reversed(opened):
            self.leave(block)
        return product(sizes)

    def _is_blocked(self) -> bool:
        """Few long inner loops are cut, so that there is work for every thread."""
        outer, inner = product(self.node.ranges[:-1]), self.node.ranges[-1]
        is_few = isinstance(outer, int) and outer < FEW_ITERATIONS
        return is_few and (not isinstance(inner, int) or inner > 2 * POINTWISE_BLOCK)

    def _run_all(self) -> None:
        for body in self.bodies:
            self.run(body)

    def inner_sizes(self) -> Sequence[Expr]:
        if self._is_single():
            return ()
        if self._transposed_loop() is not None:
            return (TILE, TILE)
        return (POINTWISE_BLOCK,) if self._is_blocked() else self.node.ranges[-1:]

    def _is_single(self) -> bool:
        return len(self.node.ranges) < 2


class _ReductionPrinter(_KernelPrinter):
    """Passes over the reduction loops, and the bodies between them."""

    def write_passes(self) -> None:
        """All passes inside the current iteration."""
        self._reserve_scratch()
        self.write_outputs(-1)
        for level in range(max(self.levels.values()) + 1):
            self.write_pass(
                [b for b in self.bodies if b.covers_reduction and self.levels[b.name] == level]
            )
            self.write_outputs(level)

    def needs_scratch(self) -> list[SchedulerNode]:
        """The bodies whose buffers are removed although a later pass needs them."""
        readers = {b.name: [r for r in self.bodies if b.name in r.read_names] for b in self.bodies}
        return [
            body
            for body in self.bodies
            if body.covers_reduction
            and not body.is_reduction
            and body.name in self.schedule.removed
            if any(self.levels[r.name] > self.levels[body.name] for r in readers[body.name])
        ]

    def _reserve_scratch(self) -> None:
        """Stack arrays for those."""
        for body in self.needs_scratch():
            dtype = compute_dtype(body.buffer.dtype)
            self.scratch[body.name] = self.local_array("row", self.scratch_length(), dtype)

    def scratch_length(self) -> Expr:
        """The elements of one iteration."""
        return product(self.node.reduction_ranges)

    def local_array(self, prefix: str, length: Expr, dtype: torch.dtype) -> str:
        """A stack array of the function."""
        name = self.handler.namer.fresh(prefix)
        self.function.lines.append(
            f"{name} = local_array({length}, {operators.MEMORY_TYPE[dtype]})"
        )
        return name

    def write_pass(self, members: list[SchedulerNode]) -> None:
        """One run over the reduction loops."""
        if not members:
            return
        loops = self.enter_reduction()
        for body in members:
            self.run(body)
        for loop in reversed(loops):
            self.leave(loop)
        for body in members:
            if not body.is_reduction:
                self._after_pass(body)

    def _after_pass(self, body: SchedulerNode) -> None:
        """Later passes find the value on the stack or in memory."""
        del self.handler.at_hand[body.name]
        if body.name in self.scratch:
            dtype = compute_dtype(body.buffer.dtype)
            self.handler.at_hand[body.name] = lambda: self.handler.assign(
                operators.load(dtype, f"{self.scratch[body.name]}[{self._position()}]"),
                dtype,
                self.handler.block.depth,
            )

    def enter_reduction(self) -> list[Block]:
        """Open the loops of a pass."""
        raise NotImplementedError

    def write_outputs(self, level: int) -> None:
        """Store the results of a pass, and run the bodies that are not in the reduction loops."""
        raise NotImplementedError

    def reduction_loops(self) -> list[Block]:
        """Open one loop per reduction range."""
        return [
            self.enter(f"for {symbol} in range({self.text(size)}):", str(symbol))
            for symbol, size in zip(self.reduced, self.node.reduction_ranges)
        ]

    def _position(self) -> str:
        """The number of the current element of the row."""
        position: Expr = 0
        for symbol, size in zip(self.reduced, self.node.reduction_ranges):
            position = position * size + symbol
        return print_expr(position)

    def outputs_of(self, level: int) -> list[SchedulerNode]:
        """The bodies that run between pass `level` and the next."""
        return [b for b in self.bodies if not b.covers_reduction and self.levels[b.name] == level]

    def store_value(self, name: str, index: Expr, value: TextValue) -> None:
        """Store an output that is complete."""
        if name not in self.schedule.removed:
            text, _ = self.handler.index(index)
            element = operators.store(self.arguments.dtypes[name], value.text)
            self.handler.block.lines.append(f"{self.arguments.pointer(name)}[{text}] = {element}")


class _RowPrinter(_ReductionPrinter):
    """Reductions along contiguous memory: accumulators are variables."""

    searches: list[tuple[SchedulerNode, str, str]]

    def write_loops(self) -> Expr:
        self.searches = []
        ranges = self.node.ranges
        row = self.enter_flattened(len(ranges)) if ranges else self.enter("for i in range(lo, hi):")
        self.write_passes()
        self.leave(row)
        return product(ranges)

    def enter_reduction(self) -> list[Block]:
        self.row = self.handler.block
        return self.reduction_loops()

    def _reduce(
        self, kind: ReductionKind, dtype: torch.dtype, values: list[TextValue]
    ) -> TextValue:
        source = values[0].dtype
        if kind in ("argmax", "argmin"):
            return self._reduce_position(kind, values)
        held = self.accumulator_dtype(kind, source, LONG_ROW_SUM)
        accumulator = self.handler.namer.fresh("acc")
        self.row.lines.append(
            f"{accumulator} = {operators.constant(operators.neutral(kind, held), held)}"
        )
        value = operators.convert(values[0].text, source, held)
        self.handler.block.lines.append(
            f"{accumulator} = {operators.combine(kind, accumulator, value, held)}"
        )
        return TextValue(operators.convert(accumulator, held, dtype), dtype, self.row.depth)

    def _reduce_position(self, kind: ReductionKind, values: list[TextValue]) -> TextValue:
        """First the extreme value, which vectorizes; `_search` then looks for its position."""
        candidate, _ = values
        best, place = self.handler.namer.fresh("best"), self.handler.namer.fresh("place")
        start = operators.constant(operators.neutral(kind, candidate.dtype), candidate.dtype)
        self.row.lines += [f"{best} = {start}", f"{place} = int64({2**63 - 1})"]
        step = operators.combine(kind[3:], best, candidate.text, candidate.dtype)
        self.handler.block.lines.append(f"{best} = {step}")
        self.searches.append((self.current, best, place))
        return TextValue(place, torch.int64, self.row.depth)

    def _search(self) -> None:
        """The smallest position of each extreme value, in another pass."""
        searches, self.searches = self.searches, []
        if not searches:
            return
        pending = [*self.handler.pending]
        loops = self.enter_reduction()
        for body, best, place in searches:
            self.handler.reduce = lambda kind, dtype, values, best=best, place=place: (  # type: ignore[misc]
                self._match(values, best, place)
            )
            self.run(body)
        self.handler.reduce = self._reduce
        self.handler.pending = pending
        for loop in reversed(loops):
            self.leave(loop)

    def _match(self, values: list[TextValue], best: str, place: str) -> TextValue:
        candidate, position = values
        found = f"{candidate} == {best}"
        if candidate.dtype.is_floating_point:
            found = f"({found}) | ({candidate} != {candidate})"  # NaN is found where it is best
        step = f"{place} = min({place}, where({found}, {position}, int64({2**63 - 1})))"
        self.handler.block.lines.append(step)
        return TextValue(place, torch.int64, self.row.depth)

    def write_outputs(self, level: int) -> None:
        self._search()
        for name, index, value in self.handler.pending:
            result = self.handler.assign(
                value.text, value.dtype, self.handler.block.depth, "result"
            )
            self.handler.at_hand[name] = lambda result=result: result  # type: ignore[misc]
            self.store_value(name, index, result)
        self.handler.pending.clear()
        for body in self.outputs_of(level):
            self.run(body)

    def inner_sizes(self) -> Sequence[Expr]:
        return self.node.reduction_ranges


def _better(kind: str, candidate: TextValue, position: TextValue, best: str, place: str) -> str:
    """NaN wins over numbers; of equal candidates the smallest position wins."""
    sign = ">" if kind == "argmax" else "<"
    text = f"({candidate} {sign} {best}) | (({candidate} == {best}) & ({position} < {place}))"
    if candidate.dtype.is_floating_point:
        nan, known = f"({candidate} != {candidate})", f"({best} == {best})"
        text += f" | ({nan} & ({known} | ({position} < {place})))"
    return text


class _ColumnPrinter(_ReductionPrinter):
    """Reductions across rows: a block of neighbouring outputs has an array of accumulators."""

    def write_loops(self) -> Expr:
        *outer, width = self.node.ranges
        self.width = width
        self.length = SCRATCH_COLUMNS if self.needs_scratch() else _column_block(width)
        if isinstance(width, int):
            self.length = min(self.length, width)
        blocks = floor_div(width + self.length - 1, self.length)
        self.limits = "start, stop"
        if blocks == 1:
            self.limits = str(width)  # a constant number of turns can be unrolled
            loop = (
                self.enter_flattened(len(outer)) if outer else self.enter("for i in range(lo, hi):")
            )
        else:
            loop = self.enter_flattened(len(outer), blocks, "block")
            loop.lines += [
                f"start = block * {self.length}",
                f"stop = min(start + {self.length}, {self.text(width)})",
            ]
        self.write_passes()
        self.leave(loop)
        return product((*outer, blocks))

    def inner_sizes(self) -> Sequence[Expr]:
        return (*self.node.reduction_ranges, self.length)

    def enter_columns(self) -> Block:
        """The vectorized loop over the outputs of the block."""
        symbol = str(self.kept[-1])
        block = self.enter(f"for {symbol} in range({self.limits}):", symbol, "column")
        block.lines.append(f"column = {symbol}" + (" - start" if "start" in self.limits else ""))
        return block

    def enter_reduction(self) -> list[Block]:
        self.outside = self.handler.block
        return [*self.reduction_loops(), self.enter_columns()]

    def _position(self) -> str:
        return f"({super()._position()}) * {self.length} + column"

    def scratch_length(self) -> Expr:
        return product((*self.node.reduction_ranges, self.length))

    def _accumulator(self, prefix: str, dtype: torch.dtype, start: bool | int | float) -> str:
        """An array of accumulators, set to their start before the pass."""
        name = self.local_array(prefix, self.length, dtype)
        value = operators.store(dtype, operators.constant(start, dtype))
        self.outside.lines += [
            f"for column in range({'stop - start' if 'start' in self.limits else self.limits}):",
            f"    {name}[column] = {value}",
        ]
        return name

    def _reduce(
        self, kind: ReductionKind, dtype: torch.dtype, values: list[TextValue]
    ) -> TextValue:
        source = values[0].dtype
        if kind in ("argmax", "argmin"):
            return self._reduce_position(kind, values)
        held = self.accumulator_dtype(kind, source, LONG_COLUMN_SUM)
        place = f"{self._accumulator('acc', held, operators.neutral(kind, held))}[column]"
        value = operators.convert(values[0].text, source, held)
        step = operators.combine(kind, operators.load(held, place), value, held)
        self.handler.block.lines.append(f"{place} = {operators.store(held, step)}")
        return TextValue(operators.convert(operators.load(held, place), held, dtype), dtype, 0)

    def _reduce_position(self, kind: ReductionKind, values: list[TextValue]) -> TextValue:
        candidate, position = values
        neutral = operators.neutral(kind, candidate.dtype)
        best = f"{self._accumulator('best', candidate.dtype, neutral)}[column]"
        place = f"{self._accumulator('place', torch.int64, 2**63 - 1)}[column]"
        choice = self.handler.namer.fresh("better")
        held = operators.load(candidate.dtype, best)
        chosen = operators.store(candidate.dtype, f"where({choice}, {candidate}, {held})")
        self.handler.block.lines += [
            f"{choice} = {_better(kind, candidate, position, held, place)}",
            f"{best} = {chosen}",
            f"{place} = where({choice}, {position}, {place})",
        ]
        return TextValue(place, torch.int64, 0)

    def write_outputs(self, level: int) -> None:
        members = self.outputs_of(level)
        if not members and not self.handler.pending:
            return
        loop = self.enter_columns()
        for name, index, value in self.handler.pending:
            result = self.handler.assign(value.text, value.dtype, loop.depth, "result")
            self._share(name, result)
            self.store_value(name, index, result)
        self.handler.pending.clear()
        for body in members:
            self.run(body)
            self._share(body.name, self.handler.at_hand[body.name]())
        self.leave(loop)
        for name in [*self._shared]:
            place, dtype = self._shared[name]
            self.handler.at_hand[name] = lambda place=place, dtype=dtype: self.handler.assign(  # type: ignore[misc]
                operators.load(dtype, place), dtype, self.handler.block.depth
            )

    @property
    def _shared(self) -> dict[str, tuple[str, torch.dtype]]:
        """Where the outputs are that other loops of the kernel need."""
        return self.__dict__.setdefault("_shared_places", {})  # type: ignore[no-any-return]

    def _share(self, name: str, value: TextValue) -> None:
        """Keep an output for the loops after this one, if any reads it."""
        self.handler.at_hand[name] = lambda: value
        if any(name in body.read_names for body in self.bodies):
            place = f"{self.local_array('value', self.length, value.dtype)}[column]"
            self.handler.block.lines.append(f"{place} = {operators.store(value.dtype, value.text)}")
            self._shared[name] = (place, value.dtype)


def _column_block(width: Expr) -> int:
    """As many columns as make eight blocks, so that there is work for threads: 64 to 512."""
    if not isinstance(width, int):
        return COLUMN_BLOCK
    return min(COLUMN_BLOCK, max(SCRATCH_COLUMNS, width // 8 // SCRATCH_COLUMNS * SCRATCH_COLUMNS))
