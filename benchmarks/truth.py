"""Results that are not eager's to the digit, judged by the same program in float64.

Two right orders of one sum differ in the last digits. A ReLU behind it may switch, and then whole
parts of a gradient jump. Eager itself jumps if its inputs change by one unit in the last place. So
eager runs as it is, and `RUNS` times with inputs and parameters that are shaken by that unit of
float32, or of TF32 where a GPU's convolutions and products round to that. Those of 16 bits stay as
they are: their rounding is no matter of luck. Each tensor has

    error   ::= |result - exact| / |exact|, in the Euclidean norm; `exact` is eager's in float64
    allowed ::= FACTOR * the largest error of these runs, and LARGEST at most

A result is right if no tensor of it has a larger error. Nothing can be judged where float64 is no
truth: the program has no float64, or draws other numbers in it, so eager's own error is huge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.cases import Case, Function

RUNS, FACTOR = 16, 2.0
"""Runs of eager with shaken numbers, and how many times the largest error of these is allowed."""
TF32 = 2.0**-10
"""The unit in the last place of a number of TF32 near 1."""
LARGEST = 0.3
"""No larger error is allowed. Where eager's own one is larger, a result cannot be judged."""


@dataclass(frozen=True)
class Truth:
    """The results of a case in float64, and the error that is allowed, by tensor."""

    exact: list[Tensor]
    allowed: list[float]

    @classmethod
    def of(cls, case: Case, inputs: tuple[Tensor, ...]) -> Truth | None:
        """Run a case exactly, and `RUNS` times in its own dtype; None if it has no float64."""
        try:
            exact = results(case, _doubled, inputs, torch.float64)
        except (RuntimeError, TypeError, ValueError):  # a kernel or an argument has no float64
            return None
        default = torch.get_default_dtype()
        own = list(map(error, results(case, torch.clone, inputs, default), exact))
        largest = own
        for seed in range(RUNS):
            found = results(case, shaker(seed), inputs, default)
            largest = list(map(max, largest, map(error, found, exact)))
        pairs = zip(own, largest, strict=True)
        allowed = [min(FACTOR * most, LARGEST) if mine <= LARGEST else 0.0 for mine, most in pairs]
        return cls(exact, allowed)

    def admits(self, result: Any, expected: Any, alike: Callable[[Any, Any], bool]) -> bool:
        """Whether each tensor of a result is like eager's, or as near to float64 as is allowed."""
        given, wanted = list(tensors_of(result)), list(tensors_of(expected))
        if len(given) != len(wanted) or len(given) != len(self.exact):
            return False
        parts = zip(given, wanted, self.exact, self.allowed, strict=True)
        return all(
            (got.shape, got.dtype) == (eager.shape, eager.dtype)
            and (alike(got, eager) or error(got, exact) <= allowed)
            for got, eager, exact, allowed in parts
        )


def results(
    case: Case, change: Callable[[Tensor], Tensor], inputs: tuple[Tensor, ...], dtype: torch.dtype
) -> list[Tensor]:
    """The tensors that eager gives if parameters, buffers and inputs are changed.

    New tensors have `dtype` unless the program names another.
    """

    def make() -> Function:
        function = case.make()
        if isinstance(function, nn.Module):
            for tensor in (*function.parameters(), *function.buffers()):
                tensor.data = change(tensor.data)
        return function

    function = replace(case, make=make).build(lambda f: f)
    torch.manual_seed(1)
    given = [change(x.detach()).requires_grad_(x.requires_grad) for x in inputs]
    with default_dtype(dtype):
        return list(tensors_of(function(*given)))


def _doubled(x: Tensor) -> Tensor:
    """A float as float64; anything else as it is."""
    return x.double() if x.is_floating_point() else x


def shaker(seed: int) -> Callable[[Tensor], Tensor]:
    """A function that moves each number of float32 by one unit in its last place, up or down.

    A GPU that may compute in TF32 has no more than ten binary digits.
    """
    generator = torch.Generator().manual_seed(seed)

    def shaken(x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            return x
        signs = torch.randint(0, 2, x.shape, generator=generator).to(x) * 2 - 1
        has_tf32 = torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
        return x + x * signs * (TF32 if x.is_cuda and has_tf32 else torch.finfo(x.dtype).eps)

    return shaken


def error(result: Tensor, exact: Tensor) -> float:
    """The relative error of a tensor in the Euclidean norm; infinite for what is no float."""
    if not exact.is_floating_point():
        return 0.0 if torch.equal(result, exact) else float("inf")
    with torch.no_grad():
        distance, size = (result - exact).norm(), exact.norm()
    return float(distance / size) if size else float(distance)


def tensors_of(result: Any) -> Iterator[Tensor]:
    """The tensors of a result, from left to right."""
    if isinstance(result, Tensor):
        yield result
        return
    for part in result.values() if isinstance(result, dict) else result:
        yield from tensors_of(part)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Give new tensors a dtype, and restore the old one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
