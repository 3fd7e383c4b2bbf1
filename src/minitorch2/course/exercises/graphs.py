"""Exercises of the chapter on graphs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from minitorch2.course.exercise import exercise
from minitorch2.graph import Graph, GraphModule

PAGE = "layers/graph"


def example() -> GraphModule:
    """Return the graph of `exp(a) * b + exp(a) * b`, with each operator written twice."""
    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    products = []
    for _ in range(2):
        power = graph.call_function(torch.exp, (a,))
        products.append(graph.call_function(operator.mul, (power, b)))
    graph.output((graph.call_function(operator.add, tuple(products)),))
    return GraphModule(graph)


A, B = torch.tensor([0.5, -1.0]), torch.tensor([2.0, 3.0])


@exercise(
    PAGE,
    "look",
    question="""
        How many calls has the graph of `example()` of this chapter's exercises? Set `calls`.
    """,
    stub="""
        from minitorch2.course.exercises.graphs import example

        example().print_tabular()
        calls = ...
    """,
    hints=(
        "The table has a line for each node; inputs and the output call nothing.",
        "Count the nodes whose `op` is `call_function`.",
    ),
    solution="""
        from minitorch2.course.exercises.graphs import example

        calls = sum(node.op == "call_function" for node in example().graph.nodes)
    """,
)
def count_calls(calls: int) -> None:
    """Compare the number with that of the graph."""
    expected = sum(node.op.startswith("call") for node in example().graph.nodes)
    assert calls == expected, f"{calls} is not the number of nodes that call something"


@exercise(
    PAGE,
    "change",
    question="""
        Run a graph with `sin` in the place of `exp`: write `run(module, *inputs)`.
    """,
    stub="""
        def run(module, *inputs):
            return module(*inputs)
    """,
    hints=(
        "An `Interpreter` takes a table of functions to call in the place of others.",
        "`Interpreter(module, {torch.exp: torch.sin}).run(...)`",
    ),
    solution="""
        import torch

        from minitorch2.graph.interpreter import Interpreter


        def run(module, *inputs):
            return Interpreter(module, {torch.exp: torch.sin}).run(*inputs)
    """,
)
def run_with_sin(run: Callable[..., Any]) -> None:
    """Compare with the same sum of sines."""
    module = example()
    (found,) = run(module, A, B)
    torch.testing.assert_close(found, 2 * torch.sin(A) * B)
    torch.testing.assert_close(module(A, B)[0], 2 * torch.exp(A) * B, msg="the graph has changed")


@exercise(
    PAGE,
    "build",
    question="""
        Write `shapes(module, *inputs)`: a dict from the name of each node that calls to its
        shape.
    """,
    stub="""
        def shapes(module, *inputs):
            return {}
    """,
    hints=(
        "`Interpreter.run_node` computes one node; a subclass may look at what it returns.",
        "Write `found[node.name] = tuple(value.shape)` in your `run_node`, and return the value.",
    ),
    solution="""
        from minitorch2.graph.interpreter import Interpreter


        def shapes(module, *inputs):
            found = {}

            class Watching(Interpreter):
                def run_node(self, node):
                    value = super().run_node(node)
                    if node.op.startswith("call"):
                        found[node.name] = tuple(value.shape)
                    return value

            Watching(module).run(*inputs)
            return found
    """,
)
def note_shapes(shapes: Callable[..., Mapping[str, Any]]) -> None:
    """Broadcast a column and a row: the products are wider than the powers."""
    found = shapes(example(), A[:, None], B)
    names = [node.name for node in example().graph.nodes if node.op.startswith("call")]
    assert list(found) == names, f"these nodes call something: {names}; yours: {list(found)}"
    expected = [(2, 1) if name.startswith("exp") else (2, 2) for name in names]
    assert [tuple(each) for each in found.values()] == expected, f"shapes are {expected}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `merge(module)`: nodes that call the same function with the same arguments are
        one.
    """,
    stub="""
        def merge(module):
            return module
    """,
    hints=(
        "Walk over the nodes in order and keep a dict from (target, args) to the first such node.",
        "`node.replace_all_uses_with(first)` and then `module.graph.erase(node)`.",
        "Copy the list of nodes before you erase: `for node in list(module.graph.nodes)`.",
    ),
    solution="""
        def merge(module):
            first = {}
            for node in list(module.graph.nodes):
                if node.op != "call_function":
                    continue
                known = first.setdefault((node.target, node.args), node)
                if known is not node:
                    node.replace_all_uses_with(known)
                    module.graph.erase(node)
            return module
    """,
)
def merge_equal_nodes(merge: Callable[[GraphModule], GraphModule]) -> None:
    """Count the nodes, and compare what the graph computes."""
    merged = merge(example())
    left = [node.name for node in merged.graph.nodes if node.op.startswith("call")]
    assert len(left) == 3, f"exp, mul and add are enough; there are {left}"
    torch.testing.assert_close(merged(A, B)[0], 2 * torch.exp(A) * B)
