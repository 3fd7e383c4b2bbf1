"""Passes that remove and merge: dead code, common subexpressions, constants, branches, tuples."""

import textwrap

import pytest

from minitorch2 import config
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.passes.eliminate_common_subexpressions import (
    eliminate_common_subexpressions,
)
from minitorch2.script.passes.eliminate_dead_code import eliminate_dead_code
from minitorch2.script.passes.inline import inline
from minitorch2.script.passes.lower_tuples import lower_tuples
from minitorch2.script.passes.peephole import peephole
from minitorch2.script.passes.pool_constants import pool_constants
from minitorch2.script.passes.propagate_constants import propagate_constants
from minitorch2.script.passes.simplify_branches import simplify_branches
from minitorch2.script.passes.unroll_loops import unroll_loops
from tests.unit.script.passes import after, assert_becomes, assert_stays


def test_dead_code_goes_and_what_it_read_goes_with_it():
    assert_becomes(
        eliminate_dead_code,
        """
        graph(%x : Tensor):
          %a : Tensor = aten::relu(%x)
          %b : Tensor = aten::neg(%a)
          %c : Tensor = aten::tanh(%x)
          return (%c)
        """,
        """
        graph(%x : Tensor):
          %c : Tensor = aten::tanh(%x)
          return (%c)
        """,
    )


def test_a_write_that_the_caller_sees_stays():
    assert_stays(
        eliminate_dead_code,
        """
        graph(%x : Tensor):
          %0 : int = prim::Constant[value=0]()
          %row : Tensor = aten::select(%x, %0, %0)
          %w : Tensor = aten::relu_(%row)
          return (%0)
        """,
    )


def test_a_write_to_a_tensor_that_nobody_reads_goes():
    assert_becomes(
        eliminate_dead_code,
        """
        graph(%x : Tensor):
          %a : Tensor = aten::relu(%x)
          %b : Tensor = aten::neg_(%a)
          return (%x)
        """,
        """
        graph(%x : Tensor):
          return (%x)
        """,
    )


def test_prints_draws_and_possible_errors_of_lists_stay():
    assert_stays(
        eliminate_dead_code,
        """
        graph(%x : Tensor[], %i : int):
          %a : Tensor = aten::__getitem__(%x, %i)
           = prim::Print(%i)
          return (%i)
        """.replace(" = prim::Print", "prim::Print"),
    )


def test_a_loop_stops_carrying_what_nobody_reads():
    assert_becomes(
        eliminate_dead_code,
        """
        graph(%x : Tensor, %n : int):
          %t : bool = prim::Constant[value=True]()
          %a : Tensor, %b : Tensor = prim::Loop(%n, %t, %x, %x)
            block0(%i : int, %p : Tensor, %q : Tensor):
              %r : Tensor = aten::relu(%p)
              %s : Tensor = aten::tanh(%q)
              -> (%t, %r, %s)
          return (%a)
        """,
        """
        graph(%x : Tensor, %n : int):
          %t : bool = prim::Constant[value=True]()
          %a : Tensor = prim::Loop(%n, %t, %x)
            block0(%i : int, %p : Tensor):
              %r : Tensor = aten::relu(%p)
              -> (%t, %r)
          return (%a)
        """,
    )


def test_the_limit_of_rewrites_stops_a_pass_and_its_name_switches_it_off():
    text = """
        graph(%x : Tensor):
          %a : Tensor = aten::relu(%x)
          %b : Tensor = aten::tanh(%x)
          return (%x)
        """
    with config.patch(pass_limits=("eliminate_dead_code=1",)):
        assert "relu" in after(eliminate_dead_code, text)
        assert "tanh" not in after(eliminate_dead_code, text)
    with config.patch(disabled_passes=("eliminate_dead_code",)):
        assert_stays(eliminate_dead_code, text)


