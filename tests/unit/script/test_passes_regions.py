"""Passes that make regions; the overview's LSTM cell; its check of differentiable graphs."""

import textwrap

import pytest
import torch

from minitorch2 import config, jit
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.passes import pipeline
from minitorch2.script.passes.create_differentiable_graphs import create_differentiable_graphs
from minitorch2.script.passes.eliminate_dead_code import eliminate_dead_code
from minitorch2.script.passes.fuse_graphs import fuse_graphs
from tests.unit.script.passes import after, optimize

LSTM = """
graph(%x : Float(*, *), %hx : Float(*, *), %cx : Float(*, *), %w_ih : Float(*, *),
      %w_hh : Float(*, *), %b_ih : Float(*), %b_hh : Float(*)):
  %7 : int = prim::Constant[value=4]()
  %8 : int = prim::Constant[value=1]()
  %9 : Tensor = aten::t(%w_ih)
  %10 : Tensor = aten::mm(%x, %9)
  %11 : Tensor = aten::t(%w_hh)
  %12 : Tensor = aten::mm(%hx, %11)
  %13 : Tensor = aten::add(%10, %12, %8)
  %14 : Tensor = aten::add(%13, %b_ih, %8)
  %gates : Tensor = aten::add(%14, %b_hh, %8)
  %16 : Tensor[] = aten::chunk(%gates, %7, %8)
  %i : Tensor, %f : Tensor, %c : Tensor, %o : Tensor = prim::ListUnpack(%16)
  %ingate : Tensor = aten::sigmoid(%i)
  %forgetgate : Tensor = aten::sigmoid(%f)
  %cellgate : Tensor = aten::tanh(%c)
  %outgate : Tensor = aten::sigmoid(%o)
  %25 : Tensor = aten::mul(%forgetgate, %cx)
  %26 : Tensor = aten::mul(%ingate, %cellgate)
  %cy : Tensor = aten::add(%25, %26, %8)
  %28 : Tensor = aten::tanh(%cy)
  %hy : Tensor = aten::mul(%outgate, %28)
  %30 : (Tensor, Tensor) = prim::TupleConstruct(%hy, %cy)
  return (%30)
"""


def lstm():
    return parse_graph(LSTM.replace(",\n      ", ", "))


def optimized(needs_gradient):
    graph = lstm()
    with config.patch(verify=True):
        optimize(graph, needs_gradient=needs_gradient)
    return graph


def kinds(graph):
    return [node.kind for node in graph.nodes() if node.kind != "prim::Constant"]


def test_the_lstm_cell_gets_ranks_and_a_constant_chunk():
    graph = lstm()
    pipeline.run_passes(pipeline.REQUIRED, graph)
    text = str(graph)
    assert "prim::ConstantChunk[chunks=4, dim=1](%gates)" in text
    assert "%hy : Float(*, *) = aten::mul" in text
    assert "(Float(*, *), Float(*, *)) = prim::TupleConstruct(%hy, %cy)" in text


def test_the_lstm_cell_without_gradients_is_one_group_of_two_results():
    graph = optimized(needs_gradient=False)
    assert kinds(graph) == ["prim::FusionGroup", "prim::TupleConstruct"]
    group = next(node for node in graph.nodes() if node.kind == "prim::FusionGroup")
    assert sorted(value.name for value in group.outputs) == ["cy", "hy"]
    assert len(group.inputs) == 7


def test_pointwise_operators_of_the_lstm_cell_are_one_group_of_two_results():
    graph = lstm()
    pipeline.prepare(graph)
    fuse_graphs(graph)
    assert kinds(graph) == [
        "aten::t",
        "aten::mm",
        "aten::t",
        "aten::mm",
        "prim::FusionGroup",
        "prim::TupleConstruct",
    ]
    group = next(node for node in graph.nodes() if node.kind == "prim::FusionGroup")
    assert sorted(value.name for value in group.outputs) == ["cy", "hy"]
    assert len(group.inputs) == 5


def test_the_lstm_cell_with_gradients_is_one_differentiable_graph_of_seven_inputs():
    graph = optimized(needs_gradient=True)
    assert kinds(graph) == ["prim::DifferentiableGraph", "prim::TupleConstruct"]
    region = next(node for node in graph.nodes() if node.kind == "prim::DifferentiableGraph")
    assert len(region.inputs) == 7
    assert sorted(value.name for value in region.outputs) == ["cy", "hy"]


