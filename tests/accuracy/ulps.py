"""Errors of elementary functions in units in the last place, ours and eager's.

    python -m tests.accuracy.ulps                     every function, float32 and float64
    python -m tests.accuracy.ulps --stride 1          every float32 there is (hours)
    python -m tests.accuracy.ulps --save              ... and into measured.json, for the docs

The truth is computed with more digits: float64 for a float32, extended precision or mpmath for a
float64. One unit is the distance of two neighbours of the result's dtype where the true result is.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import torch
from torch import Tensor

import minitorch2

Function = Callable[..., Tensor]

UNARY: dict[str, Function] = {
    name: getattr(torch, name)
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid",
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
        "atanh", "erf", "erfc", "lgamma",
    )
} | {
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "softplus": torch.nn.functional.softplus,
}  # fmt: skip
BINARY: dict[str, Function] = {"pow": torch.pow, "atan2": torch.atan2}
FUNCTIONS = UNARY | BINARY

NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2", "pow": "power",
}  # fmt: skip


RESULTS = Path(__file__).with_name("measured.json")
PIECE = 1 << 20
"""So many arguments at a time."""


@dataclass(frozen=True)
class Errors:
    """Largest errors of one function over some arguments, in ulps, and where ours is.

    Attributes:
        ours: of compiled code.
        eager: of PyTorch's operator.
        worst: the arguments of our largest error.
        special: how many results are NaN or infinite where neither the truth nor eager is, or
            finite where both are not.
        wrong: the arguments of the first of them.
    """

    ours: float
    eager: float
    worst: tuple[float, ...]
    special: int
    wrong: tuple[float, ...]

    @property
    def is_small(self) -> bool:
        """Whether the error is at most 4 units, or eager's own."""
        return self.ours <= max(4.0, self.eager) and not self.special

    def with_(self, other: Errors) -> Errors:
        """Of both, whichever is larger."""
        larger = max(self, other, key=lambda errors: errors.ours)
        return replace(
            larger,
            eager=max(self.eager, other.eager),
            special=self.special + other.special,
            wrong=self.wrong or other.wrong,
        )

    def __str__(self) -> str:
        far = "" if self.is_small else "  too large"
        wrong = (
            f"  {self.special} not as NaN or infinity, first at {self.wrong}"
            if self.special
            else ""
        )
        return f"{self.ours:10.2f} {self.eager:10.2f}  at {self.worst}{far}{wrong}"


def scattered(stride: int, dtype: torch.dtype = torch.float32) -> Iterator[Tensor]:
    """Every `stride`-th bit pattern of a dtype, in pieces: all magnitudes alike."""
    bits = torch.int32 if dtype == torch.float32 else torch.int64
    low, high = torch.iinfo(bits).min, torch.iinfo(bits).max
    patterns = range(low, high, stride)
    for start in range(0, len(patterns), PIECE):
        piece = patterns[start : start + PIECE]
        yield (piece[0] + stride * torch.arange(len(piece))).to(bits).view(dtype)


def edges(dtype: torch.dtype) -> Tensor:
    """Zeros, infinities, NaN, the ends of the subnormal and normal ranges, small whole numbers."""
    limits = torch.finfo(dtype)
    tiny = limits.tiny
    sizes = [
        0.0, math.inf, math.nan, tiny * limits.eps, tiny / 2, tiny, limits.max, 0.5, 1.0, 2.0, 3.0,
        1 + limits.eps, 1 - limits.eps / 2, 17.0, 88.8, 103.9, 709.8, 745.2, 1e10,
    ]  # fmt: skip
    return torch.tensor([sign * size for size in sizes for sign in (1, -1)], dtype=dtype)


def usual(count: int, dtype: torch.dtype) -> Tensor:
    """Arguments of the sizes that programs have: around 0, around 1, up to some hundreds."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, generator=generator, dtype=torch.float64)
    wide = torch.rand(count, generator=generator, dtype=torch.float64) * 1500 - 750
    return torch.cat([x, 4 * x, wide / 7, wide, 1 + x * 1e-3, x * 1e-4]).to(dtype)


def arguments(name: str, x: Tensor) -> tuple[Tensor, ...]:
    """`x`; for a function of two arguments, `x` in another order too (exponents mostly small)."""
    if name not in BINARY:
        return (x,)
    other = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))]
    return x, torch.where(other.abs() > 60, other.fmod(60), other) if name == "pow" else other


def truth(name: str, inputs: tuple[Tensor, ...]) -> np.ndarray:
    """The function's values with more digits than its arguments have."""
    if inputs[0].dtype == torch.float32:
        exact = IN_DOUBLE.get(name, FUNCTIONS[name])(*(x.double() for x in inputs))
        return exact.numpy().astype(np.longdouble)
    if name in BY_MPMATH:
        return _by_mpmath(BY_MPMATH[name], inputs[0])
    with np.errstate(all="ignore"):
        wide = [x.numpy().astype(np.longdouble) for x in inputs]
        return EXTENDED.get(name, getattr(np, NUMPY_NAMES.get(name, name), None))(*wide)


