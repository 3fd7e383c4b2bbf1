"""Exercises of the chapter on why capture is hard."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType

import torch
from torch import Tensor

from minitorch2 import lazy
from minitorch2.api import compiler
from minitorch2.config import patch
from minitorch2.course.exercise import exercise
from minitorch2.graph.symbolic_trace import symbolic_trace

PAGE = "hard"
Function = Callable[[Tensor], Tensor]


def first(x: Tensor) -> Tensor:
    """Return twice the tensor, plus one."""
    return x * 2 + 1


def third(x: Tensor) -> Tensor:
    """Return one of two tensors; data decide."""
    return x * 2 if x.sum() > 0 else x


def lazily(x: Tensor) -> Tensor:
    """Call `first` with its operators put off."""
    with lazy.lazily():
        return first(x)


def runs_of_python(call: Function) -> int:
    """Return how often CPython runs the body of `first` in the three calls behind the first."""
    runs: list[bool] = []

    def watch(frame: FrameType, event: str, argument: object) -> None:
        runs.append(frame.f_code is first.__code__)

    call(torch.ones(2))
    before = sys.gettrace()
    sys.settrace(watch)
    try:
        for number in range(3):
            call(torch.full((2,), float(number)))
    finally:
        sys.settrace(before)
    return sum(runs)


def paid_in_python() -> tuple[int, int]:
    """Return these runs of the lazy and of the compiled function."""
    with patch(backend="eager"):
        return runs_of_python(lazily), runs_of_python(compiler.compile(first))


@exercise(
    PAGE,
    "look",
    question="""
        `first` is called four times. In how many of the last three calls does CPython run its
        body, if it runs lazily, and if it is compiled? Set `deferred` and `compiled`.
    """,
    stub="""
        from minitorch2.api.compiler import compile
        from minitorch2.course.exercises.hard import first, lazily, runs_of_python

        deferred = ...
        compiled = ...
    """,
    hints=(
        "Lazy tensors record what Python does, so Python must do it.",
        "`runs_of_python(call)` counts. It takes `lazily`, or `compile(first)`.",
    ),
    solution="""
        from minitorch2.course.exercises.hard import paid_in_python

        deferred, compiled = paid_in_python()
    """,
)
def count_runs_of_python(deferred: int, compiled: int) -> None:
    """Trace the calls as a debugger does."""
    found = paid_in_python()
    assert (deferred, compiled) == found, f"{deferred} and {compiled} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        A symbolic trace refuses this function. Change it so that it is taken, and right for
        all data.
    """,
    stub="""
        def program(x):
            if x.sum() > 0:
                return x * 2
            return x
    """,
    hints=("`torch.where(condition, a, b)` asks nobody in Python.",),
    solution="""
        import torch


        def program(x):
            return torch.where(x.sum() > 0, x * 2, x)
    """,
)
def ask_nobody(program: Function) -> None:
    """Trace it, and run the graph on both kinds of data."""
    try:
        graph = symbolic_trace(program)
    except Exception as error:
        raise AssertionError(f"it is refused: {str(error).splitlines()[0]}") from error
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(graph(x)[0], third(x))
        torch.testing.assert_close(program(x), third(x))


@exercise(
    PAGE,
    "build",
    question="""
        Write `outcome(captured, function, inputs)`: "right" if a captured function gives what
        the function gives for all inputs (sizes and numbers), "refused" if it raises for one,
        and else "WRONG". A wrong result counts more than a refusal.
    """,
    stub="""
        def outcome(captured, function, inputs):
            return "right"
    """,
    hints=("Compare sizes before numbers: (3,) and (1, 3) broadcast.", "`torch.equal` does."),
    solution="""
        import torch


        def outcome(captured, function, inputs):
            words = set()
            for x in inputs:
                try:
                    same = torch.equal(captured(x), function(x))
                except Exception:
                    words.add("refused")
                else:
                    words.add("right" if same else "WRONG")
            return next(word for word in ("WRONG", "refused", "right") if word in words)
    """,
)
def judge(outcome: Callable[[Function, Function, Sequence[Tensor]], str]) -> None:
    """Judge captured functions of each kind."""
    inputs = torch.ones(3), -torch.ones(3)

    def fails(x: Tensor) -> Tensor:
        if x.sum() < 0:
            raise ValueError
        return x

    def fails_and_lies(x: Tensor) -> Tensor:
        return fails(x) + 1

    cases: tuple[tuple[Function, Function, str], ...] = (
        (lambda x: x * 2, lambda x: x + x, "right"),
        (lambda x: x, torch.abs, "WRONG"),
        (lambda x: x[None], lambda x: x, "WRONG"),
        (fails, lambda x: x, "refused"),
        (fails_and_lies, lambda x: x, "WRONG"),
    )
    for captured, function, expected in cases:
        found = outcome(captured, function, inputs)
        assert found == expected, f"this one is {expected}, not {found}"


@exercise(
    PAGE,
    "build",
    question="""
        Write a function `program(x)` without a branch on data for which `torch.jit.trace` is
        silently wrong: traced with `torch.ones(3)`, it gives another result for some other
        tensor than eager mode, and no error. `minitorch2.compile` must be right. Set `other`
        to that tensor.
    """,
    stub="""
        import torch
        from torch.jit import trace

        other = torch.ones(4)


        def program(x):
            return x * 2
    """,
    hints=(
        "A trace keeps what Python computed in the example: a length, a number, a list.",
        "`len(x)`, `x.sum().item()` and a loop over rows are such things.",
    ),
    solution="""
        import torch
        from torch.jit import trace

        other = torch.ones(4)


        def program(x):
            return x * len(x)
    """,
)
def fool_a_trace(program: Function, other: Tensor, trace: Callable[..., Function]) -> None:
    """Trace it, call the trace, and compile it."""
    program.__module__ = "answer"
    expected = program(other.clone())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = trace(program, torch.ones(3), check_trace=False)
        found = traced(other.clone())
    assert not torch.equal(found, expected), "the trace is right for this tensor"
    compiled = compiler.compile(program, backend="eager")
    compiled(torch.ones(3))
    assert torch.equal(compiled(other.clone()), expected), "compile is wrong: tell us"
