"""Graph, Node, GraphModule: building, editing, users, names, copies, pickles."""

import operator
import pickle

import pytest
import torch

from minitorch2.errors import VerificationError
from minitorch2.graph import Graph, GraphModule
from minitorch2.graph.verify import verify


def slide_graph() -> Graph:
    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    magnitude = graph.call_function(torch.abs, (a,))
    quotient = graph.call_function(
        operator.truediv, (a, graph.call_function(operator.add, (magnitude, 1)))
    )
    total = graph.call_method("sum", (b,))
    graph.output((quotient, graph.call_function(operator.lt, (total, 0))))
    return graph


def test_names_follow_the_slides() -> None:
    names = [node.name for node in slide_graph().nodes]
    assert names == ["a", "b", "abs_1", "add", "truediv", "sum_1", "lt", "output"]


def test_repeated_and_reserved_names_count_up() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    names = [graph.call_function(operator.mul, (x, i)).name for i in range(3)]
    names += [graph.call_function(torch.sum, (x,)).name for _ in range(2)]
    names += [graph.placeholder(name).name for name in ("lambda", "0", "mul_1", "a.b")]
    assert names == ["mul", "mul_1", "mul_2", "sum_1", "sum_2", "lambda_1", "_0", "mul_1_1", "a_b"]


def test_users_are_exact_under_every_edit() -> None:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    node = graph.call_function(torch.add, (x, x), {"alpha": 2})
    nested = graph.call_function(torch.cat, ([x, (y, {"k": slice(node, None)})],))
    assert list(x.users) == [node, nested] and list(node.users) == [nested]
    node.args = (y, x)
    assert list(y.users) == [nested, node]
    node.replace_input(x, 3)
    assert node.args == (y, 3) and list(x.users) == [nested]
    assert node.replace_all_uses_with(x) == [nested]
    assert not node.users
    graph.erase(node)
    assert list(y.users) == [nested] and len(graph) == 3


def test_erasing_a_read_node_is_refused() -> None:
    graph = slide_graph()
    with pytest.raises(VerificationError, match="abs_1"):
        graph.erase(next(n for n in graph.nodes if n.name == "abs_1"))


def test_insertion_points() -> None:
    graph = slide_graph()
    add = next(n for n in graph.nodes if n.name == "add")
    with graph.inserting_before(add):
        first = graph.call_function(torch.neg, (graph.nodes[0],))
        second = graph.call_function(torch.neg, (first,))
    with graph.inserting_after(add):
        third = graph.call_function(torch.neg, (second,))
    order = [n.name for n in graph.nodes]
    assert order[2:7] == ["abs_1", "neg", "neg_1", "add", "neg_2"]
    assert third.prev is add
    verify(graph)


def test_a_moved_node_keeps_its_edges_and_leaves_the_insertion_point() -> None:
    """New nodes go where they went before: in front of the node behind the moved one."""
    graph = slide_graph()
    moved = next(n for n in graph.nodes if n.name == "abs_1")
    behind, length = moved.next, len(graph)
    with graph.inserting_before(moved):
        graph.move(moved, behind.next)
        added = graph.call_function(torch.neg, (graph.nodes[0],))
    assert (added.next, behind.next, len(graph)) == (behind, moved, length + 1)
    assert moved in graph.nodes and list(reversed(graph.nodes)) == list(graph.nodes)[::-1]


def test_erasing_while_iterating() -> None:
    graph = slide_graph()
    graph.output_node.args = ((graph.nodes[0],),)
    for node in reversed(graph.nodes):
        if node.op.startswith("call") and not node.users:
            graph.erase(node)
    assert [n.op for n in graph.nodes] == ["placeholder", "placeholder", "output"]


def test_copy_is_independent() -> None:
    graph = slide_graph()
    copy = graph.copy()
    assert [n.name for n in copy.nodes] == [n.name for n in graph.nodes]
    copy.output_node.args = ((),)
    assert graph.output_node.args != ((),)
    verify(graph)
    verify(copy)


def test_graph_module_runs_and_pickles() -> None:
    module = GraphModule(slide_graph(), {"w": torch.ones(2)})
    x = torch.randn(5)
    expected = (x / (x.abs() + 1), x.sum() < 0)
    for candidate in (module, pickle.loads(pickle.dumps(module)), module.copy()):
        assert all(torch.equal(a, b) for a, b in zip(candidate(x, x), expected, strict=True))
        assert torch.equal(candidate.w, torch.ones(2))


def test_a_long_graph_pickles_without_recursion() -> None:
    graph = Graph()
    node = graph.placeholder("x")
    for _ in range(5000):
        node = graph.call_function(operator.add, (node, 1))
    graph.output((node,))
    assert pickle.loads(pickle.dumps(GraphModule(graph)))(0) == (5000,)


def test_editing_needs_recompile() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(operator.add, (x, 1))
    graph.output(node)
    module = GraphModule(graph)
    assert module(1) == 2
    node.args = (x, 5)
    module.recompile()
    assert module(1) == 6


def test_submodules_and_dotted_attributes() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("layers.0", (x,))
    weight = graph.get_attr("layers.0.weight")
    graph.output((hidden, weight))
    layers = torch.nn.Sequential(torch.nn.Linear(2, 3))
    module = GraphModule(graph, {"layers": layers})
    verify(module)
    out, got = module(torch.ones(1, 2))
    assert got is layers[0].weight and torch.equal(out, layers(torch.ones(1, 2)))
    with pytest.raises(AttributeError):
        _ = module.missing
