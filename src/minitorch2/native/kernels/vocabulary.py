"""The meaning in machine code of the names that a kernel may use.

`exp`, `log`... choose the vectorized function for their argument's type, or the C library's.
"""

from __future__ import annotations

from typing import Any

from numba import types

from minitorch2.native.kernel_library import division, powers, primitives, transpose, vecmath_real  # noqa: F401  (its functions)
from minitorch2.native.kernel_library.library import VERSIONS, OnCall, call_symbol
from minitorch2.native.kernels.names import DIVISIONS, ELEMENTARY, LIBM, NAMES, PRIMITIVES, TYPES

_FLOATS = (types.float32, types.float64)


def _versions(name: str, arity: int) -> dict[Any, Any]:
    """Return, for float32 and float64, the symbol to call and its signature."""
    versions = {}
    for kind in _FLOATS if name in LIBM else ():
        symbol = f"{name}f" if kind is types.float32 else name
        versions[(kind,) * arity] = (symbol, kind(*[kind] * arity))
    return versions | VERSIONS.get(name, {})


def elementary_functions(on_call: OnCall | None = None) -> dict[str, Any]:
    """Return the elementary functions by their names; see `call_symbol`."""
    arities = {name: LIBM.get(name, 1) for name in ELEMENTARY}
    return {name: call_symbol(_versions(name, n), n, on_call) for name, n in arities.items()}


VOCABULARY: dict[str, Any] = {
    **elementary_functions(),
    **{name: getattr(primitives, name) for name in PRIMITIVES},
    **{name: getattr(division, name) for name in DIVISIONS},
    **{name: getattr(types, name) for name in TYPES},
    "copy_transposed": transpose.copy_transposed,
    "abs": abs,
    "min": primitives.smaller,
    "max": primitives.larger,
    "inf": float("inf"),
    "nan": float("nan"),
}

assert VOCABULARY.keys() == NAMES, VOCABULARY.keys() ^ NAMES