WRITES_TO_A_CONSTANT = """
graph(%x : Tensor):
  %c : Tensor = prim::Constant[value=tensor([1.0], torch.float32)]()
  %w : Tensor = aten::relu_(%c)
  %y : Tensor = aten::neg(%c)
  return (%x)
"""


def test_a_tensor_that_a_region_may_write_to_is_no_copy_inside_of_it():
    found = after(create_differentiable_graphs, WRITES_TO_A_CONSTANT)
    assert found.count("value=tensor") == 1
    assert "prim::DifferentiableGraph_0(%c)" in found


def test_a_region_that_writes_is_not_dead():
    graph = parse_graph(WRITES_TO_A_CONSTANT)
    create_differentiable_graphs(graph)
    eliminate_dead_code(graph)
    assert kinds(graph) == ["prim::DifferentiableGraph"]


PRINT_BETWEEN = """
graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::tanh(%a)
  prim::Print(%b)
  %c : Tensor = aten::neg(%b)
  %d : Tensor = aten::sigmoid(%c)
  return (%d)
"""


@pytest.mark.parametrize("run", [create_differentiable_graphs, fuse_graphs])
def test_no_region_holds_a_print(run):
    graph = parse_graph(PRINT_BETWEEN)
    assert run(graph)
    region = {"fuse_graphs": "FusionGroup"}.get(run.name, "DifferentiableGraph")
    assert kinds(graph) == [f"prim::{region}", "prim::Print"]


def test_a_region_neither_gives_lists_nor_looks_at_data():
    text = """
        graph(%x : Tensor, %n : int):
          %a : Tensor = aten::relu(%x)
          %b : Tensor[] = prim::ListConstruct(%a, %x)
          %c : Tensor = aten::nonzero(%a)
          %d : Tensor = aten::tanh(%x)
          return (%b, %c, %d)
        """
    for run in (create_differentiable_graphs, fuse_graphs):
        assert "with" not in after(run, text, 2)


def test_a_graph_without_gradients_has_no_differentiable_graph():
    text = PRINT_BETWEEN.replace("%x : Tensor)", "%x : Float(2, requires_grad=0))")
    assert "aten::relu(%x)" in after(fuse_graphs, text).split("with")[1]
    graph = parse_graph(text)
    pipeline.run_passes(pipeline.REQUIRED, graph)
    assert not create_differentiable_graphs(graph)


def check_ad(text, should_differentiate, nonfusible=(), fusible=()):
    """Check where the nodes of a graph stand after both kinds of region (TorchScript overview).

    Args:
        should_differentiate: whether there must be a differentiable graph.
        nonfusible: kinds that stand in it, outside of fusion groups.
        fusible: kinds that stand in a fusion group inside of it.
    """
    graph = parse_graph(textwrap.dedent(text))
    with config.patch(verify=True):
        pipeline.prepare(graph)
        create_differentiable_graphs(graph, 1)
        fuse_graphs(graph, 1)
    regions = [n for n in graph.nodes() if n.kind == "prim::DifferentiableGraph"]
    inside = [node for region in regions for node in region.attributes["Subgraph"].nodes()]
    groups = [node for node in inside if node.kind == "prim::FusionGroup"]
    fused = {n.kind for group in groups for n in group.attributes["Subgraph"].nodes()}
    alone = {node.kind for node in inside}
    if should_differentiate:
        assert set(nonfusible) <= alone
        assert set(fusible) <= fused
    else:
        assert not set(nonfusible) & alone
        assert not set(fusible) & fused