IN_DOUBLE: dict[str, Function] = {
    "gelu": lambda x: x * 0.5 * torch.erfc(x * -math.sqrt(0.5)),
    "gelu_tanh": lambda x: x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
}
"""Where float64 is precise only if nothing cancels."""

EXTENDED: dict[str, Callable[..., np.ndarray]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(x))),
}

BY_MPMATH: dict[str, Callable[[Any], Any]] = {
    "erf": lambda x: mpmath.erf(_within(40, x)),
    "erfc": lambda x: mpmath.erfc(_within(40, x)),
    "lgamma": lambda x: mpmath.re(mpmath.loggamma(x)),
    "gelu": lambda x: x * mpmath.ncdf(_within(50, x)),
    "gelu_tanh": lambda x: x / (1 + mpmath.exp(-_gelu_exponent(_within(50, x)))),
}


def _within(limit: int, x: Any) -> Any:
    """`x`, or a limit beyond which the function is 0 or constant in float64."""
    return max(-limit, min(limit, x))


def _gelu_exponent(x: Any) -> Any:
    return mpmath.sqrt(8 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)


def _by_mpmath(function: Callable[[Any], Any], x: Tensor) -> np.ndarray:
    results = [_one_by_mpmath(function, number) for number in x.tolist()]
    return np.array(results, dtype=np.longdouble)


def _one_by_mpmath(function: Callable[[Any], Any], number: float) -> np.longdouble:
    if not math.isfinite(number):
        return np.longdouble("nan")
    with mpmath.workprec(120):
        try:
            return np.longdouble(mpmath.nstr(function(mpmath.mpf(number)), 25))
        except ValueError:  # a pole
            return np.longdouble("inf")


def measure(names: Sequence[str], x: Tensor) -> dict[str, Errors]:
    """The errors of functions over some arguments; all of them are compiled as one kernel."""

    def program(inputs: dict[str, tuple[Tensor, ...]]) -> dict[str, Tensor]:
        return {name: FUNCTIONS[name](*values) for name, values in inputs.items()}

    inputs = {name: arguments(name, x) for name in names}
    ours, eager = minitorch2.compile(program, fullgraph=True)(inputs), program(inputs)
    return {
        name: compared(inputs[name], ours[name], eager[name], truth(name, inputs[name]))
        for name in names
    }


def compared(inputs: tuple[Tensor, ...], ours: Tensor, eager: Tensor, exact: np.ndarray) -> Errors:
    """What two results are off by."""
    own, theirs = ours.numpy(), eager.numpy()
    with np.errstate(all="ignore"):
        rounded = exact.astype(own.dtype)
        unit = np.abs(np.spacing(rounded)).astype(np.longdouble)
        kinds = [_kind(own), _kind(theirs), _kind(rounded)]
        errors = [np.abs(result - exact) / unit for result in (own, theirs)]
    special = (kinds[0] != kinds[1]) & (kinds[0] != kinds[2]) & ~_may_overflow(exact, own.dtype)
    left, right = (np.where(np.isfinite(error), error, 0) for error in errors)
    place = int(left.argmax())
    worst = tuple(float(values[place]) for values in inputs)
    wrong = tuple(float(values[special.argmax()]) for values in inputs) if special.any() else ()
    return Errors(float(left.max()), float(right.max()), worst, int(special.sum()), wrong)


def _kind(values: np.ndarray) -> np.ndarray:
    """0 for a number, others for NaN, both infinities."""
    return np.select([np.isnan(values), values == np.inf, values == -np.inf], [1, 2, 3], 0)


def _may_overflow(exact: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Whether a few units decide between the largest number and infinity."""
    limits = np.finfo(dtype)
    return np.abs(np.abs(exact) / limits.max - 1) < 4 * limits.eps


def samples(dtype: torch.dtype, stride: int, count: int) -> Iterator[Tensor]:
    """The arguments to measure with."""
    yield torch.cat([edges(dtype), usual(count, dtype)])
    yield from scattered(stride, dtype)


def table(dtype: torch.dtype, stride: int, count: int) -> dict[str, Errors]:
    """The largest errors over all samples."""
    found: dict[str, Errors] = {}
    for x in samples(dtype, stride, count):
        for name, errors in measure(list(FUNCTIONS), x).items():
            found[name] = found[name].with_(errors) if name in found else errors
    return found


def main(options: list[str]) -> int:
    """Print the table; 1 if an error is too large."""
    parser = argparse.ArgumentParser(prog="tests.accuracy.ulps", description=__doc__)
    parser.add_argument("--stride", type=int, default=1021, help="every n-th float32")
    parser.add_argument("--count", type=int, default=20_000, help="usual arguments, times six")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args(options)
    tables = {
        str(dtype)[6:]: table(dtype, stride, given.count)
        for dtype, stride in ((torch.float32, given.stride), (torch.float64, given.stride << 41))
    }
    rows = [(kind, name, row) for kind, found in tables.items() for name, row in found.items()]
    for kind, name, errors in rows:
        print(f"{kind} {name:10} {errors}")
    if given.save:
        kept = [[kind, name, errors.ours, errors.eager] for kind, name, errors in rows]
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    return int(not all(errors.is_small for _, _, errors in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
