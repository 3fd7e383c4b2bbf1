"""Graphs as Python functions and as instructions: both compute what Python does."""

from __future__ import annotations

import traceback
from threading import get_ident
from typing import Any

import pytest
import torch

from minitorch2 import jit, stages
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    TENSOR,
    FutureType,
    TensorType,
    TupleType,
)
from minitorch2.script.runtime.code import Code
from minitorch2.script.runtime.fork_join import Future, fork, wait
from minitorch2.script.runtime.interpreter import Interpreter, interpret
from minitorch2.script.runtime.meanings import Makers
from minitorch2.script.runtime.python_code import compile_graph, text_of
from minitorch2.script.runtime.variables import Variables
from minitorch2.script.syntax.source import NOWHERE, SourceFile

MOST = 2**63 - 1
WAYS = pytest.mark.parametrize("way", [compile_graph, interpret])


def node(block: Block, kind: str, inputs: Any, types: Any = (), **attributes: Any) -> Node:
    """Add a node to the end of a block."""
    made = block.graph.create(kind, inputs, list(types))
    made.attributes.update(attributes)
    return block.insert(made)


def of(block: Block, kind: str, inputs: Any, result: Any = INT) -> Value:
    return node(block, kind, inputs, [result]).output


def while_and(block: Block, n: Value, limit: Value, steps: Value, one: Value) -> Value:
    """Add ``n != 1 and steps < limit``."""
    choice = node(block, "prim::If", [of(block, "aten::ne", [n, one], BOOL)], [BOOL])
    then, otherwise = choice.add_block(), choice.add_block()
    then.add_output(of(then, "aten::lt", [steps, limit], BOOL))
    otherwise.add_output(node(otherwise, "prim::Constant", [], [BOOL], value=False).output)
    return choice.output


def collatz() -> Graph:
    """Return how many steps a number takes to 1, at most a limit."""
    graph = Graph("collatz")
    n, limit = graph.add_input("n", INT), graph.add_input("limit", INT)
    zero, one, two, three, most = (graph.constant(c) for c in (0, 1, 2, 3, MOST))
    first = while_and(graph.block, n, limit, zero, one)
    loop = node(graph.block, "prim::Loop", [most, first, n, zero], [INT, INT])
    body = loop.add_block()
    _, m, steps = (body.add_input(name, INT) for name in ("i", "n", "steps"))
    is_even = of(body, "aten::eq", [of(body, "aten::remainder", [m, two]), zero], BOOL)
    half = node(body, "prim::If", [is_even], [INT])
    then, otherwise = half.add_block(), half.add_block()
    then.add_output(of(then, "aten::floordiv", [m, two]))
    product = of(otherwise, "aten::mul", [three, m])
    otherwise.add_output(of(otherwise, "aten::add", [product, one]))
    counted = of(body, "aten::add", [steps, one])
    body.add_output(while_and(body, half.output, limit, counted, one))
    body.add_output(half.output)
    body.add_output(counted)
    for value, name in zip((*loop.outputs, half.output, counted), ("n", "steps") * 2, strict=True):
        value.name = name
    graph.add_output(loop.outputs[1])
    return graph


def python_collatz(n: int, limit: int) -> int:
    steps = 0
    while n != 1 and steps < limit:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@WAYS
@pytest.mark.parametrize("args", [(837799, 10_000), (27, 5), (1, 5), (7, 0)])
def test_a_while_loop_gives_what_python_gives(way: Any, args: tuple[int, int]) -> None:
    assert way(collatz())(*args) == python_collatz(*args)


def test_a_carried_name_is_one_variable() -> None:
    assert text_of(collatz()) == (
        "def collatz(n, limit):\n"
        "    n_1 = n\n"
        "    steps = 0\n"
        "    if n != 1 and 0 < limit:\n"
        "        while True:\n"
        "            n_1 = n_1 // 2 if n_1 % 2 == 0 else 3 * n_1 + 1\n"
        "            steps = steps + 1\n"
        "            if not (n_1 != 1 and steps < limit):\n"
        "                break\n"
        "    return steps"
    )


