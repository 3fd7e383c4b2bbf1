"""Exercises of the chapter on backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitorch2.api import compiler
from minitorch2.backends import list_backends
from minitorch2.course.exercise import exercise

PAGE = "layers/backends"


def debugging_backends() -> set[str]:
    """Return the backends that are there for debugging only."""
    return set(list_backends(exclude_tags=())) - set(list_backends())


def program(x: Tensor, w: Tensor) -> Tensor:
    """Return a product, normalized, without its negative part."""
    return torch.relu((x @ w) * 2 + 1)


@exercise(
    PAGE,
    "look",
    question="""
        Which backends does `list_backends()` leave out? Set `debugging`, a set of names.
    """,
    stub="""
        from minitorch2.backends import list_backends

        print(list_backends())
        debugging = ...
    """,
    hints=("`list_backends(exclude_tags=())` leaves out nothing.",),
    solution="""
        from minitorch2.backends import list_backends

        debugging = set(list_backends(exclude_tags=())) - set(list_backends())
    """,
)
def name_backends(debugging: set[str]) -> None:
    """Ask the registry."""
    expected = debugging_backends()
    assert set(debugging) == expected, f"{sorted(debugging)} are not all of them, or too many"


@exercise(
    PAGE,
    "change",
    question="""
        This backend sorts out the graph in every call. Change it so that the work is done
        once, when the graph is compiled. `WORK` counts it.
    """,
    stub="""
        WORK = []


        def prepared(graph):
            WORK.append(len(list(graph.graph.nodes)))
            return graph


        def backend(graph, example_inputs):
            return lambda *inputs: prepared(graph)(*inputs)
    """,
    hints=("A backend is called once for a graph; what it returns is called each time.",),
    solution="""
        WORK = []


        def prepared(graph):
            WORK.append(len(list(graph.graph.nodes)))
            return graph


        def backend(graph, example_inputs):
            return prepared(graph)
    """,
)
def work_once(backend: Callable[..., Any], WORK: list[int]) -> None:
    """Call the compiled function three times."""
    fast = compiler.compile(program, backend=backend)
    x, w = torch.randn(2, 3), torch.randn(3, 4)
    for _ in range(3):
        torch.testing.assert_close(fast(x, w), program(x, w))
    assert len(WORK) == 1, f"three calls have done the work {len(WORK)} times"


@exercise(
    PAGE,
    "build",
    question="""
        Write `run(graph, *inputs)`: interpret a graph's nodes one by one, without calling the
        graph. The check uses it as a backend.
    """,
    stub="""
        def run(graph, *inputs):
            values = {}
            for node in graph.graph.nodes:
                print(node.op, node.target, node.args, node.kwargs)
    """,
    hints=(
        'Ops are "placeholder", "call_function", "call_method" and "output" here.',
        "Arguments may be nested tuples or lists of nodes: replace them recursively.",
    ),
    solution="""
        def run(graph, *inputs):
            values, given = {}, iter(inputs)

            def value(argument):
                if isinstance(argument, (tuple, list)):
                    return type(argument)(map(value, argument))
                return values.get(argument, argument) if hasattr(argument, "op") else argument

            for node in graph.graph.nodes:
                args = value(tuple(node.args))
                named = {name: value(each) for name, each in node.kwargs.items()}
                if node.op == "placeholder":
                    values[node] = next(given)
                elif node.op == "call_function":
                    values[node] = node.target(*args, **named)
                elif node.op == "call_method":
                    values[node] = getattr(args[0], node.target)(*args[1:], **named)
                else:
                    return args[0]
    """,
)
def interpret(run: Callable[..., Any]) -> None:
    """Run three programs through it; the graph itself raises."""

    def backend(graph: Any, _: object) -> Callable[..., Any]:
        graph.forward = None
        return lambda *inputs: run(graph, *inputs)

    x, w = torch.randn(2, 3), torch.randn(3, 4)
    programs: tuple[Callable[..., Any], ...] = (
        program,
        lambda x, w: torch.cat([x, x + 1], dim=1).sum(0),
        lambda x, w: (x.sin(), w.clamp(min=0)),
    )
    for each in programs:
        fast = compiler.compile(each, backend=backend)
        torch.testing.assert_close(fast(x, w), each(x, w))


@exercise(
    PAGE,
    "build",
    question="""
        Write `checking(backend)`: a backend whose callables compare each result with the graph
        run eagerly, and raise an `AssertionError` if they differ. Graphs may write to their
        inputs.
    """,
    stub="""
        def checking(backend):
            return backend
    """,
    hints=(
        "Clone the inputs before either of the two runs.",
        "`torch.testing.assert_close` compares tuples, and raises an AssertionError.",
    ),
    solution="""
        import torch


        def checking(backend):
            def checked(graph, example_inputs):
                compiled = backend(graph, example_inputs)

                def call(*inputs):
                    expected = graph(*(x.clone() for x in inputs))
                    found = compiled(*inputs)
                    torch.testing.assert_close(list(found), list(expected))
                    return found

                return call

            return checked
    """,
)
def check_a_backend(checking: Callable[..., Any]) -> None:
    """Wrap a right backend and a wrong one, and compile a program that writes."""

    def right(graph: Any, _: object) -> Any:
        return graph

    def wrong(graph: Any, _: object) -> Any:
        return lambda *inputs: [value + 1 for value in graph(*inputs)]

    def writes(x: Tensor) -> Tensor:
        return x.add_(1) * 2

    x = torch.ones(2)
    found = compiler.compile(writes, backend=checking(right))(x)
    assert found.tolist() == [4.0, 4.0] and x.tolist() == [2.0, 2.0], "the input is written once"
    try:
        compiler.compile(lambda x: x * 2, backend=checking(wrong))(torch.ones(2))
    except Exception as error:  # noqa: BLE001  the compiler may wrap the error
        assert "Tensor-likes are not close" in f"{error} {error.__cause__}", f"it raises {error!r}"
        return
    raise AssertionError("a wrong backend goes through")
