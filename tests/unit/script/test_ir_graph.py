"""Graphs: ownership, uses, places, scoping, copies and the canonical text."""

import pytest

from minitorch2.errors import VerificationError
from minitorch2.script.ir.graph import NOT_CONSTANT, Graph
from minitorch2.script.ir.types import BOOL, INT, TENSOR


def build():
    """Return `x + 1` and its graph."""
    graph = Graph()
    x = graph.add_input("x")
    one = graph.constant(1)
    node = graph.insert(graph.create("aten::add", (x, one, one)))
    graph.add_output(node.output)
    return graph, node


def test_text_of_a_graph():
    graph, _ = build()
    assert str(graph) == (
        "graph(%x : Tensor):\n"
        "  %0 : int = prim::Constant[value=1]()\n"
        "  %1 : Tensor = aten::add(%x, %0, %0)\n"
        "  return (%1)\n"
    )


def test_a_constant_is_an_input_that_a_node_can_read():
    _, node = build()
    assert [node.constant(index) for index in range(3)] == [NOT_CONSTANT, 1, 1]
    assert not node.attributes
    assert NOT_CONSTANT is not None  # a constant may be None


def test_equal_names_are_told_apart():
    graph = Graph()
    first, second = graph.add_input("x"), graph.add_input("x.7")
    graph.add_output(second)
    assert str(graph) == "graph(%x : Tensor, %x.1 : Tensor):\n  return (%x.1)\n"
    assert first.name == "x"


def test_uses_follow_every_change_of_inputs():
    graph, node = build()
    x, one = graph.inputs[0], node.inputs[1]
    assert [(use.user, use.index) for use in one.uses] == [(node, 1), (node, 2)]
    node.remove_input(1)
    assert [(use.user, use.index) for use in one.uses] == [(node, 1)]
    node.insert_input(0, one)
    assert node.inputs == (one, x, one) and [use.index for use in x.uses] == [1]
    one.replace_all_uses_with(x)
    assert node.inputs == (x, x, x) and not one.uses and len(x.uses) == 3


def test_a_node_that_is_read_cannot_be_destroyed():
    graph, node = build()
    with pytest.raises(VerificationError, match="still read"):
        node.destroy()
    node.output.replace_all_uses_with(graph.inputs[0])
    node.destroy()
    assert node not in list(graph.nodes()) and graph.outputs == (graph.inputs[0],)


def test_values_of_another_graph_are_refused():
    graph, node = build()
    with pytest.raises(VerificationError, match="another graph"):
        graph.create("aten::relu", (build()[1].output,))
    with pytest.raises(VerificationError, match="another graph"):
        build()[0].create("aten::relu").insert_after(node)


def test_iteration_survives_that_the_current_node_is_destroyed():
    graph = Graph()
    for number in range(5):
        graph.constant(number)
    seen = []
    for node in graph.block.nodes:
        seen.append(node.attributes["value"])
        node.destroy()
    assert seen == [0, 1, 2, 3, 4] and len(graph.block.nodes) == 0


def test_iteration_survives_that_the_next_nodes_are_destroyed():
    graph = Graph()
    nodes = [graph.constant(number).node for number in range(5)]
    seen = []
    for node in graph.block.nodes:
        seen.append(node.attributes["value"])
        if node is nodes[1]:
            for other in nodes[1:4]:
                other.destroy()
    assert seen == [0, 1, 4]
    assert [node.attributes["value"] for node in reversed(graph.block.nodes)] == [4, 0]


def test_nodes_move_and_come_before_others():
    graph, node = build()
    one = node.inputs[1].node
    branch = graph.insert(graph.create("prim::If", (graph.add_input("c", BOOL),), 0))
    then, otherwise = branch.add_block(), branch.add_block()
    with graph.inserting_at_end(then):
        inner = graph.constant(2).node
    with graph.inserting_at_end(otherwise):
        other = graph.constant(3).node
    assert one.is_before(node) and node.is_before(inner) and branch.is_before(inner)
    assert inner.is_before(other) and not other.is_before(inner) and not node.is_before(node)
    assert list(inner.owners()) == [branch]
    branch.move_before(one)
    assert [n.kind for n in graph.block.nodes] == ["prim::If", "prim::Constant", "aten::add"]
    one.move_after(node)
    assert node.is_before(one)
    assert [n.kind for n in graph.nodes()][:3] == ["prim::If", "prim::Constant", "prim::Constant"]


def test_a_copy_has_the_same_text_and_shares_no_node():
    graph, node = build()
    loop = graph.insert(graph.create("prim::Loop", (node.inputs[1],), (TENSOR,)))
    body = loop.add_block()
    body.add_input("i", INT)
    body.add_output(node.output)
    loop.attributes["Subgraph"] = build()[0]
    copy = graph.copy()
    assert str(copy) == str(graph)
    assert not set(copy.nodes()) & set(graph.nodes())
    copied = copy.block.nodes[-1]
    assert copied.attributes["Subgraph"] is not loop.attributes["Subgraph"]
    loop.destroy()
    assert str(copy) != str(graph)


def test_a_graph_is_inserted_for_a_call():
    callee, _ = build()
    graph = Graph()
    (result,) = graph.insert_graph(callee, [graph.add_input("y")])
    graph.add_output(result)
    assert str(graph) == str(callee).replace("%x", "%y")


def test_destroying_a_node_destroys_what_it_contains():
    graph, node = build()
    branch = graph.insert(graph.create("prim::If", (graph.add_input("c", BOOL),), 0))
    with graph.inserting_at_end(branch.add_block()):
        inner = graph.insert(graph.create("aten::relu", (node.output,)))
    branch.destroy()
    assert inner.is_destroyed and [use.user.kind for use in node.output.uses] == ["prim::Return"]
