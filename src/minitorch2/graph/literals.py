"""Plain values as Python text that evaluates to them."""

from __future__ import annotations

import cmath
from typing import Any, Final

_EXACT: Final = (bool, int, float, complex, str, bytes, type(None), type(...))


def is_literal(value: object) -> bool:
    """Return whether `literal` can write a value."""
    return type(value) in _EXACT


def literal(value: Any) -> str:
    """Return a number, a string, None or ... as text: ``0.5``, ``float('inf')``.

    >>> literal(float("nan")), literal(complex(0.0, float("inf"))), literal(...)
    ("float('nan')", "complex('infj')", '...')
    """
    if value is ...:
        return "..."
    if isinstance(value, complex):  # (-0+1j), as repr writes it, is another number
        return f"complex('{str(value).strip('()')}')"
    if isinstance(value, float) and not cmath.isfinite(value):
        return f"float('{value}')"
    return repr(value)
