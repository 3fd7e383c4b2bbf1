"""The handler that returns None everywhere: a base for analyses of a body's effects."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import sympy

from minitorch2.loopir.expressions import Expr, index_symbol
from minitorch2.loopir.ops import Number, OpsHandler

INDIRECT_PREFIX = "indirect"
"""Symbols of computed indices are called `indirect0`, `indirect1`, ..."""


def _nothing(primitive: Callable[..., Any]) -> Callable[..., None]:
    """Return a method with a primitive's signature that returns no value."""

    @wraps(primitive)
    def nothing(self: EffectHandler, *_: object, **__: object) -> None:
        self.note(primitive.__name__)

    return nothing


class EffectHandler(OpsHandler[None]):
    """Every value is None. Subclasses override the primitives whose effect they look for."""

    def __init__(self) -> None:
        self.indirect: list[sympy.Symbol] = []

    def note(self, primitive: str) -> None:
        """See that a primitive without a method of the subclass is called."""

    load = _nothing(OpsHandler.load)
    store = _nothing(OpsHandler.store)
    reduction = _nothing(OpsHandler.reduction)
    scan = _nothing(OpsHandler.scan)
    constant = _nothing(OpsHandler.constant)
    index_expr = _nothing(OpsHandler.index_expr)
    to_dtype = _nothing(OpsHandler.to_dtype)
    to_dtype_bitcast = _nothing(OpsHandler.to_dtype_bitcast)
    elementwise = _nothing(OpsHandler.elementwise)

    def store_reduction(self, name: str, index: Expr, value: None) -> None:
        """A reduction's store has the effect of any store."""
        self.store(name, index, value)

    def indirect_indexing(
        self, value: None, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Return a fresh symbol."""
        self.indirect.append(index_symbol(f"{INDIRECT_PREFIX}{len(self.indirect)}"))
        return self.indirect[-1]

    def masked(self, mask: None, body: Callable[[], None], other: Number) -> None:
        """The effects of the body, which may happen."""
        body()
