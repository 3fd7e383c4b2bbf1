"""From a scheduled kernel to a Halide program: the functions of its loop bodies, and their outputs.

    kernel ::= inputs, sizes, definition*, output*, schedule
    inputs ::= flat memory of one dimension, read at a body's addresses
    output ::= a function of all kept loops, or of all loops, of as many values as are stored there;
             |  a function of flat memory, which a scatter changes;
             |  one number: an index that was out of range, or none

An output's strides are those of a body's stores. So a program names no address that it writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from minitorch2.codegen.common import TextValue, user_lines
from minitorch2.codegen.halide import Argument, Dim, KernelSource, schedule
from minitorch2.codegen.halide.handler import HalideHandler, name_of
from minitorch2.codegen.halide.schedule import Definitions, Nest, Total
from minitorch2.codegen.numba import operators
from minitorch2.codegen.target import Kernel
from minitorch2.errors import LoweringError
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, index_symbols, product
from minitorch2.loopir.loop_order import reduces_across
from minitorch2.loopir.memory_plan import outlives_pass
from minitorch2.loopir.ops import SHORT_FLOATS, use_handler
from minitorch2.loopir.schedule import KernelNode, Schedule, SchedulerNode, bodies

HEAD = "import halide as hl\n\nfrom minitorch2.codegen.halide import functions as lib\n\n\n"
LONGEST_SUM = 16384
"""So many float32 are added up in float32."""
FEWEST_ELEMENTS = 1024
"""An autoscheduler orders kernels of at least so many elements; the others keep our schedule."""
MOST_ELEMENTS = 2**31 - 1
"""Halide's indices have 32 bits."""


def print_halide_kernel(
    node: KernelNode, plan: Schedule, buffers: Mapping[str, Buffer], name: str, by: str
) -> Kernel[KernelSource]:
    """Return the kernel of a scheduled node; `by` is the option ``halide_schedule``.

    Raises:
        LoweringError: Halide cannot say it.
    """
    return _KernelPrinter(node, plan, buffers).print(name, by)


