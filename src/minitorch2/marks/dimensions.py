"""Marks on a tensor's dimensions: the user says which of them vary, and within which limits.

    mark_dynamic(x, 0, min=2, max=64)   must vary: a specialization of it is an error
    mark_dynamic(x, {0: batch})         must vary, and is the same wherever it is called `batch`
    maybe_mark_dynamic(x, 0)            may vary: a specialization of it is accepted
    mark_static(x, 0)                   never varies: each size is compiled
    mark_unbacked(x, 0)                 varies, and nothing may branch on its size

The mark is kept on the tensor object. PyTorch 2 paper, section 5.2 (``mark_dynamic(tensor, dim)``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import torch

from minitorch2.errors import ConfigError

MARKS: Final = "_minitorch2_dimensions"
"""The attribute of a tensor that holds its marks."""

Kind = Literal["dynamic", "maybe", "static", "unbacked", "ragged"]


@dataclass(frozen=True, slots=True)
class DimensionMark:
    """The user's mark on one dimension; ``low`` and ``high`` are the least and greatest size."""

    kind: Kind
    low: int | None = None
    high: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension with a name: ``batch = Dim("batch", max=64)``.

    All dimensions that are marked with one name have the same size. Compiled code must serve all
    sizes between the limits. A program that needs more, for example an even size, or the size of
    another dimension, is refused. The error says which `Dim` would do. `Dim.AUTO` may vary.

    Raises:
        ConfigError: the name is not an identifier, or symbols have it (``s0``), or the limits are
            not at least 2.
    """

    AUTO: ClassVar[str] = "auto"
    name: str
    min: int = 2
    max: float = math.inf

    def __rmul__(self, factor: int) -> tuple[int, Dim]:
        return factor, self

    def __post_init__(self) -> None:
        if type(self.name) is not str or not re.fullmatch(r"(?![sfu]\d+$)[^\W\d]\w*", self.name):
            raise ConfigError(f"{self.name!r} is no name of a dimension", fix="use a word")
        if {type(self.min), type(self.max)} - {int, float} or not 2 <= self.min <= self.max:
            raise ConfigError(f"{self.min!r} .. {self.max!r} are no limits: 2 .. 64 are")


def mark_dynamic(
    tensor: torch.Tensor,
    dim: int | Sequence[int] | Mapping[int, Dim],
    *,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Say that the size of a dimension varies: its first compilation serves all sizes.

    Args:
        dim: a dimension, or several; or a name for each, as a `Dim`, which has limits of its own.
        min: the least size to serve, at least 2 (the default): 0 and 1 are compiled apart.
        max: the greatest size to serve; none by default.

    If the program fixes the size all the same, compiling it raises `DynamicSizeError` with the
    chain of reasons.

    Raises:
        ConfigError: the tensor has no such dimension, or its size is not between the limits.
    """
    if isinstance(dim, Mapping):
        for d, named in dim.items():
            _mark_dynamic(tensor, d, DimensionMark("dynamic", named.min, named.max, named.name))
    else:
        for d in dim if isinstance(dim, Sequence) else [dim]:
            _mark_dynamic(tensor, d, DimensionMark("dynamic", min, max))


def _mark_dynamic(tensor: torch.Tensor, dim: int, mark: DimensionMark) -> None:
    (d,) = _dimensions(tensor, dim)
    size, low, high = tensor.shape[d], mark.low or 2, mark.high or math.inf
    if not (2 <= low <= size <= high):
        limits = f"{low} .. {high}" if high < math.inf else f"from {low} on"
        raise ConfigError(
            f"dimension {d} has size {size}, and mark_dynamic serves sizes {limits}",
            code="marked-size",
            fix="mark a tensor of another size, or give other limits (at least 2)",
        )
    _mark(tensor, d, mark)


ShapesSpec = Mapping[str, int | Sequence[int] | Mapping[int, Dim]]
"""By the name of a parameter: the dimensions that vary, as `mark_dynamic` takes them."""


def mark_arguments(arguments: Mapping[str, object], spec: ShapesSpec) -> None:
    """Mark the tensors of a call; sizes that a mark does not serve are compiled apart.

    Raises:
        ConfigError: there is no such parameter, its value is no tensor or has no such dimension.
    """
    for name, dims in spec.items():
        tensor = arguments.get(name)
        if not isinstance(tensor, torch.Tensor):
            given = f"is {tensor!r}, not a tensor" if name in arguments else "is no parameter"
            raise ConfigError(f"shapes_spec names {name!r}, which {given}", code="shapes-spec")
        named: Mapping[int, Dim | None] = dims if isinstance(dims, Mapping) else {}
        chosen = [dims] if isinstance(dims, int) else list(dims)
        for dim, d in zip(chosen, _dimensions(tensor, chosen), strict=True):
            limits = named.get(dim)
            low, high = (limits.min, limits.max) if limits else (2, math.inf)
            if low <= tensor.shape[d] <= high:
                mark_dynamic(tensor, {d: limits} if limits else d)


def maybe_mark_dynamic(tensor: torch.Tensor, dim: int | Sequence[int]) -> None:
    """Say that the size of a dimension varies, if the program lets it.

    Raises:
        ConfigError: the tensor has no such dimension.
    """
    for d in _dimensions(tensor, dim):
        _mark(tensor, d, DimensionMark("maybe"))


def mark_static(tensor: torch.Tensor, dim: int | Sequence[int] | None = None) -> None:
    """Say that the size of a dimension (by default: of all) is compiled as a constant.

    Raises:
        ConfigError: the tensor has no such dimension.
    """
    for d in _dimensions(tensor, range(tensor.dim()) if dim is None else dim):
        _mark(tensor, d, DimensionMark("static"))


def mark_unbacked(
    tensor: torch.Tensor,
    dim: int | Sequence[int],
    *,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Say that nothing may depend on the size of a dimension, not even whether it is 0 or 1.

    Raises:
        ConfigError: the tensor has no such dimension.
    """
    for d in _dimensions(tensor, dim):
        _mark(tensor, d, DimensionMark("unbacked", min, max))


def marks_of(tensor: torch.Tensor) -> dict[int, DimensionMark]:
    """Return the user's mark on each marked dimension."""
    return dict(tensor.__dict__.get(MARKS, {}))


def _mark(tensor: torch.Tensor, dim: int, mark: DimensionMark) -> None:
    setattr(tensor, MARKS, {**marks_of(tensor), dim: mark})


def _dimensions(tensor: torch.Tensor, dim: int | Sequence[int]) -> list[int]:
    dims = [dim] if isinstance(dim, int) else list(dim)
    rank = tensor.dim()
    for d in dims:
        if not -rank <= d < rank:
            raise ConfigError(
                f"a tensor of {rank} dimensions has no dimension {d}", code="no-such-dimension"
            )
    return [d % rank for d in dims]
