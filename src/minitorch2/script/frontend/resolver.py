"""Names that a function does not set itself, as Python objects (TorchScript overview, Resolver).

The emitter asks a resolver, so it works without the caller's Python as well: then only builtins
and the objects of a table are known.
"""

from __future__ import annotations

import builtins
import math
import operator
import typing
from collections.abc import Mapping
from types import CellType, FunctionType
from typing import Any, Final

import torch

from minitorch2.script.ir.python_constants import Reader, is_of_library

MISSING: Final = object()
"""The answer of a resolver that does not know a name."""

TEXT_NAMES: Final[Mapping[str, Any]] = {
    "torch": torch,
    "math": math,
    "Tensor": torch.Tensor,
    "Device": torch.device,
    "Generator": torch.Generator,
    **{name: getattr(typing, name) for name in ("List", "Dict", "Tuple", "Optional", "Any")},
    "Union": typing.Union,
    "NamedTuple": typing.NamedTuple,
    "inf": math.inf,
    "nan": math.nan,
}
"""The names that text without a Python module around it may use, besides Python's builtins."""


class Resolver:
    """Names of one function: its closure, then its globals, then Python's builtins.

    Args:
        tables: names and their objects, the closure's before the globals.
        cells: variables of the function's closure; None if no name may change.
    """

    def __init__(
        self, *tables: Mapping[str, Any], cells: Mapping[str, CellType] | None = None
    ) -> None:
        self.tables = (*tables, vars(builtins))
        self._cells = cells

    def source(self, name: str) -> tuple[Any, Reader, str] | None:
        """Return how to read a name that may change: an owner, a reader, a key; None of others."""
        if self._cells is None:
            return None
        if name in self._cells:
            return self._cells[name], getattr, "cell_contents"
        names = self.tables[-2]
        return names, operator.getitem if name in names else operator.contains, name

    def resolve(self, name: str) -> Any:
        """Return the object of a name, or `MISSING`."""
        for table in self.tables:
            if name in table:
                return table[name]
        return MISSING

    def names(self) -> set[str]:
        """Every name that can be resolved: errors suggest the nearest."""
        return {name for table in self.tables for name in table}


def resolver_of(function: FunctionType, further: Mapping[str, Any] | None = None) -> Resolver:
    """Return the resolver of a Python function's free names, and of further ones."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells = {name: cell for name, cell in cells.items() if _is_set(cell)}
    closure = {name: cell.cell_contents for name, cell in cells.items()} | dict(further or {})
    fixed = is_of_library(function)
    return Resolver(closure, function.__globals__, cells=None if fixed else cells)


def text_resolver(objects: Mapping[str, Any] | None = None) -> Resolver:
    """Return the resolver of text that stands alone: builtins, torch, typing forms, `objects`."""
    return Resolver(objects or {}, TEXT_NAMES)


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
