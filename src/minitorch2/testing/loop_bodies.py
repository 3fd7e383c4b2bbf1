"""Random loop bodies: a Hypothesis strategy of small lowered graphs with their inputs.

Point it at any interpreter of the loop IR: the NumPy interpreter's answer is the reference.

    @given(loop_graphs())
    def test_my_code_generator(example):
        expected = interpret(example.graph, example.inputs)

A graph has up to three inputs: contiguous, transposed, sliced or with gaps, of float32, int64 or
bool. It has up to three computed buffers that may read each other, pointwise or reduced. Bodies are
well typed, address only what exists, and hold loads in several index forms, masked parts, computed
indices, comparisons and selections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from minitorch2.loopir.buffers import Buffer, BufferView, ComputedBuffer, InputBuffer
from minitorch2.loopir.expressions import Expr, modular_indexing, to_expr
from minitorch2.loopir.layout import FixedLayout, contiguous_strides
from minitorch2.loopir.loops import Index, Loops, Pointwise, Reduction
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.ops import ReductionKind, Value, ops

CPU = torch.device("cpu")
FLOAT, INT, BOOL = torch.float32, torch.int64, torch.bool
Body = Callable[[Index], Value]

EXACT: dict[torch.dtype, dict[int, tuple[str, ...]]] = {
    FLOAT: {1: ("neg", "abs", "floor", "ceil", "trunc", "round", "sqrt", "sign"),
            2: ("add", "sub", "mul", "truediv", "maximum", "minimum", "copysign")},
    INT: {1: ("neg", "abs", "bitwise_not", "sign"),
          2: ("add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or",
              "bitwise_xor")},
    BOOL: {1: ("logical_not",), 2: ("logical_and", "logical_or", "logical_xor")},
}  # fmt: skip
"""Elementwise primitives, by dtype and number of operands, whose results are exactly defined."""

SMOOTH = ("exp", "sin", "cos", "tanh", "sigmoid", "erf", "log1p", "expm1", "atan")
"""Functions of floats that code generators may compute with a small error."""

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCTIONS: dict[torch.dtype, tuple[ReductionKind, ...]] = {
    FLOAT: ("sum", "max", "min"),
    INT: ("sum", "max", "min", "xor_sum"),
    BOOL: ("any",),
}


@dataclass(frozen=True)
class LoopGraph:
    """A lowered graph and inputs that fit it."""

    graph: LoweredGraph
    inputs: list[torch.Tensor]

    def __repr__(self) -> str:
        return f"{self.graph.print()}\ninputs = {self.inputs}"


@st.composite
def loop_graphs(
    draw: st.DrawFn,
    *,
    exact: bool = False,
    max_extent: int = 5,
    max_depth: int = 4,
    device: torch.device = CPU,
) -> LoopGraph:
    """Return graphs of random loop bodies. With `exact`, results are defined to the last bit.

    Sums of floats are left out then too, since their order is free. The graph's buffers lie on
    `device`; the inputs lie on the CPU, for the interpreter, and have to be moved there.
    """
    maker = _GraphMaker(draw, exact, max_extent, max_depth, device)
    inputs = [maker.input(i) for i in range(draw(st.integers(1, 3)))]
    for i in range(draw(st.integers(1, 3))):
        maker.computed(i)
    computed = [b for b in maker.buffers if isinstance(b, ComputedBuffer)]
    kept = {b.name for b in computed if draw(st.booleans())} | {computed[-1].name}
    outputs = [b for b in computed if b.name in kept]  # memory of the others may be reused
    graph = LoweredGraph(
        [b for b in maker.buffers if isinstance(b, InputBuffer)],
        list(computed),
        [BufferView(buffer, buffer.fixed_layout()) for buffer in outputs],
    )
    return LoopGraph(graph, inputs)


@st.composite
def strided_tensors(draw: st.DrawFn, max_extent: int = 5, max_ndim: int = 3) -> torch.Tensor:
    """Return tensors of float32, int64 or bool, of any layout, with special values now and then."""
    size = draw(st.lists(st.integers(0, max_extent), max_size=max_ndim))
    form = draw(st.sampled_from(("contiguous", "transposed", "gaps", "offset")))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    padded = [n + 2 for n in size] if form in ("gaps", "offset") else size
    values = torch.randn(padded, generator=generator) * 3
    if form == "gaps":
        values = torch.randn([2 * n for n in size], generator=generator) * 3
        values = values[tuple(slice(None, None, 2) for _ in size)]
    if form == "offset":
        values = values[tuple(slice(1, n + 1) for n in size)]
    dtype = draw(st.sampled_from((FLOAT, FLOAT, INT, BOOL)))
    if form == "transposed":
        order = draw(st.permutations(range(len(size))))
        inverse = sorted(range(len(size)), key=lambda d: order[d])
        values = values.permute(order).contiguous().permute(inverse)
    if dtype == FLOAT and values.numel() and draw(st.booleans()):
        values = values.clone(memory_format=torch.preserve_format)
        special = draw(st.sampled_from((float("nan"), float("inf"), -float("inf"), -0.0)))
        values[(0,) * len(size)] = special
    return values if dtype == FLOAT else _converted(values, dtype)


def _converted(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the same strides in another dtype."""
    result = torch.empty_strided(values.shape, values.stride(), dtype=dtype)
    return result.copy_(values > 0 if dtype == BOOL else values.round())


