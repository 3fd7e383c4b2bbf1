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
    _check_names(named, {})
    relations: list[Relation] = []
    for name, given in named.items():
        relations += _mark(name, arguments[name], given)
    return relations


def _by_name(arguments: Mapping[str, Any], shapes: Shapes) -> Mapping[str, Any]:
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping | Sequence):
        raise _misfit(f"is a {type(shapes).__name__}")
    if not isinstance(shapes, Mapping):
        if len(shapes) > len(arguments):
            raise _misfit(f"has {len(shapes)} parts for {len(arguments)} arguments")
        return dict(zip(arguments, shapes, strict=False))  # keywords may be left out
    for name in shapes:
        if name not in arguments:
            raise _misfit(f"names {name!r}, and the arguments are {', '.join(arguments)}")
    return shapes


def _check_names(given: Any, known: dict[str, Dim]) -> None:
    """Check that one name of a `Dim` has one range; ``2 * Dim(name)`` may leave the limits out."""
    if isinstance(given, Mapping):
        given = [*given.values()]
    match given:
        case Dim():
            if known.setdefault(given.name, given) != given:
                raise ExportError(
                    f"dynamic_shapes has two ranges of one name: {known[given.name]} and {given}",
                    code="export",
                    fix=f"write {given.name} = Dim({given.name!r}, ...) once and use that object, "
                    "or give the second dimension another name",
                )
        case (int(), Dim(name)) if given[1] == Dim(name):
            pass
        case tuple() | list():
            for part in given:
                _check_names(part, known)


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
        if not isinstance(dimension, int) or not -tensor.dim() <= dimension < tensor.dim():
            raise _misfit(f"names dimension {dimension!r} of {name}, which has {tensor.dim()}")
        if isinstance(size, Dim):
            mark_dynamic(tensor, {dimension: size})
        elif isinstance(size, tuple):
            may_vary(tensor, dimension)
            yield Relation(tensor, dimension % tensor.dim(), *_product(name, dimension, size))
        elif size == Dim.AUTO:
            may_vary(tensor, dimension)
        elif size is not None:
            _require(name, tensor, dimension, size)


def _product(name: str, dimension: int, size: tuple[Any, ...]) -> tuple[int, Dim]:
    """Check that a tuple is what ``2 * Dim(...)`` gives."""
    match size:
        case (int(factor), Dim() as dim) if factor > 0:
            return factor, dim
    raise _misfit(f"says {size!r} of dimension {dimension} of {name}, not 2 * Dim(...)")


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
