"""The first difference between what a compiled program does and what eager PyTorch does.

    difference ::= Difference(kind, where, text)
    kind       ::= "exception" | "metadata" | "value" | "accuracy" | "crash" | "hang"

Eager PyTorch rounds, too. A number is wrong if it is farther from the result in float64 than four
times the error of eager PyTorch, and than the tolerance of its dtype. A wrong number is a matter of
accuracy if it has the right order of magnitude, and a wrong value if it does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from minitorch2.errors import MinitorchError
from minitorch2.explorer.bisection.outcomes import Outcome

TOLERANCES: Final[Mapping[torch.dtype, float]] = {
    torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2,
    torch.complex128: 1e-10, torch.complex64: 1e-5,
}  # fmt: skip
"""The relative errors that are always allowed."""
TIMES_EAGER: Final = 4.0
"""The allowed error in units of eager's own."""
NOISE: Final = 1e-3
"""Numbers that are larger than the true ones by more than the inverse of this are rounding only."""
COARSE: Final = 0.02
"""The relative error from which a number is called wrong instead of inaccurate."""


@dataclass(frozen=True)
class Difference:
    """A difference.

    Attributes:
        kind: the kind of failure, which a smaller program has to keep.
        where: the name of the value that differs.
        text: both sides, with the tolerance.
    """

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where} {self.text}".replace("  ", " ")

    def is_like(self, other: Difference | None) -> bool:
        """Return whether both fail in one way: the same kind, and exception or sort of value."""
        return other is not None and (self.kind, self._sort) == (other.kind, other._sort)

    @property
    def _sort(self) -> str:
        """The class of the exception; or a result, a gradient, or an input."""
        return re.split(r"\W", self.where)[0]


def first_difference(
    given: Outcome, wanted: Outcome, exact: Outcome | None, tolerance: float | None
) -> Difference | None:
    """Return the first difference of a compiled call's outcome to eager's; None if there is none.

    Args:
        exact: the outcome in float64, if there is one.
        tolerance: the relative error that is allowed; None for that of each dtype.
    """
    if given.error is not None or wanted.error is not None:
        return _errors(given.error, wanted.error)
    references = {} if exact is None else exact.values
    for name, value in wanted.values.items():
        if name not in given.values:
            return Difference("metadata", name, "is missing")
        found = _of_values(given.values[name], value, references.get(name), tolerance)
        if found is not None:
            return Difference(found[0], name, found[1])
    more = next((name for name in given.values if name not in wanted.values), None)
    return None if more is None else Difference("metadata", more, "is there; eager has none")


def _errors(given: Exception | None, wanted: Exception | None) -> Difference | None:
    if given is None:
        return Difference("exception", "nothing", f"is raised; eager raises {wanted!r}")
    if wanted is None:
        return raised(given)
    return None


def raised(error: Exception) -> Difference:
    """Return the difference that a compiled program raises, and eager PyTorch does not."""
    text = error.cause if isinstance(error, MinitorchError) else str(error).strip()
    return Difference("exception", type(error).__name__, f"is raised: {text.partition(chr(10))[0]}")


def _of_values(
    given: Any, wanted: Any, exact: Any, tolerance: float | None
) -> tuple[str, str] | None:
    """Return kind and text of the difference of two values."""
    if type(given) is type(wanted) is float:
        given, wanted = (_tensor(each, _read_from(wanted)) for each in (given, wanted))
    if not isinstance(wanted, torch.Tensor) or not isinstance(given, torch.Tensor):
        same = type(given) is type(wanted) and (given == wanted or given != given)
        return None if same else ("value", f"is {given!r}, eager's is {wanted!r}")
    for name, (left, right) in _metadata(given, wanted).items():
        if left != right:
            return "metadata", f"has {name} {left}, eager's has {right}"
    if wanted.layout is not torch.strided or not wanted.numel():
        return None
    exact = _tensor(exact, torch.float64) if isinstance(exact, float) else exact
    reference = exact if isinstance(exact, torch.Tensor) and exact.shape == wanted.shape else None
    return _of_numbers(given.detach(), wanted.detach(), reference, tolerance)


def _tensor(number: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(number, dtype=dtype, device="cpu")


def _read_from(number: float) -> torch.dtype:
    """Return the narrowest dtype of which a number may have been read by `item()`."""
    of_float32 = number != number or _tensor(number, torch.float32).item() == number
    return torch.float32 if of_float32 else torch.float64


def _metadata(given: torch.Tensor, wanted: torch.Tensor) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {
        "shape": (tuple(given.shape), tuple(wanted.shape)),
        "dtype": (given.dtype, wanted.dtype),
        "layout": (given.layout, wanted.layout),
        "device": (given.device, wanted.device),
        "requires_grad": (given.requires_grad, wanted.requires_grad),
    }
    if wanted.layout is torch.strided and given.layout is torch.strided and wanted.numel() > 1:
        sizes = wanted.shape
        strides = [[s for n, s in zip(sizes, t.stride()) if n > 1] for t in (given, wanted)]
        found["strides"] = (strides[0], strides[1])
    return found


def _of_numbers(
    given: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor | None, tolerance: float | None
) -> tuple[str, str] | None:
    """Compare the elements of two tensors of one shape and dtype."""
    dtype = wanted.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        wrong = given != wanted
        return _at(wrong, given, wanted, "exactly", "value") if wrong.any() else None
    wide = torch.complex128 if dtype.is_complex else torch.float64
    left, right = given.to(wide), wanted.to(wide)
    true = right if exact is None else exact.detach().to(wide)
    finite = right.isfinite() & true.isfinite()
    unlike = finite & ~left.isfinite() | right.isnan() & true.isnan() & ~left.isnan()
    if unlike.any():
        return _at(unlike, given, wanted, "which is finite or not", "value")
    if not finite.any():
        return None
    scale = _most(true, finite)
    error = _most(right - true, finite)
    if scale < NOISE * _most(right, finite):  # eager's numbers are what its rounding has left
        error *= TIMES_EAGER
    elif error > COARSE * scale:  # float64 takes other ways, or draws other random numbers
        true, error = right, 0.0
    allowed = TOLERANCES.get(dtype, 0.1) if tolerance is None else tolerance
    limit = TIMES_EAGER * error + allowed * (true.abs() + 0.1 * scale)
    wrong = finite & ((left - true).abs() > limit)
    if not wrong.any():
        return None
    kind = "value" if _most(left - true, finite) > COARSE * scale else "accuracy"
    return _at(wrong, given, wanted, f"within {allowed:g}", kind)


def _most(values: torch.Tensor, where: torch.Tensor) -> float:
    return float(values.abs().masked_fill(~where, 0.0).max())


def _at(
    wrong: torch.Tensor, given: torch.Tensor, wanted: torch.Tensor, how: str, kind: str
) -> tuple[str, str]:
    """Return the kind, and a text that names the first wrong element and the number of them."""
    place = tuple(wrong.nonzero()[0].tolist())
    left, right = given[place].item(), wanted[place].item()
    at = f"at {list(place)} " if place else ""
    count = f"{int(wrong.sum())} of {wrong.numel()} elements differ"
    return kind, f"{at}is {_short(left)}, eager's is {_short(right)} ({how}; {count})"


def _short(number: complex) -> str:
    """Return a number with as many digits as a float32 has."""
    return f"{number:.8g}" if isinstance(number, float) else repr(number)