class _GraphMaker:
    """The maker of a graph: each new body reads the buffers so far."""

    def __init__(
        self, draw: st.DrawFn, exact: bool, max_extent: int, max_depth: int, device: torch.device
    ) -> None:
        self.draw, self.exact, self.device = draw, exact, device
        self.max_extent, self.max_depth = max_extent, max_depth
        self.buffers: list[Buffer] = []

    def input(self, number: int) -> torch.Tensor:
        value = self.draw(strided_tensors(self.max_extent))
        layout = FixedLayout(self.device, value.dtype, tuple(value.shape), tuple(value.stride()))
        self.buffers.append(InputBuffer(f"arg{number}_1", layout))
        return value

    def computed(self, number: int) -> None:
        size = self.size()
        dtype = self.draw(st.sampled_from((FLOAT, INT, BOOL)))
        body = self.value(dtype, size, self.max_depth)
        loops = self.loops(dtype, size, body)
        layout = FixedLayout(self.device, dtype, loops.ranges, contiguous_strides(loops.ranges))
        self.buffers.append(ComputedBuffer(f"buf{number}", layout, loops))

    def size(self) -> tuple[int, ...]:
        """Draw a size, often an earlier buffer's in another order: equal loops may be fused."""
        if self.draw(st.booleans()):
            earlier = self.draw(st.sampled_from(self.buffers)).size
            return tuple(int(n) for n in self.draw(st.permutations(earlier)))
        return tuple(self.draw(st.lists(st.integers(0, self.max_extent), max_size=3)))

    def loops(self, dtype: torch.dtype, size: tuple[int, ...], body: Body) -> Loops:
        kinds = [k for k in REDUCTIONS[dtype] if not (self.exact and dtype == FLOAT and k == "sum")]
        split = self.draw(st.integers(0, len(size)))
        if split == len(size) or not self.draw(st.booleans()):
            return Pointwise(self.device, dtype, size, body)
        kind = self.draw(st.sampled_from(kinds))
        return Reduction(
            self.device, dtype, size[:split], lambda i, r: body((*i, *r)), size[split:], kind,
            dtype,
        )  # fmt: skip

    # -- values ---------------------------------------------------------------------------------

    def value(self, dtype: torch.dtype, size: tuple[int, ...], depth: int) -> Body:
        """Return a body that gives a value of `dtype` for every index within `size`."""
        forms = [self.leaf] if depth == 0 else [self.leaf, self.elementwise, self.elementwise,
                                                self.where, self.masked, self.cast]  # fmt: skip
        make: Callable[[torch.dtype, tuple[int, ...], int], Body] = self.draw(
            st.sampled_from(forms)
        )
        return make(dtype, size, depth)

    def leaf(self, dtype: torch.dtype, size: tuple[int, ...], depth: int) -> Body:
        readable = [b for b in self.buffers if b.dtype == dtype and 0 not in b.size]
        choice = self.draw(st.integers(0, 4))
        if readable and choice > 1:
            return self.load(self.draw(st.sampled_from(readable)), size)
        if dtype == INT and size and choice == 1:
            dim = self.draw(st.integers(0, len(size) - 1))
            return lambda index: ops.index_expr(index[dim], INT)
        number = self.draw(st.integers(-3, 3))
        constant = {FLOAT: number / 2, INT: number, BOOL: number > 0}[dtype]
        return lambda index: ops.constant(constant, dtype)

    def load(self, buffer: Buffer, size: tuple[int, ...]) -> Body:
        """Load at coordinates that are dimensions of ours (modulo), constants or computed."""
        coordinates = [self.coordinate(int(extent), size) for extent in buffer.size]
        layout, name = buffer.fixed_layout(), buffer.name
        return lambda index: ops.load(name, layout.index([c(index) for c in coordinates]))

    def coordinate(self, extent: int, size: tuple[int, ...]) -> Callable[[Index], Expr]:
        fitting = [d for d, n in enumerate(size) if n <= extent]
        form = self.draw(
            st.sampled_from(("same", "same", "reversed", "modulo", "fixed", "computed"))
        )
        if form in ("same", "reversed") and fitting:
            dim = self.draw(st.sampled_from(fitting))
            if form == "same":
                return lambda index: index[dim]
            return lambda index: to_expr(extent - 1 - index[dim])
        if form == "computed":
            number, wrap = self.value(INT, size, 0), self.draw(st.booleans())
            return lambda index: self.wrapped(number(index), extent, wrap)
        if form == "modulo" and size:
            dim = self.draw(st.integers(0, len(size) - 1))
            return lambda index: modular_indexing(index[dim], 1, extent)
        position = self.draw(st.integers(0, extent - 1))
        return lambda index: position

    def wrapped(self, number: Value, extent: int, wrap: bool) -> Expr:
        """Return a computed index that is certainly inside: `number mod extent`."""
        inside = ops.mod(number, ops.constant(extent, INT))
        return ops.indirect_indexing(inside, extent, wrap=wrap)

    def elementwise(self, dtype: torch.dtype, size: tuple[int, ...], depth: int) -> Body:
        if dtype == BOOL and self.draw(st.booleans()):
            kind = self.draw(st.sampled_from((FLOAT, INT)))
            return self.apply(self.draw(st.sampled_from(COMPARISONS)), [kind] * 2, size, depth)
        count = self.draw(st.integers(1, 2))
        names = EXACT[dtype][count]
        if dtype == FLOAT and count == 1 and not self.exact:
            names += SMOOTH
        return self.apply(self.draw(st.sampled_from(names)), [dtype] * count, size, depth)

    def apply(
        self, name: str, dtypes: list[torch.dtype], size: tuple[int, ...], depth: int
    ) -> Body:
        operands = [self.value(dtype, size, depth - 1) for dtype in dtypes]

        def body(index: Index) -> Value:
            result: Value = getattr(ops, name)(*(operand(index) for operand in operands))
            return result

        return body

    def where(self, dtype: torch.dtype, size: tuple[int, ...], depth: int) -> Body:
        return self.apply("where", [BOOL, dtype, dtype], size, depth)

    def masked(self, dtype: torch.dtype, size: tuple[int, ...], depth: int) -> Body:
        mask, body = self.value(BOOL, size, depth - 1), self.value(dtype, size, depth - 1)
        other = {FLOAT: 0.5, INT: 7, BOOL: True}[dtype]
        return lambda index: ops.masked(mask(index), lambda: body(index), other)

    def cast(self, dtype: torch.dtype, size: tuple[int, ...], depth: int) -> Body:
        # Floats to integers are left out: what NaN and infinity become is not defined.
        sources = {FLOAT: (INT, BOOL), INT: (BOOL,), BOOL: (INT, FLOAT)}
        source = self.value(self.draw(st.sampled_from(sources[dtype])), size, depth - 1)
        return lambda index: ops.to_dtype(source(index), dtype)