def counting(swaps: bool) -> Graph:
    """Return ``for i in range(n): a, b = b, a + i`` (or without the swap), then ``(a, b)``."""
    graph = Graph("counting")
    n, a, b = (graph.add_input(name, INT) for name in "nab")
    true = graph.constant(True)
    loop = node(graph.block, "prim::Loop", [n, true, a, b], [INT, INT])
    body = loop.add_block()
    i, x, y = (body.add_input(name, INT) for name in "iab")
    total = of(body, "aten::add", [x, i])
    results = (y, total) if swaps else (total, y)
    for value in (true, *results):
        body.add_output(value)
    for value in loop.outputs:
        graph.add_output(value)
    return graph


@WAYS
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_carried_values_are_assigned_at_once(way: Any, n: int) -> None:
    a, b = 10, 100
    for i in range(n):
        a, b = b, a + i
    assert way(counting(swaps=True))(n, 10, 100) == (a, b)
    assert way(counting(swaps=False))(n, 10, 100) == (10 + sum(range(n)), 100)


@WAYS
def test_a_loop_inside_a_loop_keeps_what_it_reads_again(way: Any) -> None:
    graph = Graph("nested")
    n = graph.add_input("n", INT)
    true, zero = graph.constant(True), graph.constant(0)
    outer = node(graph.block, "prim::Loop", [n, true, zero], [INT])
    body = outer.add_block()
    i, total = body.add_input("i", INT), body.add_input("total", INT)
    inner = node(body, "prim::Loop", [n, true, total], [INT])
    deep = inner.add_block()
    j, part = deep.add_input("j", INT), deep.add_input("part", INT)
    term = of(deep, "aten::mul", [total, of(deep, "aten::add", [i, j])])
    deep.add_output(true)
    deep.add_output(of(deep, "aten::add", [part, of(deep, "aten::add", [term, j])]))
    body.add_output(true)
    body.add_output(inner.output)
    graph.add_output(outer.output)
    wanted = 0
    for a in range(4):
        before = wanted
        for b in range(4):
            wanted += before * (a + b) + b
    assert way(graph)(4) == wanted


LSTM = """0, 1, 2, 3, 4, 5, 6 = Load
7 = Constant
8 = t move(3)
9 = mm move(0), move(8)
10 = t move(4)
11 = mm move(1), move(10)
12 = add move(9), move(11), 7
13 = add move(12), move(5), 7
14 = add move(13), move(6), 7
15, 16, 17, 18 = ConstantChunk move(14)
19 = sigmoid move(15)
20 = sigmoid move(16)
21 = tanh move(17)
22 = sigmoid move(18)
23 = mul move(20), move(2)
24 = mul move(19), move(21)
25 = add move(23), move(24), move(7)
26 = tanh 25
27 = mul move(22), move(26)
28 = TupleConstruct move(27), move(25)
 = Store move(28)"""


def lstm() -> Graph:
    """The overview's LSTM cell."""
    graph = Graph("lstm")
    names = ("x", "hx", "cx", "w_ih", "w_hh", "b_ih", "b_hh")
    x, hx, cx, w_ih, w_hh, b_ih, b_hh = (graph.add_input(name) for name in names)
    block, one = graph.block, graph.constant(1)

    def tensor(kind: str, *inputs: Value) -> Value:
        return of(block, f"aten::{kind}", inputs, TENSOR)

    first = tensor("mm", x, tensor("t", w_ih))
    gates = tensor("add", first, tensor("mm", hx, tensor("t", w_hh)), one)
    gates = tensor("add", tensor("add", gates, b_ih, one), b_hh, one)
    parts = node(block, "prim::ConstantChunk", [gates], [TENSOR] * 4, chunks=4, dim=1).outputs
    opened = [tensor(kind, v) for kind, v in zip(("sigmoid", "sigmoid", "tanh", "sigmoid"), parts)]
    kept = tensor("mul", opened[1], cx)
    cy = tensor("add", kept, tensor("mul", opened[0], opened[2]), one)
    hy = tensor("mul", opened[3], tensor("tanh", cy))
    graph.add_output(of(block, "prim::TupleConstruct", [hy, cy], TupleType((TENSOR, TENSOR))))
    return graph


def test_the_listing_of_the_overviews_lstm() -> None:
    assert str(Code(lstm(), Makers(interpret, interpret, interpret))) == LSTM


