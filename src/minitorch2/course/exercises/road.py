"""Exercises of the chapter on one function, all the way down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler
from minitorch2.course.exercise import exercise

PAGE = "road"


def wave(x: Tensor) -> Tensor:
    """Return a chain of pointwise operators."""
    return torch.sin(x) * 2 + torch.cos(x)


def kernels_of(function: Callable[..., Any], *inputs: Tensor) -> tuple[int, int]:
    """Return the number of kernels before and after fusion."""
    with stages.collect(texts=False) as log:
        compiler.compile(function)(*inputs)
    return log.counts["kernels_before_fusion"], log.counts["kernels"]


@exercise(
    PAGE,
    "look",
    question="""
        How many graphs and kernels does `wave` become for `torch.ones(100)`? Set `graphs` and
        `kernels`.
    """,
    stub="""
        import minitorch2
        from minitorch2 import stages
        from minitorch2.course.exercises.road import wave

        graphs = ...
        kernels = ...
    """,
    hints=("`stages.collect()` counts both, as at the top of the chapter.",),
    solution="""
        import torch

        from minitorch2.course.exercises.road import kernels_of, wave

        graphs, kernels = 1, kernels_of(wave, torch.ones(100))[1]
    """,
)
def count_kernels(graphs: int, kernels: int) -> None:
    """Count them."""
    with stages.collect(texts=False) as log:
        compiler.compile(wave)(torch.ones(100))
    found = log.counts["graphs"], log.counts["kernels"]
    assert (graphs, kernels) == found, f"{graphs} and {kernels} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        A product with a diagonal matrix calls a library. Change `scaled` so that all of it is
        one kernel of ours. Its results stay.
    """,
    stub="""
        import torch


        def scaled(weights, x):
            return torch.diag(weights) @ x + 1
    """,
    hints=("Row i is multiplied by weight i: a column of weights broadcasts.",),
    solution="""
        def scaled(weights, x):
            return weights[:, None] * x + 1
    """,
)
def no_library(scaled: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Compare, and count kernels and library calls."""
    weights, x = torch.randn(4), torch.randn(4, 3)
    torch.testing.assert_close(scaled(weights, x), torch.diag(weights) @ x + 1)
    with stages.collect(texts=False) as log:
        compiler.compile(scaled)(weights, x)
    found = log.counts["kernels"], log.counts["library_calls"]
    assert found == (1, 0), f"there are {found[0]} kernels and {found[1]} library calls"


@exercise(
    PAGE,
    "build",
    question="""
        Write `lines(function, *inputs)`: compile a function, call it, and return a dict from
        each name of a stage that left a text to the number of lines of its first text.
    """,
    stub="""
        def lines(function, *inputs):
            return {}
    """,
    hints=(
        "`stages.collect()` gives a log; `log.texts(name)` are the texts of a stage.",
        'The chapter prints several of them by name, such as "residual.py".',
    ),
    solution="""
        import minitorch2
        from minitorch2 import stages

        NAMES = (
            "bytecode_in.txt", "captured_graph", "residual.py", "joint graph.py",
            "forward graph.py", "loopir.py", "schedule.txt", "wrapper.py",
        )


        def lines(function, *inputs):
            with stages.collect() as log:
                minitorch2.compile(function)(*inputs)
            texts = {name: log.texts(name) for name in NAMES}
            return {name: len(found[0].splitlines()) for name, found in texts.items() if found}
    """,
)
def list_the_stages(lines: Callable[..., dict[str, int]]) -> None:
    """Compare with what was recorded."""
    found = lines(wave, torch.ones(7))
    with stages.collect() as log:
        compiler.compile(wave)(torch.ones(7))
    for name in ("bytecode_in.txt", "residual.py", "loopir.py", "wrapper.py"):
        expected = len(log.texts(name)[0].splitlines())
        assert name in found, f"{name} is missing in {sorted(found)}"
        assert abs(found[name] - expected) <= 2, f"{name} has {expected} lines"


class Memory(list[float]):
    """A list that counts reads and writes of elements."""

    reads = writes = 0

    def __getitem__(self, index: Any) -> Any:
        """Return an element, and count it."""
        self.reads += 1
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Store an element, and count it."""
        self.writes += 1
        super().__setitem__(index, value)


@exercise(
    PAGE,
    "build",
    question="""
        Write `fused(functions)`: a kernel `run(memory, result)` that applies all functions,
        one after the other, to each element. It reads each element of `memory` once and writes
        each of `result` once, by their index.
    """,
    stub="""
        def fused(functions):
            def run(memory, result):
                for i in range(len(memory)):
                    result[i] = functions[0](memory[i])
                for function in functions[1:]:
                    for i in range(len(memory)):
                        result[i] = function(result[i])

            return run
    """,
    hints=("The loop over elements is outside, the one over functions inside.",),
    solution="""
        def fused(functions):
            def run(memory, result):
                for i in range(len(memory)):
                    value = memory[i]
                    for function in functions:
                        value = function(value)
                    result[i] = value

            return run
    """,
)
def fuse_a_chain(fused: Callable[..., Callable[[Memory, Memory], None]]) -> None:
    """Count reads and writes of both memories."""
    functions: Sequence[Callable[[float], float]] = (abs, lambda x: x + 1, lambda x: x * 3)
    memory, result = Memory([1.0, -2.0, 5.0]), Memory([0.0] * 3)
    fused(functions)(memory, result)
    assert list(result) == [6.0, 9.0, 18.0], f"the result is {list(result)}"
    moved = memory.reads, result.reads, result.writes
    assert moved == (3, 0, 3), f"reads, reads of the result, writes: {moved}, not (3, 0, 3)"
