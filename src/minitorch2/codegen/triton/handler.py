"""The handler of loop bodies that answers with Triton text (PyTorch 2 paper, section 4.5)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import sympy
import torch

from minitorch2.codegen.triton.arguments import KernelArguments
from minitorch2.codegen.triton.blocks import SECTOR
from minitorch2.codegen.triton.body import KernelBody
from minitorch2.codegen.triton.domain import KernelDomain
from minitorch2.codegen.triton.functions import DECIDED, FUNCTIONS
from minitorch2.codegen.triton.indexing import XINDEX, IndexPrinter, is_multiple
from minitorch2.codegen.triton.online import Follower
from minitorch2.codegen.triton.reductions import POSITIONED, ReductionPrinter
from minitorch2.codegen.triton.values import (
    EVERYWHERE,
    Dimensions,
    R,
    Value,
    X,
    constant,
    join,
    number_text,
    triton_dtype,
)
from minitorch2.errors import VerificationError
from minitorch2.loopir.expressions import Expr, equal, simplify
from minitorch2.loopir.handlers.effects import EffectHandler
from minitorch2.loopir.ops import (
    PREDICATES,
    Number,
    OpsHandler,
    ReductionKind,
    ScanKind,
    StoreMode,
    compute_dtype,
    use_handler,
)
from minitorch2.loopir.schedule import SchedulerNode

INDEX_ARITHMETIC: Final = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
"""What is computed of indices as an expression: 32 bits are enough where 64 are asked for."""
EXACT: Final = 2**24
"""Float32 holds all integers up to this one."""


class TritonHandler(OpsHandler[Value]):
    """The handler that prints loop nests into one kernel body.

    Values that one nest stores and another loads stay in registers, rounded as memory would round
    them, so fusion never changes a number.
    """

    def __init__(
        self,
        nodes: Mapping[str, SchedulerNode],
        dtypes: Mapping[str, torch.dtype],
        domain: KernelDomain,
        arguments: KernelArguments,
        removed: frozenset[str],
        inplace: frozenset[str],
    ) -> None:
        self.nodes = nodes
        self.dtypes = dtypes
        self.domain = domain
        self.arguments = arguments
        self.removed = removed
        self.inplace = inplace
        self.final_stores: list[str] = []
        self.widened: set[str] = set()
        self.body = KernelBody()
        self.ranges = domain.ranges()
        steps = {XINDEX: domain.blocks.x} if domain.blocks.r is not None else {}
        self.index = IndexPrinter(self.body, arguments, self.ranges, steps=steps)
        self.checks_indices = False
        self.is_last_pass: bool | None = None
        self._read_in_pass: set[str] = set()
        self._read_before: set[str] = set()
        self._masks: list[Value] = []
        self._written: dict[str, tuple[Expr, Value]] = {}
        self._written_in_loop: dict[str, tuple[Expr, Value]] = {}
        self._reductions: dict[tuple[ReductionPrinter, str], str] = {}
        self.online: Mapping[str, Follower] = {}
        self._node = ""
        self._recomputing = False
        self._node_dims: Dimensions = X

    # -- one nest after the other ---------------------------------------------------------------

    def run(self, node: SchedulerNode) -> None:
        """Print a nest at the current place."""
        self._run(node, self)

    def _run(self, node: SchedulerNode, handler: OpsHandler[Any]) -> None:
        index, rindex = self.domain.index(node)
        outer = self._node, self._node_dims
        self._node, self._node_dims = node.name, self.domain.stored_along(node)
        with use_handler(handler):
            node.run(index, rindex)
        self._node, self._node_dims = outer

    def know(self, name: str, index: Expr, value: Value) -> None:
        """Note a buffer whose element at `index` is in a register before any nest runs."""
        self._written[name] = (index, value)

    def forget_loop_values(self) -> None:
        """Forget the values that vary along the reduction, when its loop ends."""
        self._written_in_loop = {}
        self._reductions = {}
        self._read_before |= self._read_in_pass

    # -- memory ---------------------------------------------------------------------------------

    def load(self, name: str, index: Expr) -> Value:
        """Return the value from a register if this kernel has written it, else from memory."""
        index = simplify(index, self.ranges)
        if name in self.nodes:
            return self._forward(name, index)
        text, dims = self._read(name, index)
        return self._widened_element(self._loaded(text, self.dtypes[name], dims))

    def _loaded(self, text: str, dtype: torch.dtype, dims: Dimensions) -> Value:
        """Return a variable of a dtype in memory."""
        return replace(self._assign(text, dtype, dims), dtype=dtype)

    def _widened_element(self, element: Value) -> Value:
        """Return the value of an element of memory."""
        dtype = compute_dtype(element.dtype)
        if element.dtype == dtype:
            return element
        text = f"{element.text}.to({triton_dtype(dtype)})"
        value = self._assign(text, dtype, element.dims)
        self.widened.add(value.text)
        return replace(value, element=element)

    def _read(self, name: str, index: Expr) -> tuple[str, Dimensions]:
        """Read elements as memory holds them."""
        text = f"tl.load({self.arguments.input(name)} + ({self._address(index)})"
        dims = self.index.dims(index) | join(*self._masks)
        options = self._load_options(dims, self.dtypes[name])
        policy = self._eviction_policy(name, index) if "r" in dims else None
        options += f", eviction_policy='{policy}'" if policy else ""
        return f"{text}{options})", dims

    def _address(self, index: Expr) -> str:
        """Return the address as a block wide enough for the masks in force."""
        dims, text = self.index.dims(index), self.index.text(index)
        if join(*self._masks) <= dims:
            return text
        return f"{text} + tl.full({self.domain.shape(dims | join(*self._masks))}, 0, tl.int32)"

    def _load_options(self, dims: Dimensions, dtype: torch.dtype) -> str:
        options = ""
        mask = self._mask(dims)
        if mask:
            options += f", {mask}, other={number_text(0, dtype)}"
        return options

    def _eviction_policy(self, name: str, index: Expr) -> str | None:
        """Return the cache policy of a load.

        An element that another pass reads again should stay in the cache, and make room when it has
        been read again. A sector that belongs to two loads has to stay for the second one.
        """
        if self.is_last_pass is None:
            return None
        self._read_in_pass.add(name)
        if self.is_last_pass and name in self._read_before:
            return "evict_first"
        is_shared = not is_multiple(index, SECTOR // self.dtypes[name].itemsize)
        return "evict_last" if is_shared or not self.is_last_pass else None

    def _mask(self, dims: Dimensions) -> str:
        """Return the mask of the lanes that count along `dims`; empty if all count."""
        masks = [f"{dim}mask" for dim in "kryx" if dim in dims and self.domain.needs_mask(dim)]
        return " & ".join([*masks, *(mask.text for mask in self._masks)])

    def _forward(self, name: str, index: Expr) -> Value:
        written = self._written.get(name) or self._written_in_loop.get(name)
        if written is None:
            written = self._recompute(name)
        if not equal(written[0], index):
            raise VerificationError(f"{name} is written at {written[0]} and read at {index}")
        value, dtype = written[1], self.dtypes[name]
        return value if compute_dtype(dtype) == dtype else self.to_dtype(value, dtype)

    def _recompute(self, name: str) -> tuple[Expr, Value]:
        """Print a nest again in this pass, without its store to memory."""
        outer, self._recomputing = self._recomputing, True
        masks, self._masks = self._masks, []
        self.run(self.nodes[name])
        self._recomputing, self._masks = outer, masks
        return self._written.get(name) or self._written_in_loop[name]

    def store(self, name: str, index: Expr, value: Value, mode: StoreMode = "set") -> None:
        """Store to a register, and to memory unless the buffer lives in this kernel only.

        Elements of several programs may have one address: additions are atomic.
        """
        index = simplify(index, self.ranges)
        in_loop = self.body.in_loop and "r" in (value.dims | self._node_dims)
        (self._written_in_loop if in_loop else self._written)[name] = (index, value)
        if self._recomputing or name in self.removed:
            return
        text = self._store_text(name, index, value, mode)
        if name in self.inplace:  # after every load of what it overwrites
            self.final_stores.append(text)
        else:
            self.body.line(text, self._node_dims)

    def store_reduction(self, name: str, index: Expr, value: Value) -> None:
        """Store like `store`, after the pass."""
        index = simplify(index, self.ranges)
        self._written[name] = (index, value)
        if name not in self.removed:
            self.body.after_loop(self._store_text(name, index, value))

    def _store_text(self, name: str, index: Expr, value: Value, mode: StoreMode = "set") -> str:
        dims, address = self._node_dims, self.index.text(index)
        if not self.index.dims(index) >= dims:
            address += f" + tl.full({self.domain.shape(dims)}, 0, tl.int32)"
        mask = self._mask(dims)
        pointer = self.arguments.output(name)
        tail = f", {mask}" if mask else ""
        function = "store" if mode == "set" else "atomic_add"
        element = value.text
        if mode == "set" and value.element and value.element.dtype == self.dtypes[name]:
            element = value.element.text
        return f"tl.{function}({pointer} + ({address}), {element}{tail})"

    # -- reductions -----------------------------------------------------------------------------

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: Value | tuple[Value, Value],
    ) -> Value:
        """Collapse the block now, or accumulate in this pass and collapse after it."""
        if isinstance(value, tuple):
            return self._positioned(dtype, kind, value)
        if kind == "any" and value.dtype != torch.bool:
            value = self.to_dtype(value, torch.bool)
        is_bool = value.dtype == torch.bool
        if is_bool:
            value = self.to_dtype(value, torch.int32)
        printer = ReductionPrinter(kind, value.dtype)
        block = self._block(value)
        if self._node in self.online:
            name = self._leading(printer, block, self.online[self._node])
        elif self.domain.looped:
            name = self._looped(printer, block, is_bool)
        else:
            column = printer.collapse(self._padded(block, printer.neutral()))
            name = self.body.assign(f"{column}{' != 0' if is_bool else ''}", X)
        return self._of_dtype(Value(name, torch.bool if is_bool else value.dtype, X), dtype)

    def _looped(self, printer: ReductionPrinter, block: str, is_bool: bool) -> str:
        """Accumulate in this pass; the same reduction of the same values only once."""
        known = self._reductions.get((printer, block))
        if known is None:
            known = self._reductions[printer, block] = self.body.fresh()
            name, part = f"_{known}", self._padded(block, printer.neutral())
            if self.domain.blocks.fold > 1:
                part = printer.reduced(self._folded(part))
            self._open(name, printer)
            self.body.line(f"{name} = {printer.combine(name, part)}", X | R)
            column = printer.collapse(name)
            self.body.after_loop(f"{known} = {column}{' != 0' if is_bool else ''}")
        return known

    def _leading(self, printer: ReductionPrinter, block: str, follower: Follower) -> str:
        """Return a reduction, and in the same pass the sum that needs it."""
        name, dtype = self.body.fresh(), printer.dtype
        part = self._folded(self._padded(block, printer.neutral()))
        if follower.count is None:
            accumulators = [f"_{name}", f"_{name}_sum"]
            step = f"lib.running_softmax({', '.join([*accumulators, part])})"
            whole = f"lib.rescaled(_{name}_sum, _{name}, {name})"
        else:
            accumulators = [f"_{name}", f"_{name}_squares", f"_{name}_count"]
            step = f"lib.running_moments({', '.join([*accumulators, part, self._ones(dtype)])})"
            mean = f"{name} / {self._number(follower.count, dtype).text}"
            whole = f"lib.squares_from({', '.join([mean, *accumulators])})"
        sums = ReductionPrinter("sum", dtype)
        for accumulator, kind in zip(accumulators, (printer, sums, sums), strict=False):
            self._open(accumulator, kind)
        self.body.line(f"{', '.join(accumulators)} = {step}", X | R)
        self.body.after_loop(f"{name} = {printer.collapse(f'_{name}')}")
        total = self.body.fresh()
        self.body.after_loop(f"{total} = tl.sum({whole}, 1)[:, None]")
        self._run(follower.node, _Reduced(self, Value(total, dtype, X)))
        return name

    def _number(self, count: Number | Expr, dtype: torch.dtype) -> Value:
        if isinstance(count, sympy.Expr):
            return self.index_expr(count, dtype)
        return self.constant(count, dtype)

    def _ones(self, dtype: torch.dtype) -> str:
        """Return 1 for each element of a block that counts, and 0 for others."""
        kind, fold = triton_dtype(dtype), self.domain.blocks.fold
        shape = f"[1, {fold}, RBLOCK // {fold}]"
        if self.domain.needs_mask("r"):
            return f"tl.reshape(rmask, {shape}).to({kind})"
        return f"tl.full({shape}, 1, {kind})"

    def _positioned(
        self, dtype: torch.dtype, kind: ReductionKind, pair: tuple[Value, Value]
    ) -> Value:
        candidate, position = pair
        assert kind in POSITIONED
        if candidate.dtype == torch.bool:
            candidate = self.to_dtype(candidate, torch.int32)
        printers = ReductionPrinter(kind, candidate.dtype), ReductionPrinter("min", position.dtype)
        blocks = [
            self._padded(self._block(value), printer.neutral())
            for value, printer in zip((candidate, position), printers, strict=True)
        ]
        name = self.body.fresh()
        if self.domain.looped:
            names = [f"_{name}", f"_{name}_at"]
            for accumulator, printer in zip(names, printers, strict=True):
                self._open(accumulator, printer)
            if self.domain.blocks.fold > 1:
                folded, blocks = map(self._folded, blocks), [self.body.fresh() for _ in blocks]
                text = f"tl.reduce(({', '.join(folded)}), 1, lib.{kind})"
                self.body.line(f"{', '.join(blocks)} = {text}", X | R)
            text = f"lib.{kind}({', '.join([*names, *blocks])})"
            self.body.line(f"{', '.join(names)} = {text}", X | R)
            blocks = names
        self.body.after_loop(f"_, {name} = tl.reduce(({', '.join(blocks)}), 1, lib.{kind})")
        self.body.after_loop(f"{name} = {name}[:, None]")
        return Value(name, dtype, X)

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: Value) -> Value:
        """Scan along the block; the totals of earlier blocks are carried from one to the next."""
        printer = ReductionPrinter(kind, value.dtype)
        block = self._padded(self._block(value), printer.neutral())
        prefix = self.body.assign(printer.scan(block), X | R)
        if not self.domain.looped:
            return Value(prefix, dtype, X | R)
        carry, result = self.body.fresh("carry"), self.body.fresh()
        start = f"tl.full([XBLOCK, 1], {printer.neutral()}, {triton_dtype(dtype)})"
        self.body.line(f"{carry} = {start}", X)
        self.body.line(f"{result} = {printer.combine(carry, prefix)}", X | R)
        self.body.line(f"{carry} = {printer.combine(carry, printer.collapse(block))}", X | R)
        return Value(result, dtype, X | R)

    def _block(self, value: Value) -> str:
        """Return the value as a whole block."""
        if value.dims == X | R:
            return value.text
        return self.body.assign(f"tl.broadcast_to({value.text}, [XBLOCK, RBLOCK])", X | R)

    def _padded(self, block: str, neutral: str) -> str:
        if not self.domain.needs_mask("r"):
            return block
        return self.body.assign(f"tl.where(rmask, {block}, {neutral})", X | R)

    def _open(self, name: str, printer: ReductionPrinter) -> None:
        """An accumulator, before the loop."""
        fold = self.domain.blocks.fold
        width = "RBLOCK" if fold == 1 else f"RBLOCK // {fold}"
        self.body.line(f"{name} = {printer.accumulator(width)}", X)

    def _folded(self, block: str) -> str:
        """Split a block into `fold` blocks of an accumulator's width, one behind the other."""
        fold = self.domain.blocks.fold
        return f"tl.reshape({block}, [XBLOCK, {fold}, RBLOCK // {fold}])"

    def _of_dtype(self, value: Value, dtype: torch.dtype) -> Value:
        """Return a finished reduction in the dtype that is asked for."""
        if value.dtype == dtype:
            return value
        raise VerificationError(f"a reduction of {value.dtype} cannot give {dtype}")

    # -- values ---------------------------------------------------------------------------------

    def constant(self, value: Number, dtype: torch.dtype) -> Value:
        """Return a literal where an operator types it, `tl.full` elsewhere."""
        if dtype in (torch.float16, torch.bfloat16):
            value = torch.tensor(value, dtype=dtype).item()
        return constant(value, compute_dtype(dtype))

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Value:
        """Compute in 32 bits if the value certainly fits, else in 64."""
        expr = simplify(expr, self.ranges)
        if isinstance(expr, int):
            return self.constant(expr, dtype)
        dims, text = self.index.dims(expr), self.index.text(expr)
        is_short = self.index.fits(expr)
        text = text if is_short else self._widened(expr)
        text = f"tl.cast({text}, {triton_dtype(compute_dtype(dtype))})"
        return replace(self._assign(text, dtype, dims), index=expr if is_short else None)

    def _widened(self, expr: Expr) -> str:
        """Return the same text with every variable in 64 bits."""
        widened = IndexPrinter(self.body, self.arguments, self.ranges, widen=True)
        widened.indirect = self.index.indirect
        return widened.text(expr)

    def indirect_indexing(
        self, value: Value, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """`v`, or `where(v < 0, v + size, v)`, checked on the device as eager does."""
        if value.dtype not in (torch.int32, torch.int64):
            value = self.to_dtype(value, torch.int32)
        value = self._named(value)
        limit = self.index.text(simplify(size, self.ranges))
        if wrap:
            text = f"tl.where({value.text} < 0, {value.text} + {limit}, {value.text})"
            value = self._assign(text, value.dtype, value.dims)
        if check:
            self._check(value, limit)
        return self.index.bind(value)

    def _check(self, value: Value, limit: str) -> None:
        dims = value.dims | join(*self._masks)
        mask = self._mask(dims) or "tl.full([], True, tl.int1)"
        self.checks_indices = True
        self.body.statement(f"lib.check_index({value.text}, {limit}, {mask})", dims)

    def masked(self, mask: Value, body: Callable[[], Value], other: Number) -> Value:
        """Mask the loads of the body, and replace its result where the mask is false."""
        mask = self._named(mask)
        self._masks.append(mask)
        value = body()
        self._masks.pop()
        instead = constant(other, value.dtype)
        chosen = self._chosen(mask, value, instead)
        if chosen is not None:
            return chosen
        return self._assign(
            f"tl.where({mask.text}, {value.text}, {instead.operand})",
            value.dtype,
            join(mask, value),
        )

    def to_dtype(self, x: Value, dtype: torch.dtype) -> Value:
        """Convert to a dtype; 16-bit floats are rounded to, but go on as float32."""
        if x.element is not None and x.element.dtype == dtype:
            return x
        target = compute_dtype(dtype)
        if x.index is not None and dtype.is_floating_point:
            x = self._term_by_term(x.index, target) or self._short(x)
        if x.number is not None and not (x.dtype.is_floating_point and not dtype.is_floating_point):
            whole = torch.tensor(x.number, dtype=x.dtype).to(dtype).item()
            return self.constant(x.number if dtype.is_floating_point else whole, dtype)
        if dtype == torch.bool:
            return x if x.dtype == torch.bool else self._assign(f"{x.text} != 0", dtype, x.dims)
        text = x.text
        if x.dtype != target:
            text = f"{text}.to({triton_dtype(target)})"
        if target != dtype:
            text = f"{text}.to({triton_dtype(dtype)}).to({triton_dtype(target)})"
        return x if text == x.text else self._assign(text, target, x.dims)

    def to_dtype_bitcast(self, x: Value, dtype: torch.dtype, src_dtype: torch.dtype) -> Value:
        """Return the bits of the dtype in memory."""
        text = self._stored(x, src_dtype) + f".to({triton_dtype(dtype)}, bitcast=True)"
        return self._widened_element(self._loaded(text, dtype, x.dims))

    def _stored(self, value: Value, dtype: torch.dtype) -> str:
        """Return the element of memory that a value becomes."""
        if value.element is not None and value.element.dtype == dtype:
            return value.element.text
        return value.text if value.dtype == dtype else f"{value.text}.to({triton_dtype(dtype)})"

    def _chosen(self, mask: Value, x: Value, y: Value) -> Value | None:
        """Choose one of two 16-bit floats in their dtype in memory; a NaN keeps its bits."""
        known = x.element or y.element
        parts = [known and _as_element(value, known.dtype) for value in (x, y)]
        if known is None or None in parts:
            return None
        text = f"tl.where({', '.join([mask.text, *(part.text for part in parts if part)])})"
        return self._widened_element(self._loaded(text, known.dtype, join(mask, x, y)))

    def elementwise(self, name: str, *args: Value) -> Value:
        """Print one line from the table, unless numbers decide it."""
        numbers = [arg.number for arg in args]
        known = [arg.number if type(arg.number) is int else arg.index for arg in args]
        if None not in known and any(arg.index is not None for arg in args):
            if name in PREDICATES:
                args = tuple(map(self._short, args))
            elif name in INDEX_ARITHMETIC:
                index = simplify(INDEX_ARITHMETIC[name](*known), self.ranges)
                if self.index.fits(index):
                    return self.index_expr(index, args[0].dtype)
        if name in DECIDED and None not in numbers:
            return self.constant(DECIDED[name](*numbers), torch.bool)
        if name == "where" and numbers[0] is not None:
            return args[1] if numbers[0] else args[2]
        chosen = self._chosen(*args) if name == "where" else None
        if chosen is not None:
            return chosen
        dtype = torch.bool if name in PREDICATES else args[-1].dtype
        return self._assign(FUNCTIONS[name](*args), dtype, join(*args))

    def _short(self, x: Value) -> Value:
        """Return an index in 32 bits."""
        if x.index is None:
            return x if x.number is None else self.constant(x.number, torch.int32)
        return Value(f"({self.index.text(x.index)})", torch.int32, x.dims)

    def _term_by_term(self, index: Expr, dtype: torch.dtype) -> Value | None:
        """Convert the terms of an index to floats, and add those; None unless that is exact.

        A conversion takes as long as an exponential. A term that varies along one dimension has
        fewer elements than the block.
        """
        terms = sympy.Add.make_args(sympy.sympify(index))
        if len(terms) == 1 or not all(self.index.fits(each, EXACT) for each in (index, *terms)):
            return None
        texts = [
            self._assign(f"tl.cast({self.index.text(t)}, {triton_dtype(dtype)})", dtype, dims).text
            for t in terms
            for dims in [self.index.dims(t)]
        ]
        return self._assign(" + ".join(texts), dtype, self.index.dims(index))

    def _assign(self, text: str, dtype: torch.dtype, dims: Dimensions) -> Value:
        if dtype == torch.bool and not dims:
            text, dims = self._bool_block(self.body.assign(text, dims)), X
        return Value(self.body.assign(text, dims), compute_dtype(dtype), dims)

    def _bool_block(self, scalar: str) -> str:
        """Return a bool as a block, since loads take no scalar mask.

        Triton's interpreter would lose the type of a comparison of scalars when it spreads the
        result.
        """
        return f"(tl.full({self.domain.shape(X)}, 0, tl.int32) + {scalar}.to(tl.int32)) != 0"

    def _named(self, value: Value) -> Value:
        """Return a value that is a variable, so that its text can be repeated."""
        if value.number is None:
            return value
        return self._assign(value.text, value.dtype, EVERYWHERE)


def _as_element(value: Value, dtype: torch.dtype) -> Value | None:
    """Return a value as the 16-bit float that it is in memory, if it is exactly one."""
    if value.element is not None:
        return value.element if value.element.dtype == dtype else None
    if value.number is None or torch.tensor(value.number, dtype=dtype).item() != value.number:
        return None
    return constant(value.number, dtype)


class _Reduced(EffectHandler):
    """The handler that stores a complete reduction, without the values that its body computes."""

    def __init__(self, printer: TritonHandler, value: Value) -> None:
        super().__init__()
        self._printer, self._value = printer, value

    def store_reduction(self, name: str, index: Expr, value: None) -> None:
        """Store as the printer does."""
        self._printer.store_reduction(name, index, self._value)
