"""Elementwise primitives as Python text in Numba's subset.

Numba promotes as NumPy does: `int32 + int32` is int64, `float32 * 0.5` is float64. Operands here
have one dtype, and a result narrower than int64 is cast back, so arithmetic wraps at its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch

from minitorch2.errors import LoweringError
from minitorch2.loopir.ops import PREDICATES
from minitorch2.native.kernels.names import NAMES

NUMBA_TYPE = {
    torch.float32: "float32", torch.float64: "float64", torch.bool: "boolean",
    torch.int8: "int8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
    torch.uint8: "uint8", torch.uint16: "uint16", torch.uint32: "uint32", torch.uint64: "uint64",
}  # fmt: skip
"""The type of a value in a kernel by its compute dtype."""

MEMORY_TYPE = NUMBA_TYPE | {
    torch.bool: "uint8", torch.float16: "uint16", torch.bfloat16: "uint16",
}  # fmt: skip
"""The element type of a pointer by the buffer's dtype."""

_CONVERTED_FIRST = dict.fromkeys((torch.int8, torch.int16, torch.uint8, torch.uint16), "int32") | {
    torch.uint32: "int64", torch.uint64: "int64",
}  # fmt: skip
"""What a float is made before it is an integer of fewer bits: eager wraps what does not fit."""

_LOAD = {
    torch.bool: "({} != 0)", torch.float16: "from_float16({})", torch.bfloat16: "from_bfloat16({})",
}  # fmt: skip
_STORE = {
    torch.bool: "uint8({})", torch.float16: "to_float16({})", torch.bfloat16: "to_bfloat16({})",
}  # fmt: skip

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "logical_and": "&", "logical_or": "|", "logical_xor": "^",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
_FLOAT_FORMS = {
    "neg": "-{0}", "abs": "absolute({0})", "maximum": "maximum({0}, {1})",
    "minimum": "minimum({0}, {1})", "round": "round_even({0})", "isnan": "{0} != {0}",
    "isinf": "absolute({0}) == {dtype}(inf)", "signbit": "bits({0}) < 0",
    "sign": "{dtype}({0} > 0) - {dtype}({0} < 0)",
}  # fmt: skip
_BFLOAT_FORMS = {
    "neg": "from_bits(int32(bits({0}) ^ int32(-2147483648)))",
    "abs": "from_bits(int32(bits({0}) & int32(2147483647)))",
}
"""Of bfloat16 in float32, said so that LLVM changes a bit of the 16 and converts nothing."""
_INTEGER_FORMS = {
    "neg": "-{0}", "abs": "abs({0})", "maximum": "max({0}, {1})", "minimum": "min({0}, {1})",
    "sign": "{dtype}({0} > 0) - {dtype}({0} < 0)", "bitwise_not": "~{0}",
    "truncdiv": "truncdiv({0}, {1})", "fmod": "remainder({0}, {1})", "isnan": "False",
    "isinf": "False", "signbit": "{0} < 0",
}  # fmt: skip
_BOOL_FORMS = {
    "logical_not": "not {0}", "maximum": "{0} | {1}", "minimum": "{0} & {1}",
    "bitwise_not": "not {0}", "abs": "{0}",
}  # fmt: skip


def constant(value: bool | int | float, dtype: torch.dtype) -> str:
    """Return a literal of a compute dtype."""
    if dtype == torch.bool:
        return repr(bool(value))
    if not dtype.is_floating_point:
        return f"{NUMBA_TYPE[dtype]}({int(value)})"
    number = float(value)
    text = repr(number) if math.isfinite(number) else str(number)
    return f"{NUMBA_TYPE[dtype]}({text})"


def load(dtype: torch.dtype, place: str) -> str:
    """Return a memory element as a value."""
    return _LOAD.get(dtype, "{}").format(place)


def store(dtype: torch.dtype, value: str, *, is_exact: bool = False) -> str:
    """Return a value as a memory element; `is_exact` if it is a number of that dtype already."""
    if is_exact and dtype == torch.bfloat16:
        return f"cut_bfloat16({value})"
    return _STORE.get(dtype, "{}").format(value)


