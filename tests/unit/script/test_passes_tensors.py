"""Passes over tensor operators: types, writes, chunks, products, frozen modules, types."""

import textwrap

import torch
from torch import nn

from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.types import TENSOR, ClassType
from minitorch2.script.passes.batch_matmuls import batch_matmuls
from minitorch2.script.passes.chunk import chunk
from minitorch2.script.passes.eliminate_dead_code import eliminate_dead_code
from minitorch2.script.passes.freeze_module import freeze_module
from minitorch2.script.passes.peephole import peephole
from minitorch2.script.passes.propagate_types import propagate_types
from minitorch2.script.passes.remove_expands import remove_expands
from minitorch2.script.passes.remove_mutation import remove_mutation
from tests.unit.script.passes import after, assert_becomes, assert_stays


def test_rank_and_dtype_reach_the_rest_of_the_graph():
    assert_becomes(
        propagate_types,
        """
        graph(%x : Float(*, 3), %w : Float(*, *)):
          %1 : int = prim::Constant[value=1]()
          %t : Tensor = aten::t(%w)
          %m : Tensor = aten::mm(%x, %t)
          %s : Tensor = aten::add(%x, %x, %1)
          %b : Tensor = aten::lt(%s, %1)
          return (%m, %b)
        """,
        """
        graph(%x : Float(*, 3), %w : Float(*, *)):
          %1 : int = prim::Constant[value=1]()
          %t : Float(*, *) = aten::t(%w)
          %m : Float(*, *) = aten::mm(%x, %t)
          %s : Float(*, 3) = aten::add(%x, %x, %1)
          %b : Bool(*, 3, requires_grad=0) = aten::lt(%s, %1)
          return (%m, %b)
        """,
    )


def test_sizes_that_an_unknown_size_cannot_change_are_known():
    """Regression: one unknown size hid all sizes of a product, so its output needed a guard."""
    assert_becomes(
        propagate_types,
        """
        graph(%x : Float(7, *, 3), %w : Float(3, 8)):
          %0 : int = prim::Constant[value=0]()
          %2 : int = prim::Constant[value=2]()
          %row : Tensor = aten::select(%x, %0, %0)
          %m : Tensor = aten::mm(%row, %w)
          %l : Tensor[] = aten::split(%m, %2, %2)
          %n : Tensor[] = aten::unbind(%x, %0)
          %k : Tensor[] = aten::split(%x, %2, %2)
          %a : Tensor, %b : Tensor = prim::ListUnpack(%k)
          return (%b)
        """,
        """
        graph(%x : Float(7, *, 3), %w : Float(3, 8)):
          %0 : int = prim::Constant[value=0]()
          %2 : int = prim::Constant[value=2]()
          %row : Float(*, 3) = aten::select(%x, %0, %0)
          %m : Float(*, 8) = aten::mm(%row, %w)
          %l : Tensor[] = aten::split(%m, %2, %2)
          %n : Tensor[] = aten::unbind(%x, %0)
          %k : Tensor[] = aten::split(%x, %2, %2)
          %a : Float(7, *, 2), %b : Float(7, *, 1) = prim::ListUnpack(%k)
          return (%b)
        """,
    )


def test_a_length_is_known_unless_an_unknown_size_decides_it():
    text = """
        graph(%x : Float(*, 6)):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %4 : int = prim::Constant[value=4]()
          %columns : Tensor[] = aten::chunk(%x, %4, %1)
          %rows : Tensor[] = aten::chunk(%x, %4, %0)
          %c : int = aten::len(%columns)
          %r : int = aten::len(%rows)
          return (%c, %r)
        """
    found = after(peephole, text)
    assert "%c : int = prim::Constant[value=3]()" in found  # chunks of two columns
    assert "%r : int = aten::len(%rows)" in found


def test_what_a_size_decides_is_not_believed():
    for first_rows in ("Float(*, *)", "Float(*, *, 8)"):  # a slice may be shorter than asked for
        assert "(3, " not in after(
            propagate_types,
            f"""
            graph(%x : {first_rows}):
              %0 : int = prim::Constant[value=0]()
              %1 : int = prim::Constant[value=1]()
              %3 : int = prim::Constant[value=3]()
              %y : Tensor = aten::slice(%x, %0, %0, %3, %1)
              return (%y)
            """,
        )
    assert "Tensor = aten::squeeze" in after(
        propagate_types,
        """
        graph(%x : Float(*, *)):
          %y : Tensor = aten::squeeze(%x)
          return (%y)
        """,
    )


def test_a_loop_that_changes_the_dtype_carries_any_tensor():
    text = """
        graph(%x : Float(2), %n : int):
          %t : bool = prim::Constant[value=True]()
          %y : Tensor = prim::Loop(%n, %t, %x)
            block0(%i : int, %a : Tensor):
              %b : Tensor = aten::ge(%a, %i)
              -> (%t, %b)
          return (%y)
        """
    found = after(propagate_types, text)
    assert "%y : Tensor =" in found
    assert "%a : Tensor)" in found


