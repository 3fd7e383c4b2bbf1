"""From profiles to guards to bailouts."""

import pytest
import torch

from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.types import TensorType
from minitorch2.script.passes import pipeline
from minitorch2.script.passes.eliminate_guards import eliminate_guards
from minitorch2.script.passes.insert_bailouts import insert_bailouts
from minitorch2.script.passes.insert_guards import insert_guards
from minitorch2.script.passes.insert_profiles import insert_profiles
from minitorch2.script.passes.move_guards import move_guards
from minitorch2.script.runtime.interpreter import interpret
from minitorch2.script.runtime.python_code import compile_graph
from tests.property.script_graphs import Evaluator
from tests.unit.script.passes import after, assert_becomes


class Seen:
    """A record that has seen tensors of two by three floats."""

    type = TensorType(torch.float32, None, True, (2, 3))


def test_each_use_of_a_tensor_is_watched_and_numbers_are_not():
    assert_becomes(
        insert_profiles,
        """
        graph(%x : Tensor, %n : int):
          %a : Tensor = aten::mul(%x, %x)
          %b : Tensor = aten::mul(%a, %n)
          return (%b)
        """,
        """
        graph(%x : Tensor, %n : int):
          %x.1 : Tensor = prim::profile[record=0](%x)
          %x.2 : Tensor = prim::profile[record=0](%x)
          %a : Tensor = aten::mul(%x.1, %x.2)
          %a.1 : Tensor = prim::profile[record=0](%a)
          %b : Tensor = aten::mul(%a.1, %n)
          return (%b)
        """,
        lambda: 0,
    )


def profiled_then(*passes):
    """Return a function that watches a graph with `Seen` and runs passes."""

    def run(graph):
        insert_profiles(graph, Seen)
        for each in passes:
            each(graph)

    return run


SUM = """
graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %1)
  %b : Tensor = aten::relu(%a)
  return (%b)
"""


def test_what_was_seen_is_checked_but_for_gradients():
    found = after(profiled_then(insert_guards), SUM)
    assert found.count("Float(2, 3) = prim::guard") == 3
    assert "profile" not in found


def test_guards_meet_behind_definitions():
    text = SUM.replace("aten::add(%x, %y, %1)", "aten::add(%x, %x, %1)")
    found = after(profiled_then(insert_guards, move_guards), text)
    assert found.count("prim::guard(%x)") == 1


def test_the_guard_of_a_sum_of_checked_tensors_is_removed():
    found = after(profiled_then(insert_guards, move_guards, eliminate_guards), SUM)
    assert found.count("prim::guard") == 2
    assert "%a : Float(2, 3) = aten::add" in found


def test_two_guards_that_disagree_check_what_they_share():
    text = """
        graph(%x : Tensor):
          %a : Float(2, 3) = prim::guard(%x)
          %b : Float(2, 4) = prim::guard(%x)
          return (%a, %b)
        """
    assert "%a : Float(2, *) = prim::guard(%x)" in after(move_guards, text)


def test_a_tensor_whose_form_changes_in_place_is_not_guarded():
    text = """
        graph(%x : Tensor):
          %0 : int = prim::Constant[value=0]()
          %a : Tensor = aten::relu(%x)
          %w : Tensor = aten::unsqueeze_(%a, %0)
          %b : Tensor = aten::tanh(%a)
          return (%b)
        """
    found = after(profiled_then(insert_guards), text)
    assert "prim::guard(%a)" not in found
    assert "prim::guard(%x)" in found


LOOP = """
graph(%x : Tensor, %n : int):
  %t : bool = prim::Constant[value=True]()
  %one : int = prim::Constant[value=1]()
  %z : Tensor = prim::Loop(%n, %t, %x)
    block0(%i : int, %acc : Tensor):
      %g : Double(2) = prim::guard(%acc)
      %s : Tensor = aten::mul(%g, %i)
      %q : Tensor = aten::add(%s, %x, %one)
      -> (%t, %q)
  %r : Tensor = aten::neg(%z)
  return (%r)
"""


def test_a_bailout_has_the_rest_of_the_iteration_of_the_loop_and_of_the_graph():
    assert_becomes(
        lambda graph: (insert_bailouts(graph), _take_rest(graph)),
        LOOP,
        """
        graph(%acc : Tensor, %i : int, %x : Tensor, %n : int):
          %t : bool = prim::Constant[value=True]()
          %one : int = prim::Constant[value=1]()
          %s : Tensor = aten::mul(%acc, %i)
          %q : Tensor = aten::add(%s, %x, %one)
          %0 : int = prim::Constant[value=1]()
          %1 : int = aten::add(%i, %0)
          %2 : int = aten::sub(%n, %1)
          %3 : Tensor = prim::Loop(%2, %t, %q)
            block0(%i.1 : int, %acc.1 : Tensor):
              %4 : int = aten::add(%i.1, %1)
              %s.1 : Tensor = aten::mul(%acc.1, %4)
              %q.1 : Tensor = aten::add(%s.1, %x, %one)
              -> (%t, %q.1)
          %r : Tensor = aten::neg(%3)
          return (%r)
        """,
    )


def _take_rest(graph):
    """Make a graph the rest that its bailout has."""
    rest = next(n for n in graph.nodes() if n.kind == "prim::bailout").attributes["Subgraph"]
    graph.block = rest.block


SEVERAL = """
graph(%x : Tensor, %y : Tensor):
  %a : Float(2) = prim::guard(%x)
  %one : int = prim::Constant[value=1]()
  %b : Float(2) = prim::guard(%y)
  %s : Tensor = aten::add(%a, %b, %one)
  %c : Float(2) = prim::guard(%s)
  %r : Tensor = aten::mul(%c, %b)
  return (%r)
"""


def test_guards_that_stand_together_share_one_rest():
    found = after(insert_bailouts, SEVERAL)
    assert "%a : Float(2), %b : Float(2) = prim::bailout_0[index=0](%x, %y)" in found
    assert "%c : Float(2) = prim::bailout_1[index=1](%s, %b)" in found
    assert found.count("with prim::bailout") == 2


@pytest.mark.parametrize("run", [compile_graph, interpret])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 1), (1, 3), (2, 1), (1, 2), (3, 3)])
def test_any_of_the_guards_that_share_a_rest_may_fail(run, sizes):
    graph = parse_graph(SEVERAL)
    insert_bailouts(graph)
    x, y = (torch.arange(1.0, size + 1) for size in sizes)
    assert torch.equal(run(graph)(x, y), (x + y) * y)


def test_a_guard_that_fails_in_a_loop_gives_the_same_result_after_one_bailout():
    graph, plain = (
        parse_graph(LOOP),
        parse_graph(LOOP.replace("prim::guard", "prim::unchecked_cast")),
    )
    insert_bailouts(graph)
    for size, bailouts in ((2, 0), (3, 1)):
        x = torch.arange(size, dtype=torch.float64)
        evaluator = Evaluator()
        (found,) = evaluator.run(graph, [x, 4])
        (wanted,) = Evaluator().run(plain, [x, 4])
        assert torch.equal(found, wanted)
        assert evaluator.bailouts == bailouts


def test_bailouts_stay_through_the_other_passes():
    graph = parse_graph(LOOP)
    pipeline.guard(graph)
    pipeline.prepare(graph)
    evaluator = Evaluator()
    evaluator.run(graph, [torch.ones(3, dtype=torch.float64), 2])
    assert evaluator.bailouts == 1
