"""The interpreter: results, overrides per target and per opcode, memory."""

import gc
import operator
import weakref
from typing import Any

import pytest
import torch

from minitorch2.graph import Graph, GraphModule
from minitorch2.graph.interpreter import Interpreter
from tests.unit.graph.test_graph import slide_graph


def test_same_result_as_the_printed_code() -> None:
    module = GraphModule(slide_graph())
    x, y = torch.randn(4), torch.randn(4)
    for got, expected in zip(Interpreter(module).run(x, y), module(x, y), strict=True):
        assert torch.equal(got, expected)


def test_override_of_a_function_and_of_a_method() -> None:
    module = GraphModule(slide_graph())
    overrides = {torch.abs: torch.neg, "sum": lambda b: b.max()}
    x = torch.tensor([1.0, -4.0])
    quotient, flag = Interpreter(module, overrides).run(x, x)
    assert torch.equal(quotient, x / (-x + 1)) and not flag


def test_override_of_an_opcode() -> None:
    class Counting(Interpreter):
        calls = 0

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            self.calls += 1
            return super().call_function(target, args, kwargs)

    runner = Counting(GraphModule(slide_graph()))
    runner.run(torch.ones(2), torch.ones(2))
    assert runner.calls == 4


def test_values_are_dropped_after_their_last_use() -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def make(x: torch.Tensor) -> torch.Tensor:
        result = x + 1
        alive.append(weakref.ref(result))
        return result

    def count(x: torch.Tensor) -> int:
        gc.collect()
        return sum(ref() is not None for ref in alive)

    graph = Graph()
    x = graph.placeholder("x")
    a = graph.call_function(make, (x,))
    b = graph.call_function(make, (a,))
    c = graph.call_function(make, (b,))
    graph.output(graph.call_function(count, (c,)))
    assert Interpreter(GraphModule(graph)).run(torch.ones(1)) == 1


def test_missing_input() -> None:
    graph = Graph()
    graph.output(graph.call_function(operator.neg, (graph.placeholder("x"),)))
    with pytest.raises(TypeError, match="'x'"):
        Interpreter(GraphModule(graph)).run()
