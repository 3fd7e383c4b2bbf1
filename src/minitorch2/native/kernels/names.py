"""The names that the text of a kernel may use, besides Python's own operators.

Their meaning is defined twice: in machine code by `vocabulary`, in Python by `stepping`. The code
generators need the names only, so they do not import Numba, which takes a third of a second.
"""

from __future__ import annotations

LIBM = dict.fromkeys(
    (
        "exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "tanh", "erf", "sin", "cos", "tan",
        "acos", "asin", "atan", "sinh", "cosh", "acosh", "asinh", "atanh", "erfc", "lgamma",
    ),
    1,
) | {"pow": 2, "atan2": 2, "fmod": 2}  # fmt: skip
"""Functions of the C math library, with their number of arguments."""

ELEMENTARY = (*sorted(LIBM), "rsqrt", "sigmoid")
"""Functions of floats: the vectorized one for the argument's type, or the C library's."""

PRIMITIVES = (
    "floor", "ceil", "trunc", "round_even", "sqrt", "absolute", "copysign", "maximum", "minimum",
    "maximum_any_order", "minimum_any_order", "add_any_order", "multiply_any_order", "where",
    "lshift", "rshift", "bits", "from_bits", "rank_nan_last", "rank_nan_first", "from_rank",
    "from_float16", "to_float16", "from_bfloat16", "to_bfloat16", "cut_bfloat16", "local_array",
)  # fmt: skip

DIVISIONS = ("truncdiv", "remainder", "floordiv", "mod")
"""Quotients and rests of integers."""

TYPES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "boolean",
)  # fmt: skip
"""Types, which as functions convert to themselves."""

_OTHERS = ("copy_transposed", "abs", "min", "max", "inf", "nan")
NAMES = frozenset((*ELEMENTARY, *PRIMITIVES, *DIVISIONS, *TYPES, *_OTHERS))
