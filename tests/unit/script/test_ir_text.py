"""The canonical text of graphs, read and written."""

import pytest
import torch

from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.syntax.errors import ScriptError

CONTROL = """graph(%x : Tensor, %n : int, %c : bool):
  %0 : int = prim::Constant[value=1]()
  %y : Tensor, %1 : int? = prim::If(%c) # model.py:3:4
    block0():
      %y.1 : Tensor = aten::add(%x, %x, %0) # model.py:4:8
      %2 : NoneType = prim::Constant[value=None]()
      -> (%y.1, %2)
    block1():
      -> (%x, %0)
  %3 : bool = prim::Constant[value=True]()
  %y.2 : Tensor = prim::Loop(%n, %3, %y)
    block0(%i : int, %y.3 : Tensor):
      prim::Print(%i)
      -> (%3, %y.3)
  return (%y.2, %1)
"""

ATTRIBUTES = """graph():
  %0 : float = prim::Constant[value=-inf]()
  %1 : float = prim::Constant[value=1e-05]()
  %2 : str = prim::Constant[value="a \\"b\\" \\n # <c> é"]()
  %3 : complex = prim::Constant[value=complex(1.0, -2.0)]()
  %4 : ScalarType = prim::Constant[value=torch.float32]()
  %5 : Device = prim::Constant[value=device("cuda:0")]()
  %6 : Long(2, 1) = prim::Constant[value=tensor([[1], [2]], torch.int64)]()
  %7 : Tensor = prim::Constant[value=<Float(100, requires_grad=0, device=cpu)>]()
  %8 : bool = prim::isinstance[types=(type(int), type(Tensor[]))](%1)
  %9 : int[] = prim::Constant[value=[1, -2]]()
  %10 : Tensor = custom::op_2(%7)
  return ()
"""

REGIONS = """graph(%x : Tensor):
  %0 : Tensor = prim::FusionGroup_0(%x)
  %1 : Tensor = prim::FusionGroup_1[index=3](%0)
  %2 : Tensor = prim::bailout_0(%1)
  return (%2)
with prim::FusionGroup_0 = graph(%x : Tensor):
  %0 : Tensor = prim::FusionGroup_2(%x)
  return (%0)
with prim::FusionGroup_1 = graph(%0 : Tensor):
  return (%0)
with prim::bailout_0 = graph(%0 : Tensor):
  return (%0)
with prim::FusionGroup_2 = graph(%y : Tensor):
  return (%y)
"""


@pytest.mark.parametrize("text", [CONTROL, ATTRIBUTES, REGIONS], ids=["control", "attr", "region"])
def test_text_of_a_graph_read_is_the_text(text):
    graph = parse_graph(text)
    assert str(graph) == text
    assert str(graph.copy()) == text


def test_attributes_have_their_python_values():
    values = [node.attributes.get("value") for node in parse_graph(ATTRIBUTES).nodes()]
    assert values[2] == 'a "b" \n # <c> é' and values[3] == 1 - 2j
    assert values[4] is torch.float32 and values[6].tolist() == [[1], [2]]


def test_ranges_are_read():
    node = next(node for node in parse_graph(CONTROL).nodes() if node.kind == "aten::add")
    assert (node.range.file.name, node.range.line, node.range.column) == ("model.py", 4, 8)


def test_names_are_made_canonical():
    graph = parse_graph("graph(%7 : int, %x.3 : int):\n  return (%x.3, %7)")
    assert str(graph) == "graph(%0 : int, %x : int):\n  return (%x, %0)\n"


def test_a_graph_in_any_attribute_is_printed():
    graph = Graph()
    graph.insert(graph.create("prim::both", (), 0)).attributes["first"] = Graph()
    assert "prim::both[first=@prim::Graph_0]()" in str(graph)
    assert str(parse_graph(str(graph))) == str(graph)


@pytest.mark.parametrize(
    "text, message",
    [
        ("graph(%x : int):\n  return (%y)", "%y is not defined"),
        ("graph(%x : int, %x : int):\n  return ()", "%x is defined twice"),
        ("graph(%x int):\n  return ()", ": is expected here, not `int`"),
        ("graph():\n  return () 5", "end is expected here, not `5`"),
        ("graph():\n  %0 : int = a::b[g=@prim::Graph_0]()\n  return ()", "no graph prim::Graph_0"),
    ],
)
def test_bad_texts_are_refused(text, message):
    with pytest.raises(ScriptError, match=message):
        parse_graph(text)
