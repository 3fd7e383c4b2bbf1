"""Where values die."""

from minitorch2.script.analysis.liveness import last_uses
from minitorch2.script.ir.parse_ir import parse_graph


def test_values_die_at_their_last_use():
    graph = parse_graph("""graph(%x : Tensor, %n : int, %c : bool):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%a)
  %d : Tensor = aten::neg(%a)
  %l : Tensor = prim::Loop(%n, %c, %b)
    block0(%i : int, %w : Tensor):
      %e : Tensor = aten::mul(%w, %x)
      %f : Tensor = aten::neg(%e)
      -> (%c, %f)
  return (%l)""")
    dying = {
        (node.outputs[0].name): [value.name for value in values]
        for node, values in last_uses(graph).items()
    }
    assert dying == {
        "a": [],
        "b": [],
        "d": ["a", "d"],
        "l": ["n", "c", "b", "x"],
        "e": ["w"],
        "f": ["e"],
    }