def test_an_expression_that_stands_twice_is_computed_once():
    assert_becomes(
        eliminate_common_subexpressions,
        """
        graph(%x : Tensor, %c : bool):
          %a : Tensor = aten::relu(%x)
          %b : Tensor = prim::If(%c)
            block0():
              %d : Tensor = aten::relu(%x)
              %e : Tensor = aten::tanh(%d)
              -> (%e)
            block1():
              %f : Tensor = aten::tanh(%a)
              -> (%f)
          return (%b)
        """,
        """
        graph(%x : Tensor, %c : bool):
          %a : Tensor = aten::relu(%x)
          %b : Tensor = prim::If(%c)
            block0():
              %e : Tensor = aten::tanh(%a)
              -> (%e)
            block1():
              %f : Tensor = aten::tanh(%a)
              -> (%f)
          return (%b)
        """,
    )


WRITE_BETWEEN = """
graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %w : Tensor = aten::neg_(%x)
  %b : Tensor = aten::relu(%x)
  %c : Tensor = aten::mul(%a, %b)
  return (%c)
"""
BOTH_RETURNED = """
graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  return (%a, %b)
"""
DRAWN = """
graph(%x : Tensor):
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::bernoulli(%x, %n)
  %b : Tensor = aten::bernoulli(%x, %n)
  %c : Tensor = aten::mul(%a, %b)
  return (%c)
""".replace("prim::Constant()", "prim::Constant[value=None]()")
NO_GRADIENT_BETWEEN = """
graph(%x : Tensor):
  %f : bool = prim::Constant[value=False]()
  %a : Tensor = aten::relu(%x)
  %g : bool = prim::SetGradEnabled(%f)
  %b : Tensor = aten::relu(%x)
  %c : Tensor = aten::mul(%a, %b)
  return (%c)
"""


@pytest.mark.parametrize("text", [WRITE_BETWEEN, BOTH_RETURNED, DRAWN, NO_GRADIENT_BETWEEN])
def test_expressions_that_only_look_alike_stay(text):
    assert_stays(eliminate_common_subexpressions, text)


def test_numbers_that_only_depend_on_constants_are_computed():
    assert_becomes(
        propagate_constants,
        """
        graph(%n : int):
          %0 : int = prim::Constant[value=3]()
          %1 : int = prim::Constant[value=4]()
          %2 : int = aten::mul(%0, %1)
          %3 : bool = aten::lt(%2, %1)
          return (%2, %3)
        """,
        """
        graph(%n : int):
          %0 : int = prim::Constant[value=3]()
          %1 : int = prim::Constant[value=4]()
          %2 : int = prim::Constant[value=12]()
          %3 : bool = prim::Constant[value=False]()
          return (%2, %3)
        """,
    )


def test_a_division_by_zero_is_left_to_the_run():
    assert_stays(
        propagate_constants,
        """
        graph(%n : int):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %2 : int = aten::floordiv(%1, %0)
          return (%2)
        """,
    )


def test_one_constant_of_each_type_and_value_is_kept_at_the_start():
    assert_becomes(
        pool_constants,
        """
        graph(%n : int, %c : bool):
          %0 : int = prim::Constant[value=1]()
          %1 : int = aten::add(%n, %0)
          %2 : float = prim::Constant[value=1.0]()
          %3 : int = prim::If(%c)
            block0():
              %4 : int = prim::Constant[value=1]()
              -> (%4)
            block1():
              -> (%1)
          return (%3, %2)
        """,
        """
        graph(%n : int, %c : bool):
          %0 : int = prim::Constant[value=1]()
          %2 : float = prim::Constant[value=1.0]()
          %1 : int = aten::add(%n, %0)
          %3 : int = prim::If(%c)
            block0():
              -> (%0)
            block1():
              -> (%1)
          return (%3, %2)
        """,
    )


def test_a_branch_whose_condition_is_known_is_taken():
    assert_becomes(
        simplify_branches,
        """
        graph(%x : Tensor):
          %c : bool = prim::Constant[value=False]()
          %y : Tensor = prim::If(%c)
            block0():
              %a : Tensor = aten::relu(%x)
              -> (%a)
            block1():
              %b : Tensor = aten::tanh(%x)
              -> (%b)
          return (%y)
        """,
        """
        graph(%x : Tensor):
          %c : bool = prim::Constant[value=False]()
          %b : Tensor = aten::tanh(%x)
          return (%b)
        """,
    )