def convert(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """Convert a value from one compute dtype to another (16-bit floats: rounded float32)."""
    if source == target:
        return text
    if target == torch.bool:
        return f"({text} != 0)"
    if target in (torch.float16, torch.bfloat16):
        short = "float16" if target == torch.float16 else "bfloat16"
        return f"from_{short}(to_{short}({convert(text, source, torch.float32)}))"
    if source.is_floating_point and target in _CONVERTED_FIRST:
        text = f"{_CONVERTED_FIRST[target]}({text})"
    return f"{NUMBA_TYPE[target]}({text})"


def bitcast(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """Return the same bits as another dtype of this width; 16-bit floats have patterns instead."""
    if source == target:
        return text
    if source.is_floating_point:
        return f"{NUMBA_TYPE[target]}(bits({text}))"
    if target.is_floating_point:
        signed = {"float32": "int32", "float64": "int64"}[NUMBA_TYPE[target]]
        return f"from_bits({signed}({text}))"
    return f"{NUMBA_TYPE[target]}({text})"


@lru_cache(1024)
def pattern(value: bool | int | float, dtype: torch.dtype) -> str | None:
    """Return the memory element of a 16-bit float that is exactly this number; None if none is."""
    short = torch.tensor(value, dtype=dtype)
    bits = int(short.view(torch.int16).item()) & 0xFFFF
    return f"uint16({bits})" if short.item() == value else None


def result_dtype(name: str, dtypes: list[torch.dtype]) -> torch.dtype:
    """Return the compute dtype of an elementwise primitive's result."""
    return torch.bool if name in PREDICATES else dtypes[1 if name == "where" else 0]


def elementwise(name: str, args: list[str], dtype: torch.dtype, *, of_bfloats: bool = False) -> str:
    """Return the text of an elementwise primitive on operands of `dtype`.

    `of_bfloats`: the operands are float32 that are numbers of bfloat16.

    Raises:
        LoweringError: no kernel computes this primitive for this dtype.
    """
    if name == "where":
        return f"where({', '.join(args)})"
    forms = _FLOAT_FORMS | _BFLOAT_FORMS if of_bfloats else _forms(dtype)
    form = forms.get(name) or _general_form(name, len(args))
    if form is None:
        raise LoweringError(f"no kernel computes {name} of {dtype}")
    text = form.format(*args, dtype=NUMBA_TYPE[dtype])
    return _wrapped(name, text, dtype)


def _forms(dtype: torch.dtype) -> dict[str, str]:
    if dtype.is_floating_point:
        return _FLOAT_FORMS
    return _BOOL_FORMS if dtype == torch.bool else _INTEGER_FORMS


def _general_form(name: str, arity: int) -> str | None:
    if name in _INFIX:
        return f"{{0}} {_INFIX[name]} {{1}}"
    if name in NAMES:
        return f"{name}({', '.join(f'{{{i}}}' for i in range(arity))})"
    return None


def _wrapped(name: str, text: str, dtype: torch.dtype) -> str:
    is_narrow = not dtype.is_floating_point and dtype not in (torch.int64, torch.bool)
    return f"{NUMBA_TYPE[dtype]}({text})" if is_narrow and name not in PREDICATES else text


# -- reductions ------------------------------------------------------------------------------------


def neutral(kind: str, dtype: torch.dtype) -> bool | int | float:
    """Return the value that a reduction starts from."""
    if kind in ("sum", "xor_sum", "any"):
        return False if dtype == torch.bool else 0
    if kind == "prod":
        return 1
    lowest = kind in ("max", "argmax")
    if dtype.is_floating_point:
        return -math.inf if lowest else math.inf
    if dtype == torch.bool:
        return not lowest
    limits = torch.iinfo(dtype)
    return limits.min if lowest else limits.max


_COMBINE: dict[str, Callable[[torch.dtype], str]] = {
    "sum": lambda d: "add_any_order({0}, {1})" if d.is_floating_point else "{0} + {1}",
    "prod": lambda d: "multiply_any_order({0}, {1})" if d.is_floating_point else "{0} * {1}",
    "max": lambda d: elementwise("maximum", ["{0}", "{1}"], d),
    "min": lambda d: elementwise("minimum", ["{0}", "{1}"], d),
    "any": lambda d: "{0} | {1}",
    "xor_sum": lambda d: "{0} ^ {1}",
}


def combine(kind: str, accumulator: str, value: str, dtype: torch.dtype) -> str:
    """Return one step of a reduction whose accumulator has `dtype`."""
    text = _COMBINE[kind](dtype).format(accumulator, value)
    return _wrapped(kind, text, dtype)
