"""Random TorchScript graphs with views, writes, branches and loops, and a reference evaluator.

Tensors are 2 by 2 matrices of doubles with small whole numbers in them, so sums and products are
exact in any order. Rows of them appear through `select`, whose writes reach the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import (
    BOOL,
    FLOAT,
    INT,
    MEMORY_FORMAT,
    TENSOR,
    ListType,
    TensorType,
    TupleType,
    Type,
)
from minitorch2.script.operators.registry import operator_of

MATRIX = TensorType(torch.float64, torch.device("cpu"), False, (2, 2))
TENSORS = ListType(TENSOR)
PAIR = TupleType((TENSOR, INT))


class Evaluator:
    """Runs a graph node by node; the reference for passes and runtimes.

    Attributes:
        printed: what `prim::Print` nodes printed, as text.
        bailouts: how many guards failed.
    """

    def __init__(self) -> None:
        self.printed: list[str] = []
        self.bailouts = 0

    def run(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of a graph."""
        try:
            return self._block(graph.block, inputs, {})
        except _Bailout as bailout:
            self.bailouts += 1
            return bailout.results

    def _block(self, block: Block, inputs: Sequence[Any], values: dict[Value, Any]) -> list[Any]:
        values.update(zip(block.inputs, inputs, strict=True))
        for node in block.nodes:
            results = self._node(node, [values[value] for value in node.inputs], values)
            values.update(zip(node.outputs, results, strict=True))
        return [values[value] for value in block.outputs]

    def _node(self, node: Node, inputs: list[Any], values: dict[Value, Any]) -> list[Any]:
        rule: Callable[..., list[Any]] | None = getattr(self, node.kind.replace("::", "_"), None)
        if rule is not None:
            return rule(node, inputs, values)
        operator = operator_of(node)
        assert operator is not None, node.kind
        result = operator(*inputs)
        return [result] if len(node.outputs) == 1 else list(result or ())

    def prim_Constant(self, node, inputs, values):
        return [node.attributes["value"]]

    def prim_If(self, node, inputs, values):
        return self._block(node.blocks[0 if inputs[0] else 1], [], values)

    def prim_Loop(self, node, inputs, values):
        trips, condition, *carried = inputs
        trip = 0
        while trip < trips and condition:
            condition, *carried = self._block(node.blocks[0], [trip, *carried], values)
            trip += 1
        return carried

    def prim_ListConstruct(self, node, inputs, values):
        return [inputs]

    def prim_TupleConstruct(self, node, inputs, values):
        return [tuple(inputs)]

    def prim_TupleUnpack(self, node, inputs, values):
        return list(inputs[0])

    def prim_TupleIndex(self, node, inputs, values):
        return [inputs[0][inputs[1]]]

    def prim_ListUnpack(self, node, inputs, values):
        if len(inputs[0]) != len(node.outputs):
            raise RuntimeError("unpack")
        return list(inputs[0])

    def prim_ConstantChunk(self, node, inputs, values):
        return list(inputs[0].chunk(node.attributes["chunks"], node.attributes["dim"]))

    def prim_Print(self, node, inputs, values):
        self.printed.append(str(inputs))
        return []

    def prim_RaiseException(self, node, inputs, values):
        raise ValueError(inputs[0])

    def prim_Uninitialized(self, node, inputs, values):
        return [None]

    def prim_unchecked_cast(self, node, inputs, values):
        return [inputs[0]]

    def prim_profile(self, node, inputs, values):
        node.attributes["record"].merge(inputs[0])
        return [inputs[0]]

    def prim_guard(self, node, inputs, values):
        assert node.output.type.generalizes(TensorType.of(inputs[0]))
        return [inputs[0]]

    def prim_bailout(self, node, inputs, values):
        checked = inputs[: len(node.outputs)]
        pairs = zip(node.outputs, checked, strict=True)
        if all(output.type.generalizes(TensorType.of(tensor)) for output, tensor in pairs):
            return checked
        raise _Bailout(self.run(node.attributes["Subgraph"], inputs))

    def prim_DifferentiableGraph(self, node, inputs, values):
        return self.run(node.attributes["Subgraph"], inputs)

    prim_FusionGroup = prim_DifferentiableGraph


