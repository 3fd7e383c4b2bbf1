"""The names that the text of a kernel may use, besides Python's own operators.

`exp`, `log`... choose the vectorized function for their argument's type, or the C library's.
"""

from __future__ import annotations

from typing import Any

from numba import types

from minitorch2.codegen.numba import primitives, transpose, vecmath_real  # noqa: F401  (its functions)
from minitorch2.codegen.numba.library import VERSIONS, call_symbol

_FLOATS = (types.float32, types.float64)

LIBM = dict.fromkeys(
    [
        "exp",
        "expm1",
        "exp2",
        "log",
        "log2",
        "log10",
        "log1p",
        "tanh",
        "erf",
        "sin",
        "cos",
        "tan",
        "acos",
        "asin",
        "atan",
        "sinh",
        "cosh",
        "acosh",
        "asinh",
        "atanh",
        "erfc",
        "lgamma",
    ],
    1,
) | {"pow": 2, "atan2": 2, "fmod": 2}
"""Functions of the C math library, with their number of arguments."""


def _versions(name: str, arity: int) -> dict[Any, Any]:
    """For float32 and float64: the symbol to call and its signature."""
    versions = {}
    for kind in _FLOATS if name in LIBM else ():
        symbol = f"{name}f" if kind is types.float32 else name
        versions[(kind,) * arity] = (symbol, kind(*[kind] * arity))
    return versions | VERSIONS.get(name, {})


def _functions() -> dict[str, Any]:
    names = sorted(LIBM.keys() | {"sigmoid", "rsqrt"})
    return {
        name: call_symbol(_versions(name, LIBM.get(name, 1)), LIBM.get(name, 1)) for name in names
    }


_PRIMITIVES = [
    "floor",
    "ceil",
    "trunc",
    "round_even",
    "sqrt",
    "absolute",
    "copysign",
    "maximum",
    "minimum",
    "add_any_order",
    "multiply_any_order",
    "where",
    "truncdiv",
    "remainder",
    "bits",
    "from_bits",
    "rank_nan_last",
    "rank_nan_first",
    "from_rank",
    "from_float16",
    "to_float16",
    "from_bfloat16",
    "to_bfloat16",
    "local_array",
]
_TYPES = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "boolean",
]

VOCABULARY: dict[str, Any] = {
    **_functions(),
    **{name: getattr(primitives, name) for name in _PRIMITIVES},
    **{name: getattr(types, name) for name in _TYPES},
    "copy_transposed": transpose.copy_transposed,
    "abs": abs,
    "min": primitives.smaller,
    "max": primitives.larger,
    "inf": float("inf"),
    "nan": float("nan"),
}