def test_an_output_that_one_branch_never_sets_is_what_the_other_one_gives():
    text = """
        graph(%x : Tensor, %c : bool):
          %u : Tensor = prim::Uninitialized()
          %y : Tensor = prim::If(%c)
            block0():
              -> (%x)
            block1():
              -> (%u)
          return (%y)
        """
    assert after(simplify_branches, text).splitlines()[-1].strip() == "return (%x)"


def test_tuples_that_loops_and_branches_carry_are_taken_apart():
    text = """
        graph(%x : Tensor, %n : int):
          %t : bool = prim::Constant[value=True]()
          %p : (Tensor, int) = prim::TupleConstruct(%x, %n)
          %q : (Tensor, int) = prim::Loop(%n, %t, %p)
            block0(%i : int, %r : (Tensor, int)):
              %a : Tensor, %b : int = prim::TupleUnpack(%r)
              %c : Tensor = aten::relu(%a)
              %s : (Tensor, int) = prim::TupleConstruct(%c, %b)
              -> (%t, %s)
          %d : Tensor, %e : int = prim::TupleUnpack(%q)
          return (%d, %e)
        """

    def clean(graph):
        lower_tuples(graph)
        simplify_branches(graph)
        eliminate_dead_code(graph)

    assert_becomes(
        clean,
        text,
        """
        graph(%x : Tensor, %n : int):
          %t : bool = prim::Constant[value=True]()
          %q : Tensor = prim::Loop(%n, %t, %x)
            block0(%i : int, %r : Tensor):
              %c : Tensor = aten::relu(%r)
              -> (%t, %c)
          return (%q, %n)
        """,
    )


def test_a_small_loop_of_known_length_is_unrolled_with_its_counter():
    assert_becomes(
        unroll_loops,
        """
        graph(%x : int):
          %n : int = prim::Constant[value=2]()
          %t : bool = prim::Constant[value=True]()
          %y : int = prim::Loop(%n, %t, %x)
            block0(%i : int, %a : int):
              %b : int = aten::add(%a, %i)
              -> (%t, %b)
          return (%y)
        """,
        """
        graph(%x : int):
          %n : int = prim::Constant[value=2]()
          %t : bool = prim::Constant[value=True]()
          %0 : int = prim::Constant[value=0]()
          %b : int = aten::add(%x, %0)
          %1 : int = prim::Constant[value=1]()
          %b.1 : int = aten::add(%b, %1)
          return (%b.1)
        """,
    )


@pytest.mark.parametrize(
    ("node", "result"),
    [
        ("aten::mul(%n, %one)", "%n"),
        ("aten::add(%n, %zero)", "%n"),
        ("aten::sub(%n, %zero)", "%n"),
        ("aten::add(%zero, %n)", "%n"),
    ],
)
def test_laws_of_integers(node, result):
    text = f"""
        graph(%n : int):
          %zero : int = prim::Constant[value=0]()
          %one : int = prim::Constant[value=1]()
          %r : int = {node}
          return (%r)
        """
    assert after(peephole, text).splitlines()[-1] == f"  return ({result})"


def test_what_types_tell_is_known_unless_the_form_changes_in_place():
    text = """
        graph(%x : Float(2, *)):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %r : int = aten::dim(%x)
          %a : int = aten::size(%x, %0)
          %b : int = aten::size(%x, %1)
          return (%r, %a, %b)
        """
    found = after(peephole, text)
    assert "aten::dim" not in found
    assert found.count("aten::size") == 1
    changed = text.replace("%r : int", "%w : Tensor = aten::squeeze_(%x)\n          %r : int")
    assert_stays(peephole, changed)


def test_calls_are_replaced_by_the_graphs_that_they_call():
    callee = parse_graph(
        textwrap.dedent("""
        graph(%a : Tensor):
          %b : Tensor = aten::relu(%a)
          return (%b)
        """)
    )

    class Function:
        graph = callee

    graph = parse_graph("graph(%x : Tensor):\n  return (%x)\n")
    call = graph.create("prim::CallFunction", [graph.inputs[0]])
    call.attributes["function"] = Function
    graph.block.insert(call)
    graph.block.replace_output(0, call.output)
    assert inline(graph)
    assert [node.kind for node in graph.nodes()] == ["aten::relu"]
    assert not inline(graph)