class _Bailout(Exception):
    def __init__(self, results: list[Any]) -> None:
        self.results = results


class Record:
    """What a profile node remembers."""

    def __init__(self) -> None:
        self.type: TensorType | None = None

    def merge(self, tensor: torch.Tensor) -> None:
        """Remember one more tensor."""
        seen = TensorType.of(tensor)
        self.type = seen if self.type is None else self.type.join(seen)


class Writer:
    """Draws the nodes of one graph."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.graph = Graph("random")
        self.flat = FLAT if draw(st.booleans()) else PURE

    def node(self, kind: str, *inputs: Value, types: Sequence[Type] = (TENSOR,)) -> list[Value]:
        return self.graph.insert(self.graph.create(kind, inputs, types)).outputs

    def constant(self, value: Any, type: Type = INT) -> Value:
        return self.graph.constant(value, type=type)

    def pick(self, scope: Sequence[Value], type: Type) -> Value:
        fitting = [v for v in scope if isinstance(v.type, TensorType) or v.type == type]
        fitting = [v for v in fitting if isinstance(v.type, TensorType) == (type == TENSOR)]
        return self.draw(st.sampled_from(fitting))

    def block(self, scope: list[Value], depth: int, most: int) -> list[Value]:
        """Draw nodes at the insertion point; return the scope behind them."""
        scope = list(scope)
        for _ in range(self.draw(st.integers(1, most))):
            rules = self.flat if depth == 0 else self.flat + NESTED
            rule = self.draw(st.sampled_from(rules))
            scope += rule(self, scope, depth)
        return scope


def add(w: Writer, scope, depth):
    kind = w.draw(st.sampled_from(["aten::add", "aten::sub"]))
    return w.node(kind, w.pick(scope, TENSOR), w.pick(scope, TENSOR), w.constant(1))


def multiply(w: Writer, scope, depth):
    kind = w.draw(st.sampled_from(["aten::mul", "aten::maximum", "aten::mm"]))
    return w.node(kind, w.pick(scope, TENSOR), w.pick(scope, TENSOR))


def unary(w: Writer, scope, depth):
    kind = w.draw(st.sampled_from(["aten::relu", "aten::neg", "aten::t", "aten::contiguous"]))
    value = w.pick(scope, TENSOR)
    if kind == "aten::contiguous":
        return w.node(kind, value, w.constant(torch.contiguous_format, MEMORY_FORMAT))
    return w.node(kind, value)


def write(w: Writer, scope, depth):
    kind = w.draw(st.sampled_from(["aten::relu_", "aten::neg_", "aten::zero_", "aten::add_"]))
    value = w.pick(scope, TENSOR)
    more = [w.pick(scope, TENSOR), w.constant(1)] if kind == "aten::add_" else []
    return w.node(kind, value, *more)


def write_row(w: Writer, scope, depth):
    row = w.node("aten::select", w.pick(scope, TENSOR), w.constant(0), w.constant(1))[0]
    w.node("aten::neg_", row)
    return []


def halves(w: Writer, scope, depth):
    """Cut a matrix into rows, change one or none in place, and put them together again."""
    dim = w.constant(0)
    parts = w.node("aten::chunk", w.pick(scope, TENSOR), w.constant(2), dim, types=[TENSORS])[0]
    rows = w.node("prim::ListUnpack", parts, types=[TENSOR, TENSOR])
    if w.flat is FLAT and w.draw(st.booleans()):
        w.node("aten::neg_", rows[0])
    both = w.node("prim::ListConstruct", *rows, types=[TENSORS])[0]
    return w.node("aten::cat", both, dim)


def products(w: Writer, scope, depth):
    """Multiply three matrices with one, as an unrolled loop does."""
    shared = w.pick(scope, TENSOR)
    others = [w.pick(scope, TENSOR) for _ in range(3)]
    found = [w.node("aten::mm", other, shared)[0] for other in others]
    total = w.node("aten::maximum", found[0], found[1])[0]
    return w.node("aten::maximum", total, found[2])


def twice(w: Writer, scope, depth):
    """Compute an expression twice, with a write or a print between, and use both results."""
    value = w.pick(scope, TENSOR)
    first = w.node("aten::neg", value)[0]
    if w.flat is FLAT and w.draw(st.booleans()):
        w.node("aten::neg_", value)
    elif w.draw(st.booleans()):
        w.node("prim::Print", first, types=[])
    again = w.node("aten::neg", value)[0]
    return w.node("aten::sub", first, again, w.constant(1))


def unchanged(w: Writer, scope, depth):
    """Give a matrix through operators that laws leave out."""
    kind = w.draw(st.sampled_from(["aten::t", "aten::mul", "aten::dropout"]))
    value = w.pick(scope, TENSOR)
    if kind == "aten::t":
        return w.node(kind, w.node(kind, value)[0])
    if kind == "aten::mul":
        return w.node(kind, value, w.constant(1))
    return w.node(kind, value, w.constant(0.5, FLOAT), w.constant(False, BOOL))


def known(w: Writer, scope, depth):
    """Give a matrix that all runs of the graph share, as traces hold those around a function."""
    value = torch.full((2, 2), w.draw(st.integers(-2, 2)), dtype=torch.float64)
    return [w.constant(value, TENSOR)]


def number(w: Writer, scope, depth):
    kind = w.draw(st.sampled_from(["aten::add", "aten::sub", "aten::mul"]))
    left = w.pick(scope, INT) if w.draw(st.booleans()) else w.constant(w.draw(st.integers(-2, 2)))
    right = w.pick(scope, INT) if w.draw(st.booleans()) else w.constant(w.draw(st.integers(-2, 2)))
    return w.node(kind, left, right, types=[INT])


def items(w: Writer, scope, depth):
    made = w.node("prim::ListConstruct", w.pick(scope, TENSOR), types=[TENSORS])[0]
    if w.draw(st.booleans()):
        w.node("aten::append", made, w.pick(scope, TENSOR), types=[TENSORS])
    return w.node("aten::__getitem__", made, w.constant(0))


def pair(w: Writer, scope, depth):
    made = w.node("prim::TupleConstruct", w.pick(scope, TENSOR), w.pick(scope, INT), types=[PAIR])
    return w.node("prim::TupleUnpack", made[0], types=[TENSOR, INT])


def shout(w: Writer, scope, depth):
    w.node("prim::Print", w.pick(scope, w.draw(st.sampled_from([TENSOR, INT]))), types=[])
    return []


def branch(w: Writer, scope, depth):
    condition = w.node("aten::lt", w.pick(scope, INT), w.constant(1), types=[BOOL])[0]
    types = w.draw(st.lists(st.sampled_from([TENSOR, INT, PAIR]), max_size=2))
    node = w.graph.insert(w.graph.create("prim::If", [condition], types))
    for _ in range(2):
        inner = node.add_block()
        with w.graph.inserting_at_end(inner):
            known = w.block(scope, depth - 1, 3)
            for type in types:
                inner.add_output(result(w, known, type))
    return opened(w, node.outputs)


def loop(w: Writer, scope, depth):
    trips = w.constant(w.draw(st.integers(0, 3)))
    if w.draw(st.booleans()):
        trips = w.node("aten::add", trips, w.pick(scope, INT), types=[INT])[0]
        trips = w.node("aten::remainder", trips, w.constant(4), types=[INT])[0]
    types = w.draw(st.lists(st.sampled_from([TENSOR, INT, PAIR]), max_size=2))
    carried = [result(w, scope, type) for type in types]
    go = w.constant(True, BOOL)
    node = w.graph.insert(w.graph.create("prim::Loop", [trips, go, *carried], types))
    body = node.add_block()
    inputs = [body.add_input("i", INT), *(body.add_input("c", type) for type in types)]
    with w.graph.inserting_at_end(body):
        known = w.block([*scope, *opened(w, inputs)], depth - 1, 3)
        again = w.constant(True, BOOL)
        if w.draw(st.booleans()):
            again = w.node("aten::lt", w.pick(known, INT), w.constant(3), types=[BOOL])[0]
        body.add_output(again)
        for type in types:
            body.add_output(result(w, known, type))
    return opened(w, node.outputs)


def result(w: Writer, scope, type: Type) -> Value:
    if type != PAIR:
        return w.pick(scope, type)
    parts = [w.pick(scope, TENSOR), w.pick(scope, INT)]
    return w.node("prim::TupleConstruct", *parts, types=[PAIR])[0]


def opened(w: Writer, values: Sequence[Value]) -> list[Value]:
    """Return values with tuples replaced by their elements."""
    found: list[Value] = []
    for value in values:
        if value.type == PAIR:
            found += w.node("prim::TupleUnpack", value, types=[TENSOR, INT])
        else:
            found.append(value)
    return found


PURE = [add, multiply, unary, known, number, items, pair, shout, halves, products, unchanged, twice]
FLAT = [*PURE, write, write_row]
NESTED = [branch, loop]


@st.composite
def graphs(draw: Any) -> Graph:
    """Draw a graph of two matrices and a number, with up to two levels of control flow."""
    writer = Writer(draw)
    graph = writer.graph
    scope = [graph.add_input("x", MATRIX), graph.add_input("y", MATRIX), graph.add_input("n", INT)]
    scope = writer.block(scope, 2, 8)
    for _ in range(draw(st.integers(1, 3))):
        graph.add_output(writer.pick(scope, draw(st.sampled_from([TENSOR, INT]))))
    return graph


def inputs() -> list[Any]:
    """Return matrices and a number for a graph."""
    x = torch.tensor([[1.0, -2.0], [3.0, 0.0]], dtype=torch.float64)
    y = torch.tensor([[-1.0, 2.0], [1.0, -3.0]], dtype=torch.float64)
    return [x, y, 1]


def behaviour(
    graph: Graph, given: Sequence[Any], known: Sequence[torch.Tensor]
) -> tuple[str, list[Any]]:
    """Return all that a caller can see: an error, or results; inputs afterwards, what was printed.

    The results are written to, one after the other, so that results which share memory show.

    Args:
        known: the tensors that the graph holds; what a run writes to them is seen, and undone.
    """
    evaluator, saved, error, results = Evaluator(), [t.clone() for t in known], "", []
    try:
        results = evaluator.run(graph, given)
    except (RuntimeError, IndexError, ValueError) as raised:
        error = repr(raised)
    for number, value in enumerate(results):
        if isinstance(value, torch.Tensor):
            value.add_(number + 1)
    seen = [results, list(given), [t.clone() for t in known], evaluator.printed]
    for tensor, before in zip(known, saved, strict=True):
        tensor.copy_(before)
    return error, seen


def assert_same(graph: Graph, other: Graph, given: Callable[[], list[Any]] = inputs) -> None:
    """Assert that no caller can tell two graphs apart."""
    constants = (n.attributes["value"] for n in graph.nodes() if n.kind == "prim::Constant")
    known = [value for value in constants if isinstance(value, torch.Tensor)]
    wanted, found = behaviour(graph, given(), known), behaviour(other, given(), known)
    assert wanted[0] == found[0], f"{graph}\n{other}"
    assert str(wanted[1]) == str(found[1]), f"{graph}\n{other}"
