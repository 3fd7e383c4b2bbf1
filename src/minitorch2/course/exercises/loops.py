"""Exercises of the chapter on loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import sympy
import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler
from minitorch2.course.exercise import exercise
from minitorch2.loopir.handlers.effects import EffectHandler
from minitorch2.loopir.ops import use_handler

PAGE = "layers/loopir"


class Numbers(EffectHandler):
    """Runs a body for one index: loads are elements of flat tensors."""

    def __init__(self, buffers: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.buffers = buffers

    def load(self, name: str, index: Any) -> Any:
        """Return an element; the index is a place in the flat buffer."""
        return self.buffers[name].flatten()[int(index)]

    def constant(self, value: Any, dtype: torch.dtype) -> Any:
        """Return the number as a tensor of its dtype."""
        return torch.tensor(value, dtype=dtype)

    def elementwise(self, name: str, *values: Any) -> Any:
        """Call the function of torch that has the primitive's name."""
        return getattr(torch, {"truediv": "div"}.get(name, name))(*values)


def run(body: Callable[..., Any], sizes: Sequence[int], buffers: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor of these sizes whose elements the body computes."""
    with use_handler(Numbers(buffers)):
        places = product(*(range(size) for size in sizes))
        values = [body(tuple(map(sympy.Integer, place))) for place in places]
    return torch.stack(values).reshape(list(sizes))


@exercise(
    PAGE,
    "look",
    question="""
        How many kernels has a softmax along rows of 64 numbers on the CPU, before fusion and
        after it? Set `before` and `after`.
    """,
    stub="""
        import torch

        before = ...
        after = ...
    """,
    hints=(
        "`stages.collect()` has counts: `kernels_before_fusion` and `kernels`.",
        "Call the compiled function inside of the `with`.",
    ),
    solution="""
        from minitorch2.course.exercises.loops import count_kernels_of_softmax

        before, after = count_kernels_of_softmax()
    """,
)
def count_kernels(before: int, after: int) -> None:
    """Compile it and count."""
    found = count_kernels_of_softmax()
    assert (before, after) == found, f"{before} and {after} are not both right"


def count_kernels_of_softmax() -> tuple[int, int]:
    """Return the numbers before and after fusion."""
    with stages.collect() as log:
        compiler.compile(lambda x: torch.softmax(x, -1))(torch.ones(8, 64))
    return log.counts["kernels_before_fusion"], log.counts["kernels"]


@exercise(
    PAGE,
    "change",
    question="""
        This body computes `x + y` for matrices of 3 rows and 4 columns. Let it compute `x +
        y.T`, where `y` has 4 rows and 3 columns. `run(body, (3, 4), buffers)` tries it.
    """,
    stub="""
        from minitorch2.loopir.ops import ops


        def body(index):
            row, column = index
            return ops.add(ops.load("x", row * 4 + column), ops.load("y", row * 4 + column))
    """,
    hints=(
        "The element of the transposed matrix in row r and column c is that of row c and column r.",
        "A row of `y` has 3 numbers.",
    ),
    solution="""
        from minitorch2.loopir.ops import ops


        def body(index):
            row, column = index
            return ops.add(ops.load("x", row * 4 + column), ops.load("y", column * 3 + row))
    """,
)
def transpose_an_operand(body: Callable[..., Any]) -> None:
    """Compare with torch."""
    x, y = torch.randn(3, 4), torch.randn(4, 3)
    torch.testing.assert_close(run(body, (3, 4), {"x": x, "y": y}), x + y.T)


@exercise(
    PAGE,
    "build",
    question="""
        Write `inlined(reader, writer)`: `reader(index, load)` and `writer(index, load)` are
        bodies. The result is one body that computes what `reader` does if the buffer `t` is
        what `writer` gives.
    """,
    stub="""
        def inlined(reader, writer):
            def body(index, load):
                return reader(index, load)

            return body
    """,
    hints=(
        "Give the reader another `load`: one that calls the writer when it is asked for `t`.",
        "The index at which `t` is loaded is the index of the writer.",
    ),
    solution="""
        def inlined(reader, writer):
            def body(index, load):
                def load_or_compute(name, place):
                    return writer(place, load) if name == "t" else load(name, place)

                return reader(index, load_or_compute)

            return body
    """,
)
def inline_a_producer(inlined: Callable[..., Any]) -> None:
    """Compare with two loops, and see that `t` is not loaded."""
    x: list[float] = torch.randn(5).tolist()
    loaded: list[str] = []

    def load(name: str, place: int) -> float:
        loaded.append(name)
        return x[place]

    def writer(index: int, load: Callable[[str, int], float]) -> float:
        return load("x", index) * 2

    def reader(index: int, load: Callable[[str, int], float]) -> float:
        total: float = load("t", index) + load("t", 4 - index) + load("x", index)
        return total

    body = inlined(reader, writer)
    found = [body(index, load) for index in range(5)]
    expected = [2 * x[i] + 2 * x[4 - i] + x[i] for i in range(5)]
    torch.testing.assert_close(found, expected)
    assert "t" not in loaded, "`t` has no memory any more: nobody may load it"


@exercise(
    PAGE,
    "build",
    question="""
        Write `may_share(reads, written)`: `reads` are the pairs (buffer, index) that a loop
        reads in iteration `("i0", "i1")`, `written` the buffers that another loop of the same
        sizes writes at that index. May they be one loop?
    """,
    stub="""
        def may_share(reads, written):
            return True
    """,
    hints=(
        "A buffer that the other loop does not write is no obstacle.",
        "Which index is there yet?",
    ),
    solution="""
        def may_share(reads, written):
            return all(index == ("i0", "i1") for name, index in reads if name in written)
    """,
)
def decide_fusion(may_share: Callable[..., bool]) -> None:
    """Try legal pairs and their illegal mirrors."""
    here, there = ("i0", "i1"), ("i1", "i0")
    cases = [
        ([("t", here)], True, "the same element"),
        ([("t", there)], False, "the transposed element, which may not be written yet"),
        ([("x", there)], True, "a buffer that nobody writes"),
        ([("t", here), ("t", ("i0", "0"))], False, "the first element of the row"),
        ([], True, "nothing"),
    ]
    for reads, legal, what in cases:
        assert bool(may_share(reads, {"t"})) is legal, f"the reader reads {what}"
