"""The verifier finds each kind of broken graph."""

import pytest

from minitorch2.errors import VerificationError
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.verify import verify
from minitorch2.script.operators import prims

GOOD = """graph(%x : Tensor, %n : int, %c : bool):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::add(%x, %x, %one)
      -> (%a)
    block1():
      -> (%x)
  %z : Tensor = prim::Loop(%n, %c, %y)
    block0(%i : int, %w : Tensor):
      %b : Float(2) = aten::relu(%w)
      -> (%c, %b)
  %pair : (Tensor, int) = prim::TupleConstruct(%z, %n)
  %l : int[] = prim::ListConstruct(%n, %one)
  %k : int = aten::__getitem__(%l, %one)
  %f : Tensor = prim::FusionGroup_0(%z)
  return (%pair, %k)
with prim::FusionGroup_0 = graph(%x : Tensor):
  return (%x)
"""


def test_a_sound_graph_passes():
    verify(parse_graph(GOOD))
    assert prims.PRIMS


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("%y : Tensor = prim::If(%c)", "%y : Tensor = prim::If(%n)", "its condition is int"),
        ("-> (%a)", "-> (%one)", "a branch's outputs 0 is int"),
        ("-> (%a)", "-> ()", "there are 0 of a branch's outputs"),
        ("block0(%i : int,", "block0(%i : float,", "the counter 0 is float"),
        ("Loop(%n, %c, %y)", "Loop(%n, %c, %n)", "the carried inputs 0 is int"),
        ("-> (%c, %b)", "-> (%n, %b)", "the body's outputs 0 is int"),
        ("aten::add(%x, %x, %one)", "aten::add(%x, %x)", "no overload takes"),
        ("%k : int = aten", "%k : str = aten", "a result is int, and str is expected"),
        ("%l : int[] =", "%l : str[] =", "the elements 0 is int"),
        ("(Tensor, int) =", "(Tensor, str) =", "the elements 1 is int"),
        ("[value=1]", "[value=1.5]", "its value is float"),
        ("graph(%x : Tensor):", "graph():", "1 inputs are given to a graph of 0"),
    ],
)
def test_wrong_types_are_found(old, new, message):
    text = GOOD.replace(old, new)
    if new == "graph():":
        text = text.replace("return (%x)", "return ()")
    assert text != GOOD
    with pytest.raises(VerificationError, match=message):
        verify(parse_graph(text))


def test_a_value_of_another_branch_is_not_visible():
    graph = parse_graph(GOOD)
    branch = next(node for node in graph.nodes() if node.kind == "prim::If")
    branch.blocks[1].replace_output(0, branch.blocks[0].outputs[0])
    with pytest.raises(VerificationError, match="is not visible"):
        verify(graph)


def test_a_value_that_is_defined_later_is_not_visible():
    graph = parse_graph(GOOD)
    first, *_, last = graph.block.nodes
    first.move_after(last)
    with pytest.raises(VerificationError, match="is not visible"):
        verify(graph)


def test_uses_that_are_none_are_found():
    graph = Graph()
    graph.add_output(graph.add_input("x"))
    graph.inputs[0]._uses.append(graph.inputs[0].uses[0])
    with pytest.raises(VerificationError, match="has 2 uses"):
        verify(graph)
    graph.inputs[0]._uses[:] = []
    with pytest.raises(VerificationError, match="has 0 uses"):
        verify(graph)


def test_an_attribute_is_one_value_or_a_flat_list():
    graph = Graph()
    node = graph.constant([1, 2]).node
    verify(graph)
    for value in ([[1]], ((1, 2), 3), [{"a": 1}]):
        node.attributes["nested"] = value
        with pytest.raises(VerificationError, match="its attribute nested holds a container"):
            verify(graph)
