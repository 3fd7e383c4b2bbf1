"""Random graphs around attention: writes, other readers and other operators in between."""

import operator
from collections.abc import Callable

import torch
from hypothesis import given
from hypothesis import strategies as st

from minitorch2.graph import Graph, GraphModule, Node, to_fake
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.passes import fuse_attention
from minitorch2.graph.verify import verify

SIZE = (2, 2, 4, 4)  # square, so that everything fits everything
Build = Callable[[Graph, Node, Node], Node]


def _soft(graph: Graph, a: Node, b: Node) -> Node:
    return graph.call_function(torch.softmax, (a, -1))


STEPS: dict[str, Build] = {
    "product": lambda graph, a, b: graph.call_function(operator.matmul, (a, b)),
    "turn": lambda graph, a, b: graph.call_method("transpose", (a, -1, -2)),
    "scale": lambda graph, a, b: graph.call_function(operator.mul, (a, 0.5)),
    "add": lambda graph, a, b: graph.call_function(torch.add, (a, b)),
    "softmax": _soft,
    "write": lambda graph, a, b: graph.call_method("add_", (a, 1)),
}
ATTENTION = ("turn", "product", "scale", "softmax", "product")


@st.composite
def attention_graphs(draw: st.DrawFn) -> Graph:
    """The steps of attention, each reading the one before, among others at random."""
    graph = Graph()
    nodes = [graph.placeholder(name) for name in ("q", "k", "v")]
    q, key, value = nodes
    last = key
    for number, step in enumerate(ATTENTION):
        for _ in range(draw(st.integers(0, 1))):
            kind = draw(st.sampled_from([*STEPS, "write", "write"]))
            near = st.sampled_from([q, key, value, last])
            nodes.append(STEPS[kind](graph, draw(near), draw(near)))
        operands = {1: (q, last), 4: (last, value)}.get(number, (last, last))
        last = STEPS[step](graph, *operands)
        nodes.append(last)
    results = draw(st.lists(st.sampled_from(nodes[3:]), max_size=2))
    graph.output((last, *results))
    return graph


class _Typed(Interpreter):
    def run_node(self, node: Node) -> object:
        value = super().run_node(node)
        if node.op != "output":
            node.meta["val"] = value
        return value


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(SIZE, dtype=torch.float64) for _ in range(3)]


@given(attention_graphs())
def test_fused_attention_keeps_values_and_writes(graph: Graph) -> None:
    module = GraphModule(graph)
    _Typed(module).run(*map(to_fake, inputs()))
    before, expected = inputs(), inputs()
    results = [result.clone() for result in module(*expected)]
    fuse_attention(module)
    verify(module)
    found = module(*before)
    torch.testing.assert_close(list(found), results, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(before, expected)
