"""Graphs as Python text: the overview's example, and text that torch.jit reads."""

import ast
import io

import torch

from minitorch2.script.archive.container import Contents, write_container
from minitorch2.script.archive.pickle_subset import Instance
from minitorch2.script.archive.print_code import References, print_code
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.types import FLOAT, INT, TENSOR, ListType
from minitorch2.script.operators.match import emit_operator
from minitorch2.script.operators.schema import parse_schema
from minitorch2.script.syntax.source import NOWHERE

MOST_TRIPS = 2**63 - 1


def emit(graph, kind, *values, name=""):
    (result,) = emit_operator(graph, kind, values, {}, NOWHERE)
    result.name = name
    return result


def branches():
    graph = Graph("forward")
    x, y = graph.add_input("x"), graph.add_input("y", INT)
    z = graph.add_input("z", FLOAT)
    condition = emit(graph, "aten::gt", y, graph.constant(2))
    node = graph.insert(graph.create("prim::If", (condition,), (TENSOR,)))
    node.output.name = "x"
    for number in (z, y):
        block = node.add_block()
        with graph.inserting_at_end(block):
            block.add_output(emit(graph, "aten::add", x, number, name="x"))
    graph.add_output(node.output)
    return graph, parse_schema("forward(Tensor x, int y, float z) -> Tensor")


def doubled_until(limit):
    """A graph of ``while x.sum() < limit: x = x * 2``."""
    graph = Graph("forward")
    x = graph.add_input("x")

    def go_on(value):
        below = emit(graph, "aten::lt", emit(graph, "aten::sum", value), graph.constant(limit))
        return emit(graph, "aten::Bool", below)

    trips = graph.constant(MOST_TRIPS)
    node = graph.insert(graph.create("prim::Loop", (trips, go_on(x), x), (TENSOR,)))
    node.output.name = "x"
    body = node.add_block()
    body.add_input("i", INT)
    carried = body.add_input("x")
    with graph.inserting_at_end(body):
        doubled = emit(graph, "aten::mul", carried, graph.constant(2), name="x")
        body.add_output(go_on(doubled))
        body.add_output(doubled)
    graph.add_output(node.output)
    return graph, parse_schema("forward(Tensor x) -> Tensor")


def torch_jit_reads(graph, schema):
    graph.block.parameters.add_output("self")
    graph.inputs.insert(0, graph.inputs.pop())
    references = References()
    text = print_code(graph, schema, references=references, is_method=True, self_type="__torch__.M")
    body = "".join(f"  {line}\n" for line in text.splitlines())
    code = f"class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n{body}"
    file = io.BytesIO()
    contents = Contents(Instance("__torch__.M", {}), {"__torch__": code})
    contents.constants = tuple(references.constants)
    write_container(contents, file)
    return torch.jit.load(io.BytesIO(file.getvalue()))


def test_the_example_of_the_overview():
    graph, schema = branches()
    graph.block.parameters.add_output("self")
    graph.inputs.insert(0, graph.inputs.pop())
    assert print_code(graph, schema, is_method=True) == (
        "def forward(self,\n"
        "    x: Tensor,\n"
        "    y: int,\n"
        "    z: float) -> Tensor:\n"
        "  if torch.gt(y, 2):\n"
        "    x0 = torch.add(x, z, 1)\n"
        "  else:\n"
        "    x0 = torch.add(x, y, 1)\n"
        "  return x0\n"
    )


def test_torch_jit_runs_branches_as_printed():
    theirs = torch_jit_reads(*branches())
    x = torch.ones(2)
    assert [theirs(x, n, 0.5).tolist() for n in (3, 1)] == [[1.5, 1.5], [2, 2]]


def test_torch_jit_runs_loops_as_printed():
    assert torch_jit_reads(*doubled_until(10))(torch.ones(3)).tolist() == [4, 4, 4]


def test_text_is_python_and_evaluates_in_the_order_of_the_graph():
    graph = Graph("f")
    x = graph.add_input("x")
    first = emit(graph, "aten::relu", x)
    emit(graph, "aten::add_", x, graph.constant(1))
    graph.add_output(emit(graph, "aten::mul", x, first))
    text = print_code(graph, parse_schema("f(Tensor x) -> Tensor"))
    (function,) = ast.parse(text).body
    assert [ast.unparse(line.value) for line in function.body] == [
        "torch.relu(x)", "torch.add_(x, 1, 1)", "torch.mul(x, _0)",
    ]  # fmt: skip


def test_empty_lists_carry_their_type_and_odd_constants_a_number():
    graph = Graph("f")
    graph.add_input("lambda")
    empty = graph.insert(graph.create("prim::ListConstruct", (), (ListType(INT),))).output
    strange = graph.constant("tür\n")
    pair = graph.create("prim::TupleConstruct", (empty, strange), (TENSOR,))
    graph.add_output(graph.insert(pair).output)
    references = References()
    schema = parse_schema("f(Tensor lambda) -> Tensor")
    text = print_code(graph, schema, references=references)
    assert "(annotate(List[int], []), CONSTANTS.c0)" in text
    assert "_lambda: Tensor" in text
    assert references.constants == ["tür\n"]
