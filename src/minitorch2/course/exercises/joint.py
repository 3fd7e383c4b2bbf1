"""Exercises of the chapter on the joint graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler
from minitorch2.course.exercise import exercise

PAGE = "gradients/joint"


def several(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a tensor with a gradient, one without, and integers."""
    return x.sin() * y, (x * y).detach(), x.argmax()


def joint_text() -> str:
    """Return the text of the joint graph of `several`; `y` needs no gradient."""
    with stages.collect() as log:
        fast = compiler.compile(several, backend="aot_eager_decomp_partition")
        fast(torch.rand(3, requires_grad=True), torch.rand(3))
    return log.texts("joint graph.py")[0]


@exercise(
    PAGE,
    "look",
    question="""
        How many tangents has the joint graph of `several`, and how many of its results are
        `None`? Set `tangents` and `nones`.
    """,
    stub="""
        from minitorch2.course.exercises.joint import joint_text

        print(joint_text())
        tangents = ...
        nones = ...
    """,
    hints=(
        "A result has a tangent if it is differentiable.",
        "An input that needs no gradient has `None` in its place.",
    ),
    solution="""
        from minitorch2.course.exercises.joint import joint_text

        head, _, rest = joint_text().partition("):")
        tangents, nones = head.count("tangent_"), rest.rpartition("return")[2].count("None")
    """,
)
def count_tangents(tangents: int, nones: int) -> None:
    """Count them in the text."""
    head, _, rest = joint_text().partition("):")
    found = head.count("tangent_"), rest.rpartition("return")[2].count("None")
    assert (tangents, nones) == found, f"{tangents} and {nones} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        The derivative of `round` is 0, so nothing is learned through it. Change `rounded` so
        that its result stays and its derivative is 1 (the straight-through estimator).
    """,
    stub="""
        def rounded(x):
            return x.round()
    """,
    hints=(
        "A part that is detached has a value and no derivative.",
        "`x + (something).detach()` has the derivative of `x`.",
    ),
    solution="""
        def rounded(x):
            return x + (x.round() - x).detach()
    """,
)
def straight_through(rounded: Callable[[Tensor], Tensor]) -> None:
    """Ask eager mode and the compiled function for values and gradients."""
    for function in (rounded, compiler.compile(rounded, backend="aot_eager", fullgraph=True)):
        x = torch.tensor([0.2, 1.7, -2.4], requires_grad=True)
        result = function(x)
        torch.testing.assert_close(result, x.round(), check_stride=False)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert gradient.tolist() == [1.0, 1.0, 1.0], f"the derivative is {gradient.tolist()}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `operators(function, x)`: the operators that run forward and those that autograd
        runs backward, as two lists of texts such as "aten.sin.default".
    """,
    stub="""
        def operators(function, x):
            return [], []
    """,
    hints=(
        "[Before you begin](../prerequisites.md#a-dispatch-mode) has a mode that listens.",
        "Run the function under one mode, and `torch.autograd.grad(result.sum(), x)` under "
        "another. Make the tangent outside: `torch.ones_like(result)`.",
    ),
    solution="""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode


        class Listen(TorchDispatchMode):
            def __init__(self):
                super().__init__()
                self.seen = []

            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                self.seen.append(str(operator))
                return operator(*args, **(kwargs or {}))


        def operators(function, x):
            with Listen() as forward:
                result = function(x)
            tangent = torch.ones_like(result)
            with Listen() as backward:
                torch.autograd.grad(result, x, tangent)
            return forward.seen, backward.seen
    """,
)
def record_both(operators: Callable[..., tuple[list[str], list[str]]]) -> None:
    """Look for operators that belong to one side only."""
    forward, backward = operators(lambda x: x.sin() * 2, torch.rand(3, requires_grad=True))
    assert forward == ["aten.sin.default", "aten.mul.Tensor"], f"forward is not {forward}"
    names = [name for name in backward if not name.startswith("aten.detach")]
    assert names == ["aten.mul.Tensor", "aten.cos.default", "aten.mul.Tensor"], (
        f"backward multiplies, takes the cosine and multiplies; you have {names}"
    )


@exercise(
    PAGE,
    "build",
    question="""
        Write `uniform(seed, place)`: a number from 0 to below 1 that depends on the seed and
        the place alone, and looks random. So the order in which elements are computed does
        not matter, and backward can draw the same number again.
    """,
    stub="""
        def uniform(seed, place):
            return (seed * 7 + place) % 10 / 10
    """,
    hints=(
        "Mix the bits of an integer: multiply by a large odd number, keep 32 bits, then "
        "`h ^= h >> 16`. Do it several times.",
        "0x85EBCA6B and 0xC2B2AE35 are such numbers (MurmurHash3).",
    ),
    solution="""
        def mixed(bits):
            for factor in (0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F):
                bits = ((bits ^ bits >> 16) * factor) & 0xFFFFFFFF
            return bits ^ bits >> 16


        def uniform(seed, place):
            return mixed(mixed(seed + 0x9E3779B9) + place) / 2**32
    """,
)
def draw_by_place(uniform: Callable[[int, int], float]) -> None:
    """Test the range, the mean, neighbours, seeds, and that a draw can be repeated."""
    drawn = {seed: [uniform(seed, place) for place in range(4000)] for seed in (0, 1)}
    numbers = torch.tensor(list(drawn.values()), dtype=torch.float64)
    assert [uniform(1, place) for place in reversed(range(4000))] == drawn[1][::-1], (
        "a place must always give the same number"
    )
    assert numbers.min() >= 0 and numbers.max() < 1, "numbers lie from 0 to below 1"
    assert abs(numbers.mean() - 0.5) < 0.02, f"the mean is {numbers.mean():.3f}"
    assert len(set(drawn[0])) > 3900, "numbers repeat too often"
    pairs = (numbers[0], numbers[1]), (numbers[0, 1:], numbers[0, :-1])
    for name, pair in zip(("seeds", "neighbours"), pairs, strict=True):
        related = torch.corrcoef(torch.stack(pair))[0, 1].abs()
        assert related < 0.08, f"{name} are correlated: {related:.2f}"
