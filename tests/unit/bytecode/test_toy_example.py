"""The worked example of the slides: three graphs, three guards, two continuations."""

import inspect
import re

import torch

import minitorch2
from minitorch2 import stages

GRAPHS = [
    """\
placeholder    a        a                 ()
placeholder    b        b                 ()
call_function  abs_1    torch.abs         (a,)
call_function  add      operator.add      (abs_1, 1)
call_function  truediv  operator.truediv  (a, add)
call_method    sum_1    sum               (b,)
call_function  lt       operator.lt       (sum_1, 0)
output         output   output            ((truediv, lt),)""",
    """\
placeholder    b       b             ()
placeholder    x       x             ()
call_function  mul     operator.mul  (b, -1)
call_function  mul_1   operator.mul  (x, mul)
output         output  output        ((mul_1,),)""",
    """\
placeholder    b       b             ()
placeholder    x       x             ()
call_function  mul     operator.mul  (x, b)
output         output  output        ((mul,),)""",
]


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def rows(table):
    """A graph's table without its header."""
    return "\n".join(line.rstrip() for line in table.splitlines()[2:])


def compile_toy():
    """The compiled example after 100 random calls, and the tables of the graphs its backend got."""
    tables = []

    def my_compiler(gm, example_inputs):
        tables.append(rows(gm.graph.tabular()))
        return gm

    compiled = minitorch2.compile(toy_example, backend=my_compiler)
    for _ in range(100):
        a, b = torch.randn(10), torch.randn(10)
        assert torch.equal(compiled(a, b), toy_example(a, b))
    return compiled, tables


def test_backend_is_called_three_times_with_the_graphs_of_the_slides():
    _, tables = compile_toy()
    assert len(tables) == 3
    assert sorted(tables) == sorted(GRAPHS)


def test_guards_are_the_three_of_the_slides():
    explanation = minitorch2.explain(toy_example, backend="eager")(torch.ones(10), torch.ones(10))
    first = [g for g in explanation.guards if str(g).split()[1] in ("a", "b", "torch")]
    shown = {str(guard) for guard in first}
    assert shown == {"TENSOR_MATCH a", "TENSOR_MATCH b", "FUNCTION_MATCH torch"}


def test_residual_code_calls_the_graph_then_one_of_two_continuations():
    with stages.collect() as log:
        minitorch2.compile(toy_example, backend="eager")(torch.ones(10), torch.ones(10))
    text = re.sub(r"resume_at_\d+", "resume_at_N", log.texts("residual.py")[0])
    assert text == (
        "def toy_example(a, b):\n"
        "    error = None\n"
        "    try:\n"
        "        x, lt = __compiled_fn_0(a, b)\n"
        "    except Exception as caught_error:\n"
        "        error = caught_error\n"
        "    if error is not None:\n"
        "        return __rerun_in_python(error, a, b)\n"
        "    if lt:\n"
        "        return __resume_at_N_1(b, x)\n"
        "    return __resume_at_N_2(b, x)\n"
    )


def test_stages_are_reported_in_the_order_in_which_they_happen():
    """The captured graph used to come after what the backend made of it."""

    def program(x, w):
        return torch.sin(x @ w).sum()

    w = torch.randn(4, 4, requires_grad=True)
    with stages.collect() as log:
        minitorch2.compile(program, backend="numba")(torch.randn(3, 4), w).backward()
    assert [stage.name for stage in log.stages] == [
        "source.py", "bytecode_in.txt", "captured_graph", "captured_graph.py",
        "joint graph.py", "forward graph.py", "backward graph.py", "cut.dot",
        "library_call", "loopir.py", "decisions.txt", "schedule.txt", "kernel.py",
        "decisions.txt", "wrapper.py", "guards.py", "residual.py", "bytecode_out.txt",
        "library_call", "loopir.py", "decisions.txt", "schedule.txt", "kernel.py",
        "decisions.txt", "wrapper.py",
    ]  # fmt: skip
    assert log.texts("source.py")[0].split() == inspect.getsource(program).split()
    assert "BINARY_OP" in log.texts("bytecode_in.txt")[0]
    assert "__compiled_fn_0" in log.texts("bytecode_out.txt")[0]
    assert log.texts("kernel.py")[0] in log.texts("wrapper.py")[0]
    assert all(stage.text.strip() for stage in log.stages)


def test_steps_are_logged_in_the_order_of_the_paper(caplog):
    with caplog.at_level("DEBUG", logger="minitorch2.bytecode"):
        minitorch2.compile(toy_example, backend="eager")(torch.ones(10), torch.ones(10))
    steps = [m for m in caplog.messages if m.startswith("step ")]
    numbers = [int(m.split()[1]) for m in steps]
    assert numbers[:8] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_explanation_names_the_break_and_the_line():
    explanation = minitorch2.explain(toy_example, backend="eager")(torch.ones(10), torch.ones(10))
    assert explanation.graph_count == 2
    assert explanation.graph_break_count == 1
    assert explanation.breaks[0].reason == "data-dependent-branch"
    assert explanation.breaks[0].line.text == "if b.sum() < 0:"
    assert explanation.ops_per_graph == [5, 1]
    assert "if b.sum() < 0:" in str(explanation)