def test_a_write_to_a_fresh_tensor_becomes_pure():
    assert_becomes(
        remove_mutation,
        """
        graph(%x : Float(2)):
          %1 : int = prim::Constant[value=1]()
          %a : Float(2) = aten::add(%x, %x, %1)
          %b : Float(2) = aten::mul(%a, %x)
          %w : Float(2) = aten::relu_(%a)
          %c : Float(2) = aten::mul(%a, %b)
          return (%c, %w)
        """,
        """
        graph(%x : Float(2)):
          %1 : int = prim::Constant[value=1]()
          %a : Float(2) = aten::add(%x, %x, %1)
          %b : Float(2) = aten::mul(%a, %x)
          %w : Float(2, requires_grad=0) = aten::relu(%a)
          %c : Float(2) = aten::mul(%w, %b)
          return (%c, %w)
        """.replace(", requires_grad=0", ""),
    )


def test_writes_that_others_see_or_that_keep_a_dtype_stay():
    assert_stays(
        remove_mutation,
        """
        graph(%x : Float(2), %d : Double(2)):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %a : Float(2) = aten::relu(%x)
          %row : Tensor = aten::select(%a, %0, %0)
          %w : Tensor = aten::relu_(%row)
          %v : Tensor = aten::neg_(%x)
          %i : Long(2) = aten::argsort(%x, %0)
          %b : Tensor = aten::tanh(%x)
          %u : Tensor = aten::add_(%b, %d, %1)
          return (%a, %b)
        """.replace("          %i : Long(2) = aten::argsort(%x, %0)\n", ""),
    )


def test_an_item_that_is_appended_first_is_part_of_the_literal():
    assert_becomes(
        remove_mutation,
        """
        graph(%x : Tensor):
          %l : Tensor[] = prim::ListConstruct()
          %m : Tensor[] = aten::append(%l, %x)
          %n : Tensor[] = aten::append(%l, %x)
          return (%l)
        """,
        """
        graph(%x : Tensor):
          %l : Tensor[] = prim::ListConstruct(%x, %x)
          return (%l)
        """,
    )


def test_a_chunk_of_a_known_number_is_one_node():
    assert_becomes(
        chunk,
        """
        graph(%x : Tensor):
          %0 : int = prim::Constant[value=2]()
          %1 : int = prim::Constant[value=1]()
          %l : Tensor[] = aten::chunk(%x, %0, %1)
          %a : Tensor, %b : Tensor = prim::ListUnpack(%l)
          return (%a, %b)
        """,
        """
        graph(%x : Tensor):
          %0 : int = prim::Constant[value=2]()
          %1 : int = prim::Constant[value=1]()
          %a : Tensor, %b : Tensor = prim::ConstantChunk[chunks=2, dim=1](%x)
          return (%a, %b)
        """,
    )


def test_an_implicit_expand_goes_and_another_one_stays():
    text = """
        graph(%x : Tensor, %y : Tensor, %s : int[]):
          %1 : int = prim::Constant[value=1]()
          %implicit : bool = prim::Constant[value=True]()
          %e : Tensor = aten::expand(%x, %s, %implicit)
          %z : Tensor = aten::add(%e, %y, %1)
          return (%z)
        """
    assert "aten::add(%x, %y" in after(remove_expands, text)
    assert_stays(remove_expands, text.replace("True", "False"))


PRODUCTS = """
graph(%x : Tensor, %y : Tensor, %w : Tensor):
  %1 : int = prim::Constant[value=1]()
  %z : Tensor = aten::add(%x, %y, %1)
  %a : Tensor = aten::mm(%x, %w)
  %b : Tensor = aten::mm(%y, %w)
  %c : Tensor = aten::mm(%z, %w)
  %d : Tensor = aten::maximum(%a, %b)
  %e : Tensor = aten::maximum(%c, %d)
  return (%e)
"""


def test_products_with_one_operand_become_one_product():
    found = after(batch_matmuls, PRODUCTS)
    assert found.count("aten::mm") == 1
    assert "aten::split_with_sizes" in found


def test_products_that_depend_on_each_other_stay():
    assert_stays(batch_matmuls, PRODUCTS.replace("aten::mm(%y, %w)", "aten::mm(%a, %w)"))


def test_a_frozen_module_has_constants_instead_of_attributes():
    module = nn.Linear(2, 3)
    graph = Graph("forward")
    self_ = graph.add_input("self", ClassType("Linear"))
    x = graph.add_input("x")
    kinds = {"weight": TENSOR, "bias": TENSOR}
    read = [graph.create("prim::GetAttr", [self_], [kind]) for kind in kinds.values()]
    for node, name in zip(read, kinds, strict=True):
        node.attributes["name"] = name
        graph.insert(node)
    graph.add_output(
        graph.insert(graph.create("aten::linear", [x, *(n.output for n in read)])).output
    )
    assert freeze_module(graph, module)
    eliminate_dead_code(graph)
    constants = [n.attributes["value"] for n in graph.nodes() if n.kind == "prim::Constant"]
    assert torch.equal(constants[0], module.weight)
    assert not any(value.requires_grad for value in constants)
    assert not any(node.kind == "prim::GetAttr" for node in graph.nodes())


def test_a_frozen_module_keeps_what_its_method_sets():
    graph = parse_graph(
        textwrap.dedent("""
        graph(%x : Tensor):
          return (%x)
        """)
    )
    self_ = graph.add_input("self", ClassType("Counter"))
    graph.block.inputs.reverse()
    read = graph.insert(graph.create("prim::GetAttr", [self_]))
    write = graph.insert(graph.create("prim::SetAttr", [self_, graph.inputs[1]], 0))
    read.attributes["name"] = write.attributes["name"] = "weight"
    assert not freeze_module(graph, nn.Linear(2, 3))