@WAYS
def test_the_lstm_computes_what_eager_does(way: Any) -> None:
    sizes = [(3, 4), (3, 5), (3, 5), (20, 4), (20, 5), (20,), (20,)]
    x, hx, cx, w_ih, w_hh, b_ih, b_hh = inputs = [torch.randn(size) for size in sizes]
    i, f, g, o = (x.mm(w_ih.t()) + hx.mm(w_hh.t()) + b_ih + b_hh).chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    torch.testing.assert_close(way(lstm())(*inputs), (o.sigmoid() * cy.tanh(), cy))


def test_registers_are_used_again_and_hold_nothing_after_a_run() -> None:
    interpreter = Interpreter(Code(collatz(), Makers(interpret, interpret, interpret)))
    interpreter.run((27, 1000))
    (registers,) = interpreter._spare
    assert set(registers) == {None}
    interpreter.run((27, 1000))
    assert interpreter._spare[0] is registers


@WAYS
def test_a_failing_guard_returns_the_rest_from_inside_loops(way: Any) -> None:
    rest = Graph("rest")
    found, _ = rest.add_input("x"), rest.add_input("i", INT)
    rest.add_output(of(rest.block, "aten::neg", [found], TENSOR))
    graph = Graph("guarded")
    x, n = graph.add_input("x"), graph.add_input("n", INT)
    true, one = graph.constant(True), graph.constant(1)
    loop = node(graph.block, "prim::Loop", [n, true, x], [TENSOR])
    body = loop.add_block()
    i, carried = body.add_input("i", INT), body.add_input("x")
    wanted = TensorType(torch.float32, None, None, (2,))
    checked = node(body, "prim::bailout", [carried, i], [wanted], Subgraph=rest).output
    body.add_output(true)
    body.add_output(of(body, "aten::add", [checked, checked, one], TENSOR))
    graph.add_output(loop.output)
    run = way(graph)
    assert torch.equal(run(torch.ones(2), 3), torch.full((2,), 8.0))
    assert torch.equal(run(torch.ones(3), 3), -torch.ones(3))
    assert torch.equal(run(torch.ones(3), 0), torch.ones(3))


def hiding(items: list[int], len: int, range: int, print: int, max: float) -> float:
    found = 0
    for item in items:
        found += item * len
    for i in [range, print]:
        found += i
    for bool in [1, 2]:
        found += bool
    return found + max


def measured(a: int, b: int, step: int) -> int:
    total = 0
    for i in range(a, b, step):
        total = total * 3 + i
        for j in range(i, b):
            total += j
    return total


def test_variables_may_have_the_names_of_pythons_builtins() -> None:
    script = jit.script(hiding)
    for _ in (1, 2, 3):
        assert script([1, 2, 3], 10, 5, 7, 0.5) == hiding([1, 2, 3], 10, 5, 7, 0.5) == 75.5


@pytest.mark.parametrize("bounds", [(0, 5, 1), (5, 0, -2), (-3, 9, 4), (3, 3, 1)])
def test_ranges_with_bounds_are_machine_code(bounds: tuple[int, int, int]) -> None:
    script = jit.script(measured)
    with stages.collect(texts=False) as log:
        assert [script(*bounds) for _ in range(3)] == [measured(*bounds)] * 3
    assert log.counts["script_scalar_functions"] == 1


def test_a_traceback_shows_the_users_line() -> None:
    text = "def ratio(a, b):\n    c = a - b\n    return a / c\n"
    file = SourceFile(text, __file__, first_line=41)
    graph = Graph("ratio")
    a, b = graph.add_input("a", FLOAT), graph.add_input("b", FLOAT)
    made = graph.create("aten::sub", [a, b], [FLOAT], range=file.range(text.index("a - b")))
    graph.insert(made)
    where = file.range(text.index("a / c"), text.index("a / c") + 5)
    graph.insert(graph.create("aten::div", [a, made.output], [FLOAT], range=where))
    graph.add_output(list(graph.block.nodes)[-1].output)
    assert graph.block.parameters.range is NOWHERE
    with pytest.raises(ZeroDivisionError) as caught:
        compile_graph(graph)(1.0, 1.0)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == (__file__, 43, "ratio")
    assert (last.colno, last.end_colno) == (11, 16)


class Noting:
    """A context manager that notes how it was left."""

    def __init__(self) -> None:
        self.left: list[Any] = []

    def __enter__(self) -> Noting:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.left.append(kind)