CHECKS = {
    "conv1d": (
        """
        graph(%x : Float(*, *, *), %w : Float(*, *, *), %b : Float(*)):
          %0 : int = prim::Constant[value=1]()
          %1 : int[] = prim::ListConstruct(%0)
          %y : Tensor = aten::conv1d(%x, %w, %b, %1, %1, %1, %0)
          return (%y)
        """,
        (True, ["aten::conv1d"], []),
    ),
    "avg_pool2d": (
        """
        graph(%x : Float(*, *, *, *)):
          %0 : int = prim::Constant[value=2]()
          %1 : int[] = prim::ListConstruct(%0, %0)
          %z : int = prim::Constant[value=0]()
          %2 : int[] = prim::ListConstruct(%z, %z)
          %f : bool = prim::Constant[value=False]()
          %n : NoneType = prim::Constant[value=None]()
          %y : Tensor = aten::avg_pool2d(%x, %1, %1, %2, %f, %f, %n)
          return (%y)
        """,
        (True, ["aten::avg_pool2d"], []),
    ),
    "nll_loss": (
        """
        graph(%x : Float(*, *), %t : Long(*)):
          %n : NoneType = prim::Constant[value=None]()
          %m : int = prim::Constant[value=1]()
          %i : int = prim::Constant[value=-100]()
          %y : Tensor = aten::nll_loss(%x, %t, %n, %m, %i)
          return (%y)
        """,
        (True, ["aten::nll_loss"], []),
    ),
    "dropout": (
        """
        graph(%x : Float(*, *)):
          %n : NoneType = prim::Constant[value=None]()
          %p : float = prim::Constant[value=0.5]()
          %r : Tensor = aten::rand_like(%x, %n, %n, %n, %n, %n)
          %k : Tensor = aten::lt(%r, %p)
          %m : Tensor = aten::mul(%x, %k)
          %y : Tensor = aten::div(%m, %p)
          return (%y)
        """,
        (True, ["aten::rand_like"], ["aten::lt", "aten::mul", "aten::div"]),
    ),
    "item": (
        """
        graph(%x : Float(*, *)):
          %y : Scalar = aten::item(%x)
          return (%y)
        """,
        (False, ["aten::item"], []),
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_check_ad(name):
    text, row = CHECKS[name]
    check_ad(text, *row)


BETWEEN = """
graph(%x : Tensor, %y : Tensor, %n : int):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %1)
  %m : int = aten::mul(%n, %1)
  = prim::Print(%m)
  %b : Tensor = aten::mul(%a, %y)
  LINE
  %c : Tensor = aten::sigmoid(%b)
  return (%c)
"""


@pytest.mark.parametrize(
    ("line", "regions"),
    [
        ("= prim::Print(%n)", 1),  # no operator sees when it is printed
        ("= prim::Print(%x)", 1),  # a tensor that nobody writes to
        ("%s : Tensor = aten::neg_(%b)", 1),  # a member that writes
        ("%k : int = aten::size(%x, %1)", 1),  # it depends on no member
        ("%k : Scalar = aten::item(%b)", 1),  # no member depends on it
        ("= prim::Print(%b)", 1),
        ("%q : Tensor = aten::nonzero(%b)", 1),
    ],
)
def test_nodes_between_two_members_of_a_region_are_moved_out_of_it(line, regions):
    graph = parse_graph(BETWEEN.replace("LINE", line))
    create_differentiable_graphs(graph)
    assert kinds(graph).count("prim::DifferentiableGraph") == regions


def test_a_node_that_reads_what_a_region_writes_later_ends_the_region():
    text = BETWEEN.replace("LINE", "= prim::Print(%b)").replace("sigmoid(%b)", "sigmoid_(%b)")
    graph = parse_graph(text)
    create_differentiable_graphs(graph, 1)
    assert kinds(graph) == [
        "aten::mul", "prim::Print", "prim::DifferentiableGraph", "prim::Print",
        "prim::DifferentiableGraph",
    ]  # fmt: skip


def test_a_size_that_a_later_member_takes_moves_in_front_of_the_region():
    line = "%k : int = aten::size(%x, %1)"
    text = BETWEEN.replace("LINE", line).replace("sigmoid(%b)", "add(%b, %b, %k)")
    graph = parse_graph(text)
    create_differentiable_graphs(graph)
    assert kinds(graph).count("prim::DifferentiableGraph") == 1
    assert kinds(graph).index("aten::size") < kinds(graph).index("prim::DifferentiableGraph")


def test_what_two_operators_print_between_stays_in_order_and_the_values_are_eagers(capsys):
    def f(x: torch.Tensor, n: int):
        y = x * 2
        print("first", n)
        y = y.sigmoid()
        print("second", n + 1)
        return y + x

    script = jit.script(f)
    x = torch.randn(4, requires_grad=True)
    for n in range(4):
        torch.testing.assert_close(script(x, n), f(x, n))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{word} {n + k}" for n in range(4) for _ in "12" for k, word in
                     enumerate(("first", "second"))]  # fmt: skip
    found = [node.kind for node in script.graph_for(x, 1).nodes()]
    assert found.count("prim::DifferentiableGraph") == 1