class _KernelPrinter:
    """The printer of one kernel; `lines` are the handler's, to which definitions are added."""

    def __init__(self, node: KernelNode, plan: Schedule, buffers: Mapping[str, Buffer]) -> None:
        self.node, self.plan, self.buffers, self.bodies = node, plan, buffers, bodies(node)
        self.roots: list[str] = []
        self.read: dict[str, str] = {}
        self.changed: set[str] = set()
        dtypes = {each: buffer.dtype for each, buffer in buffers.items()}
        self.handler = HalideHandler(self._pointer, dtypes)
        self.handler.reduce = self._reduce
        self.lines, self.fresh = self.handler.lines, self.handler.namer.fresh
        self.kept = index_symbols("i", max(1, len(node.ranges)))
        sizes = node.reduction_ranges or (1,) * node.has_inner_loops
        self.reduced = index_symbols("r", len(sizes))
        self.handler.ranges = (*zip(self.kept, node.ranges or (1,)), *zip(self.reduced, sizes))
        self.found = Definitions()
        self.limits: list[Dim] = []
        if any(isinstance(n, int) and n > MOST_ELEMENTS for n in (product(node.ranges),)):
            raise LoweringError("Halide has no indices beyond 32 bits")

    # -- arguments ---------------------------------------------------------------------------------

    def _place(self, name: str) -> int:
        """Return the number of the kernel's pointer for a buffer."""
        root = self.plan.inplace.owner(name)
        if root not in self.roots:
            self.roots.append(root)
        return self.roots.index(root)

    def _pointer(self, name: str) -> str:
        root = self.plan.inplace.owner(name)
        size = self.buffers[root].fixed_layout().storage_size()
        if isinstance(size, int) and size > MOST_ELEMENTS:
            raise LoweringError("Halide has no indices beyond 32 bits")
        self._place(name)
        return self.read.setdefault(root, f"in_ptr{len(self.read)}")

    def _dim(self, expr: Expr) -> Dim:
        return (
            int(expr) if isinstance(expr, int) or expr.is_Integer else str(self.handler.size(expr))
        )

    def _input(self, root: str) -> Argument:
        layout = self.buffers[root].fixed_layout()
        size = self._dim(layout.storage_size())
        return Argument(self._place(root), _memory_type(layout.dtype), ((size, 1),))

    # -- definitions -------------------------------------------------------------------------------

    def _loops(self, covers_reduction: bool) -> list[tuple[str, Expr]]:
        """Return the loops of a body with their sizes, outermost first."""
        ranges = self.handler.ranges
        loops = ranges if covers_reduction else ranges[: len(self.kept)]
        return [(str(symbol), size) for symbol, size in loops]

    def define(self, prefix: str, loops: Sequence[tuple[str, Expr]], value: str) -> str:
        """Add a function of loops; return its name."""
        name = self.fresh(prefix)
        self.lines.append(f'{name} = hl.Func("{name}")')
        self.lines.append(f"{name}[{_call(loops)}] = {value}")
        return name

    def _domain(self, loops: Sequence[tuple[str, Expr]], first: int = 0) -> str:
        """Add a domain of reduction over loops; return its name."""
        name = self.fresh("k")
        sizes = [
            f"({first}, {self.handler.index(n)}{f' - {first}' * bool(first)})" for _, n in loops
        ]
        self.lines.append(f'{name} = hl.RDom([{", ".join(reversed(sizes))}], "{name}")')
        return name

    def _reduce(self, kind: str, dtype: torch.dtype, values: list[TextValue]) -> TextValue:
        if kind.startswith("scan"):
            return self._scan(kind.removeprefix("scan "), dtype, values[0])
        full, kept = self._loops(True), self._loops(False)
        k = self._domain(full[len(kept) :])
        inner = _places(full[len(kept) :], k)
        start = operators.neutral(kind, values[0].dtype)
        if len(values) == 2:
            return self._extreme(kind, dtype, values, k)
        x, source = values[0], values[0].dtype
        wide = name_of(self._accumulator(kind, source))
        value = self.define("v", full, f"lib.summand('{kind}', {x}, '{wide}')")
        begin = f"lib.neutral('{kind}', {x}, {_number(start)})"
        total = self.define("total", kept, begin if wide == name_of(source) else "hl.f64(0.0)")
        if kind == "prod" and wide != name_of(source):
            self.lines[-1] = f"{total}[{_call(kept)}] = hl.f64(1.0)"
        old, new = f"hl.Expr({total}[{_call(kept)}])", f"hl.Expr({value}[{inner}{_call(kept)}])"
        self.lines.append(f"{total}[{_call(kept)}] = lib.COMBINE['{kind}']({old}, {new})")
        self.found.totals[total] = Total(k, kept, full[len(kept) :], kind == "xor_sum")
        return self.handler.assign(f"lib.total({old}, '{kind}', '{name_of(dtype)}')", dtype)

    def _accumulator(self, kind: str, dtype: torch.dtype) -> torch.dtype:
        """float64 for long sums of float32, else the values' own dtype."""
        length = product(self.node.reduction_ranges)
        is_long = not isinstance(length, int) or length > LONGEST_SUM
        is_sum = kind in ("sum", "prod") and dtype == torch.float32
        return torch.float64 if is_sum and is_long else dtype

    def _extreme(self, kind: str, dtype: torch.dtype, values: list[TextValue], k: str) -> TextValue:
        """Define the place of an extreme: a function of two values."""
        full, kept = self._loops(True), self._loops(False)
        inner = _places(full[len(kept) :], k)
        value = self.define("v", full, f"hl.Tuple([{values[0]}, {values[1]}])")
        start = self.handler.constant(operators.neutral(kind, values[0].dtype), values[0].dtype)
        last = self.handler.constant(2**63 - 1, torch.int64)
        total = self.define("total", kept, f"hl.Tuple([{start}, {last}])")
        old, new = (
            f"lib.both({f})" for f in (f"{total}[{_call(kept)}]", f"{value}[{inner}{_call(kept)}]")
        )
        self.lines.append(f"{total}[{_call(kept)}] = lib.first_extreme('{kind}', {old}, {new})")
        self.found.totals[total] = Total(k, kept, full[len(kept) :], True)
        return self.handler.assign(f"hl.Expr({total}[{_call(kept)}][1])", dtype)

    def _scan(self, kind: str, dtype: torch.dtype, value: TextValue) -> TextValue:
        """Define a running combination along the only reduced loop."""
        full = self._loops(True)
        if len(self.reduced) != 1:
            raise LoweringError("Halide kernels scan along one loop")
        wide = name_of(self._accumulator(kind, value.dtype))
        v = self.define("v", full, f"lib.summand('{kind}', {value}, '{wide}')")
        total = self.define("total", full, f"{v}[{_call(full)}]")
        k = self._domain(full[-1:], first=1)
        rest = _call(full[:-1])
        old, new = f"hl.Expr({total}[{k}[0] - 1, {rest}])", f"hl.Expr({v}[{k}[0], {rest}])"
        step = f"lib.COMBINE['{kind}']({old}, {new})"
        self.lines.append(f"{total}[{k}[0], {rest}] = {step}")
        self.found.totals[total] = Total(k, full[:-1], full[-1:], True)
        text = f"lib.total(hl.Expr({total}[{_call(full)}]), '{kind}', '{name_of(dtype)}')"
        return self.handler.assign(text, dtype)

    # -- bodies ------------------------------------------------------------------------------------

    def _run(self, body: SchedulerNode) -> None:
        kept = self.kept if self.node.ranges else ()
        before = len(self.handler.complaints)
        reduced = self.reduced if self.node.reduction_ranges else ()
        body.run(kept, reduced if body.covers_reduction else ())
        index, value, mode = self.handler.stored
        is_full = body.covers_reduction and not body.is_reduction
        loops = self._loops(is_full)
        access = body.writes_of[0]
        if body.scatters or not access.is_linear:
            if len(self.handler.complaints) > before:
                raise LoweringError("Halide cannot leave out a store at a wrong index")
            self._scatter(body, loops, index, value, mode)
            return
        if is_full and self._is_kept_for_later(body):
            name = self.define("row", loops, value.text)
            self.found.rows.append(name)
            value = TextValue(f"hl.Expr({name}[{_call(loops)}])", value.dtype, 0)
        self.handler.calls[body.name] = value
        if body.name not in self.plan.removed:
            strides = [0] * (not self.node.ranges) + [self._dim(s or 0) for s in access.strides]
            self._store(body, loops, value, [*strides, 0], access.offset)

    def _is_kept_for_later(self, body: SchedulerNode) -> bool:
        """Return whether a value of a row is needed again when its row has been reduced."""
        return body.name in self.plan.removed and outlives_pass(body, self.node)

    def _store(
        self,
        body: SchedulerNode,
        loops: list[tuple[str, Expr]],
        value: TextValue,
        strides: list[Dim],
        offset: Expr,
    ) -> None:
        """Add a value to the output function of these loops."""
        nest = next((n for n in self.found.nests if n.loops == loops), None)
        if nest is None:
            nest = Nest(self.fresh("out"), loops)
            self.found.nests.append(nest)
        dtype = body.buffer.dtype
        dims = [(self._dim(size), stride) for (_, size), stride in zip(loops, strides)]
        nest.elements.append(self.handler.element(value, dtype))
        place = self._place(body.name)
        nest.arguments.append(
            Argument(place, _memory_type(dtype), tuple(reversed(dims)), self._dim(offset))
        )

    def _scatter(
        self,
        body: SchedulerNode,
        loops: list[tuple[str, Expr]],
        index: Expr,
        value: TextValue,
        mode: str,
    ) -> None:
        """Define an output that changes memory where a body says so, in the order of the loops."""
        root, dtype = self.plan.inplace.owner(body.name), body.buffer.dtype
        size, name = self.buffers[root].fixed_layout().storage_size(), self.fresh("out")
        at = self.define("at", loops, f"hl.i32({self.handler.index(index)})")
        v = self.define("v", loops, value.text)
        k = self._domain(loops)
        inner = _places(loops, k)
        self.lines += [
            f'{name}, x = hl.Func("{name}"), hl.Var("x")',
            f"{name}[x] = hl.undef(lib.TYPES['{_memory_type(dtype)}'])",
            f"place = hl.clamp(hl.Expr({at}[{inner}]), 0, {self.handler.index(size)} - 1)",
        ]
        new = TextValue(f"hl.Expr({v}[{inner}])", value.dtype, 0)
        if mode == "add":
            old = _as_value(f"hl.Expr({name}[place])", dtype)
            new = TextValue(f"lib.add({old}, {new})", value.dtype, 0)
        self.lines.append(f"{name}[place] = {self.handler.element(new, dtype)}")
        argument = Argument(self._place(root), _memory_type(dtype), ((self._dim(size), 1),))
        self.found.nests.append(Nest(name, [], [], [argument]))
        self.changed.add(root)

    def _complain(self, text: str, size: Expr) -> None:
        """Define an output of one number: the largest index that was out of range."""
        words = self.handler.variables(text)
        loops = [loop for loop in self._loops(True) if loop[0] in words] or self._loops(False)[:1]
        bad = self.define("bad", loops, text)
        k = self._domain(loops)
        name = self.define("wrong", [("e", 1)], "hl.i64(lib.NOTHING_WRONG)")
        found = f"hl.Expr({bad}[{_places(loops, k)}])"
        self.lines.append(f"{name}[e] = hl.max(hl.Expr({name}[e]), {found})")
        self.found.nests.append(Nest(name, [], [], [Argument(-1, "int64", ((1, 1),))]))
        self.limits.append(self._dim(size))

    # -- the program -------------------------------------------------------------------------------

    def print(self, name: str, by: str) -> Kernel[KernelSource]:
        """Write all definitions, the schedule, and the function around them."""
        with use_handler(self.handler):
            for member in self.bodies:
                self._run(member)
        for text, size in self.handler.complaints.items():
            self._complain(text, size)
        if self.changed & {*self.read} or len({*self._written()}) < len(self._written()):
            raise LoweringError("Halide has no order for reads and changes of one memory")
        for nest in self.found.nests:
            if nest.elements:
                several = f"hl.Tuple([{', '.join(nest.elements)}])"
                value = several if len(nest.elements) > 1 else nest.elements[0]
                self.lines += [f'{nest.name} = hl.Func("{nest.name}")',
                               f"{nest.name}[{_call(nest.loops)}] = {value}"]  # fmt: skip
        inputs = [self._input(root) for root in self.read]
        outputs = [each for nest in self.found.nests for each in nest.arguments]
        lines = self._declared(inputs) + self.lines
        words = [n for n in self.handler.sizes.values() if any(n in line for line in lines)]
        lines = [line for name in words for line in _parameter(name)] + lines
        by = by if self._is_worth_a_search() else "ours"
        across = reduces_across(self.node) if self.reduced else False
        for nest in self.found.nests:
            dims = [each.dims for each in nest.arguments]
            lines.append(f"lib.shape({nest.name}.output_buffers(), {dims})")
        lines += schedule.ours(self.found, across) if by == "ours" else []
        given = ", ".join((*self.read.values(), *(f"{n}_" for n in words)))
        results = ", ".join(nest.name for nest in self.found.nests)
        lines.append(f"pipeline = hl.Pipeline([{results}])")
        if by != "ours":
            estimates = [(f, each.dims) for f, each in zip(self.read.values(), inputs)]
            estimates += [(n.name, n.arguments[0].dims) for n in self.found.nests]
            lines += schedule.found_by(by, estimates, words)
        lines.append(f"return pipeline, [{given}]")
        body = "".join(f"    {line}\n" for line in (*user_lines(self.node), *lines))
        names = tuple(self.handler.sizes.values())
        source = KernelSource(
            name, f"{HEAD}def {name}():\n{body}", len(self.roots), names, tuple(words),
            (*inputs, *outputs), len(inputs), tuple(self.limits),
        )  # fmt: skip
        iterations = product(self.node.ranges)
        return Kernel(source, iterations, tuple(self.roots), tuple(self.handler.sizes))

    def _is_worth_a_search(self) -> bool:
        """Return whether an autoscheduler is asked; degenerate loops make some end the process."""
        counts = [product([n for _, n in nest.loops]) for nest in self.found.nests]
        is_plain = all(nest.loops for nest in self.found.nests)
        elements = product(self.node.reduction_ranges)
        known = [n for n in (*counts, elements) if isinstance(n, int)]
        return is_plain and 0 not in known and math.prod(known) >= FEWEST_ELEMENTS

    def _written(self) -> list[int]:
        return [a.pointer for nest in self.found.nests for a in nest.arguments if a.pointer >= 0]

    def _declared(self, inputs: list[Argument]) -> list[str]:
        names = ["e", *(str(symbol) for symbol, _ in self.handler.ranges)]
        lines = [f"{', '.join(names)} = (hl.Var(name) for name in {names})"]
        for name, argument in zip(self.read.values(), inputs):
            kind = f"lib.TYPES['{argument.dtype}']"
            lines += [f'{name} = hl.ImageParam({kind}, 1, "{name}")',
                      f"lib.shape([{name}], [{argument.dims}])"]  # fmt: skip
        return lines


def _call(loops: Sequence[tuple[str, Expr]]) -> str:
    """Return loops as the arguments of a function, innermost first."""
    return ", ".join(name for name, _ in reversed(loops))


def _places(loops: Sequence[tuple[str, Expr]], domain: str) -> str:
    """Return the variables of a domain as arguments, with a comma behind them."""
    return "".join(f"{domain}[{i}], " for i in range(len(loops)))


def _memory_type(dtype: torch.dtype) -> str:
    return str(operators.MEMORY_TYPE[dtype])


def _as_value(place: str, dtype: torch.dtype) -> str:
    return f"lib.from_{name_of(dtype)}({place})" if dtype in SHORT_FLOATS else place


def _number(value: bool | int | float) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def _parameter(name: str) -> list[str]:
    """Return the lines of a size argument; indices have 32 bits, the bits of a float 64."""
    cast = "hl.i32" if name.startswith("size") else "hl.i64"
    return [f'{name}_ = hl.Param(hl.Int(64), "{name}")', f"{name} = {cast}({name}_)"]