@WAYS
def test_an_error_leaves_what_was_entered(way: Any) -> None:
    graph = Graph("context")
    context, a, b = graph.add_input("c", NONE), graph.add_input("a", INT), graph.add_input("b", INT)
    node(graph.block, "prim::Enter", [context], [NONE])
    result = of(graph.block, "aten::floordiv", [a, b])
    doubled = of(graph.block, "aten::add", [result, result])
    node(graph.block, "prim::Exit", [context])
    graph.add_output(doubled)
    run, note = way(graph), Noting()
    assert run(note, 6, 3) == 4
    with pytest.raises(ZeroDivisionError):
        run(note, 1, 0)
    assert note.left == [None, ZeroDivisionError]


def test_a_run_suspends_at_wait_and_goes_on_when_the_task_ends() -> None:
    graph = Graph("waiting")
    task, a = graph.add_input("task", FutureType(INT)), graph.add_input("a", INT)
    given = of(graph.block, "aten::wait", [task])
    graph.add_output(of(graph.block, "aten::add", [given, a]))
    task_ = Future()
    interpreter = Interpreter(Code(graph, Makers(interpret, interpret, interpret)))
    result = interpreter.start((task_, 1))
    assert not result.is_done
    task_.set_result(41)
    assert result.wait() == 42


def test_a_task_runs_with_the_modes_of_where_it_was_forked() -> None:
    def modes() -> tuple[bool, bool, int]:
        is_autocast = torch.is_autocast_enabled("cpu")
        return torch.is_grad_enabled(), is_autocast, get_ident()

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        task = fork(modes)
    assert wait(task)[:2] == (False, True)
    assert fork(modes).wait()[:2] == (True, False)


def test_tasks_that_wait_for_tasks_need_no_further_threads() -> None:
    def count(depth: int) -> int:
        tasks = [fork(count, depth - 1) for _ in range(3)] if depth else []
        return 1 + sum(wait(task) for task in tasks)

    assert wait(fork(count, 4)) == 1 + 3 + 9 + 27 + 81


def test_an_error_of_a_task_is_raised_where_it_is_waited_for() -> None:
    def fail() -> None:
        raise KeyError("cause")

    with pytest.raises(KeyError, match="cause"):
        wait(fork(fail))


@WAYS
def test_an_error_leaves_the_grad_mode_of_the_start(way: Any) -> None:
    graph = Graph("modes")
    a, b = graph.add_input("a", INT), graph.add_input("b", INT)
    before = of(graph.block, "prim::SetGradEnabled", [graph.constant(False)], BOOL)
    result = of(graph.block, "aten::floordiv", [a, b])
    of(graph.block, "prim::SetGradEnabled", [before], BOOL)
    graph.add_output(result)
    run = way(graph)
    assert run(6, 3) == 2
    with pytest.raises(ZeroDivisionError):
        run(1, 0)
    assert torch.is_grad_enabled()


class OwnError(Exception):
    """An error of this module."""


@WAYS
def test_an_error_is_raised_in_its_own_class(way: Any) -> None:
    graph = Graph("fails")
    inputs = [graph.constant("cause"), graph.constant(f"{__name__}.OwnError")]
    node(graph.block, "prim::RaiseException", inputs)
    with pytest.raises(OwnError, match="cause"):
        way(graph)()


def test_a_name_that_many_values_have_is_looked_up_twice_for_each():
    """Regression: each of n values tried all names that were taken, n * n in all."""

    class Counted(set):
        lookups = 0

        def __contains__(self, name):
            Counted.lookups += 1
            return super().__contains__(name)

    variables = Variables(Graph())
    variables._taken = Counted(variables._taken)
    assert len({variables.fresh("x") for _ in range(500)}) == 500
    assert Counted.lookups <= 1000


@pytest.mark.parametrize("pair", ["0 if a else 1", "0.0 if a else 1.0", "False if a else True"])
def test_a_choice_between_zero_and_one_gives_numbers(pair):
    """Regression: they equal False and True, so the choice was written as `not a`."""
    function = jit.define(f"def f(a: bool):\n    return {pair}\n").f
    for a in (False, True, False, True):
        found, wanted = function(a), eval(pair, {"a": a})
        assert (type(found), found) == (type(wanted), wanted)
