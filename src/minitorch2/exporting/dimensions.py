"""The meaning of `dynamic_shapes`: which dimensions of which tensors may vary, and how.

    dynamic_shapes ::= {parameter: shapes} | [shapes, ...]       one for each argument
    shapes         ::= None | {dimension: size} | [size, ...]    of a tensor; None: nothing varies
                     | {key: shapes} | [shapes, ...]             of a dict, list or tuple of tensors
    size           ::= None | int | Dim | 2 * Dim | Dim.AUTO

A `Dim` must vary: a program that fixes it is refused. `Dim.AUTO` may vary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from minitorch2.errors import ExportError
from minitorch2.marks.dimensions import Dim, mark_dynamic, mark_static
from minitorch2.marks.dimensions import maybe_mark_dynamic as may_vary

Shapes: TypeAlias = Mapping[Any, Any] | Sequence[Any] | None


@dataclass(frozen=True)
class Relation:
    """The user's statement that a dimension of a tensor has ``factor * dim`` elements."""

    tensor: torch.Tensor
    dimension: int
    factor: int
    dim: Dim

    def __str__(self) -> str:
        return f"{self.factor} * {self.dim.name}"


def mark_inputs(arguments: Mapping[str, Any], shapes: Shapes) -> list[Relation]:
    """Mark the tensors among named arguments as `shapes` says; return the stated relations.

    Raises:
        ExportError: `shapes` has another structure than the arguments.
        ConfigError: a tensor has no such dimension, or one of another size.
    """
    for name, value in arguments.items():
        for _, tensor in _tensors(name, value):
            mark_static(tensor)
    named = _by_name(arguments, shapes)
    relations: list[Relation] = []
    for name, given in named.items():
        relations += _mark(name, arguments[name], given)
    return relations


def _by_name(arguments: Mapping[str, Any], shapes: Shapes) -> Mapping[str, Any]:
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        if len(shapes) > len(arguments):
            raise _misfit(f"has {len(shapes)} parts for {len(arguments)} arguments")
        return dict(zip(arguments, shapes, strict=False))  # keywords may be left out
    for name in shapes:
        if name not in arguments:
            raise _misfit(f"names {name!r}, and the arguments are {', '.join(arguments)}")
    return shapes


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(f"{name}[{key!r}]", part)
    elif isinstance(value, tuple | list):
        for index, part in enumerate(value):
            yield from _tensors(f"{name}[{index}]", part)


def _mark(name: str, value: Any, given: Any) -> Iterator[Relation]:
    if given is None:
        return
    if isinstance(value, torch.Tensor):
        yield from _mark_tensor(name, value, given)
    elif isinstance(value, Mapping) and isinstance(given, Mapping) and given.keys() <= value.keys():
        for key, part in given.items():
            yield from _mark(f"{name}[{key!r}]", value[key], part)
    elif isinstance(value, tuple | list) and isinstance(given, tuple | list):
        if len(value) != len(given):
            raise _misfit(f"has {len(given)} parts for {name}, which has {len(value)}")
        for index, part in enumerate(given):
            yield from _mark(f"{name}[{index}]", value[index], part)
    else:
        raise _misfit(f"says {given!r} of {name}, which is a {type(value).__name__}")


def _mark_tensor(name: str, tensor: torch.Tensor, given: Any) -> Iterator[Relation]:
    if not isinstance(given, Mapping):
        if not isinstance(given, tuple | list) or len(given) != tensor.dim():
            raise _misfit(f"says {given!r} of {name}, which has {tensor.dim()} dimensions")
        given = dict(enumerate(given))
    for dimension, size in given.items():
        if isinstance(size, Dim):
            mark_dynamic(tensor, {dimension: size})
        elif isinstance(size, tuple) or size == Dim.AUTO:
            may_vary(tensor, dimension)
            if isinstance(size, tuple):
                yield Relation(tensor, dimension % tensor.dim(), *size)
        elif size is not None:
            _require(name, tensor, dimension, size)


def _require(name: str, tensor: torch.Tensor, dimension: int, size: Any) -> None:
    """Check that a size is the number that the user has written for it."""
    if not isinstance(size, int) or tensor.shape[dimension] != size:
        raise _misfit(
            f"says {size!r} of dimension {dimension} of {name}, whose size is "
            f"{tensor.shape[dimension]}"
        )


def _misfit(cause: str) -> ExportError:
    return ExportError(
        f"dynamic_shapes {cause}",
        code="export",
        fix="give a dict by the names of parameters, such as {'x': {0: Dim('batch')}}",
    )
