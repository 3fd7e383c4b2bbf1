"""The printed forms: the slides' table, provenance, types, code that runs by itself."""

import math
import operator

import torch

from minitorch2.graph import Graph, GraphModule, SourceLine, to_fake
from minitorch2.graph.symbols import ShapeEnv
from tests.unit.graph.test_graph import slide_graph

SLIDE = """\
opcode         name     target            args
----------------------------------------------------------
placeholder    a        a                 ()
placeholder    b        b                 ()
call_function  abs_1    torch.abs         (a,)
call_function  add      operator.add      (abs_1, 1)
call_function  truediv  operator.truediv  (a, add)
call_method    sum_1    sum               (b,)
call_function  lt       operator.lt       (sum_1, 0)
output         output   output            ((truediv, lt),)"""


def test_the_table_of_the_slides() -> None:
    assert slide_graph().tabular() == SLIDE


def test_provenance_and_types_as_on_the_slides() -> None:
    graph = Graph()
    x = graph.placeholder("arg0_1")
    x.meta["val"] = to_fake(torch.empty(8, 4))
    sin = graph.call_function(torch.ops.aten.sin.default, (x,))
    cos = graph.call_function(torch.ops.aten.cos.default, (sin,))
    for node, line, text in ((sin, 6, "y = x.sin()"), (cos, 7, "z = y.cos()")):
        node.meta["val"] = to_fake(torch.empty(8, 4))
        node.meta["source"] = SourceLine("inductor_demo.py", line, text)
    graph.output((sin, cos))
    assert GraphModule(graph).code == (
        "import torch\n\n"
        "def forward(self, arg0_1):\n"
        "    # File: inductor_demo.py:6, code: y = x.sin()\n"
        "    sin = torch.ops.aten.sin.default(arg0_1)  # f32[8, 4]\n"
        "\n"
        "    # File: inductor_demo.py:7, code: z = y.cos()\n"
        "    cos = torch.ops.aten.cos.default(sin)  # f32[8, 4]\n"
        "    return (sin, cos)\n"
    )


def test_printed_code_runs_alone() -> None:
    module = GraphModule(slide_graph())
    namespace: dict[str, object] = {}
    exec(module.code, namespace)
    x = torch.randn(3)
    forward = namespace["forward"]
    assert callable(forward)
    assert torch.equal(forward(None, x, x)[0], x / (x.abs() + 1))


def test_every_kind_of_constant_survives_printing() -> None:
    def collect(*args: object, **kwargs: object) -> object:
        return args, kwargs

    values = (
        1, True, 2.5, math.inf, -math.inf, 1j, "a'b", None, ..., torch.float32, torch.strided,
        torch.device("cpu"), torch.channels_last, (1,), (), [1, [2]],
        {"k": (1, 2)}, slice(1, None, 2), torch.relu,
    )  # fmt: skip
    graph = Graph()
    graph.output(graph.call_function(collect, values, {"key": values}))
    assert GraphModule(graph)() == (values, {"key": values})


def test_operators_print_infix_with_brackets_where_needed() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(operator.pow, (-2, x))
    node = graph.call_function(operator.neg, (node,))
    node = graph.call_function(operator.getitem, ([node, x], 0))
    graph.output(graph.call_method("__add__", (node, 1)))
    module = GraphModule(graph)
    assert module(2) == -((-2) ** 2) + 1
    assert "(-2) ** x" in module.code


def test_callables_that_no_import_reaches_are_supplied() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    a = graph.call_function(lambda v: v + 1, (x,))
    b = graph.call_function(lambda v: v * 10, (a,))
    graph.output(b)
    assert GraphModule(graph)(1) == 20


def test_symbolic_sizes_are_bound_at_the_entry() -> None:
    env = ShapeEnv()
    size = env.new_size("s0", 8)
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = to_fake(torch.empty(8, 4), [size, 4])
    s0 = size.node.expr  # type: ignore[union-attr]
    view = graph.call_function(torch.ops.aten.view.default, (x, [s0 * 2, 2]))
    graph.output((view, s0 // 2))
    module = GraphModule(graph)
    assert "s0 = x.size(0)" in module.code
    view_value, half = module(torch.zeros(6, 4))
    assert view_value.shape == (12, 2) and half == 3
