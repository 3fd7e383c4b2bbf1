"""Values during the printing of a Triton kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from minitorch2.errors import LoweringError
from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.ops import Number

Dimension = Literal["x", "y", "r", "k", "t"]
Dimensions = frozenset[Dimension]
"""Along which dimensions of the block a value varies: `x` and `y` (what is kept), `r` (reduced).
In a template, `k` is what is summed where it is the first dimension of a block, and `t` says that a
value is a number, another one in each step of the loop."""

EVERYWHERE: Dimensions = frozenset()
X: Dimensions = frozenset(("x",))
Y: Dimensions = frozenset(("y",))
R: Dimensions = frozenset(("r",))
K: Dimensions = frozenset(("k",))
T: Dimensions = frozenset(("t",))
IN_LOOP: Dimensions = R | K | T
"""What varies along any of these is not known before the loop."""

TRITON_POINTERS = {
    torch.bool: "*i1",
    torch.uint8: "*u8",
    torch.int8: "*i8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}
"""Triton's types of pointers to elements of each dtype."""
_LITERAL_DTYPES = (torch.float32, torch.int32, torch.int64)


def triton_dtype(dtype: torch.dtype) -> str:
    """Return the name of a dtype in Triton.

    Raises:
        LoweringError: Triton has no such dtype.
    """
    if dtype not in TRITON_POINTERS:
        raise LoweringError(f"Triton kernels have no {dtype}", code="triton-dtype")
    return "tl.int1" if dtype == torch.bool else str(dtype).replace("torch", "tl")


@dataclass(frozen=True)
class Value:
    """A local variable of the kernel, or a constant, of compute dtype `dtype`.

    `element` is the variable with the 16-bit float that the value is in memory, if there is one.
    `index` is what the value is of the indices, if it is nothing else and fits 32 bits.
    """

    text: str
    dtype: torch.dtype
    dims: Dimensions = EVERYWHERE
    number: Number | None = None
    element: Value | None = None
    index: Expr | None = None

    @property
    def operand(self) -> str:
        """The text next to an operator whose other operand has the dtype already."""
        if self.number is not None and self.dtype in _LITERAL_DTYPES and is_plain(self.number):
            return number_text(self.number, self.dtype)
        return self.text


def is_plain(number: Number) -> bool:
    """Return whether Python's literal is exactly the number, whatever the operator does with it."""
    is_small = -(2**31) <= number < 2**31
    return is_small if isinstance(number, int) else math.isfinite(number) and str(number) != "-0.0"


def number_text(number: Number, dtype: torch.dtype) -> str:
    """Return a Python literal, of the kind of `dtype`."""
    if dtype == torch.bool:
        return str(bool(number))
    if not dtype.is_floating_point:
        return str(int(number))
    text = repr(float(number))
    return text if math.isfinite(number) else f"float('{text}')"


def constant(number: Number, dtype: torch.dtype) -> Value:
    """Return a constant: typed where it stands alone, a literal beside an operator."""
    text = f"tl.full([], {number_text(number, dtype)}, {triton_dtype(dtype)})"
    if dtype.is_floating_point and str(number) == "-0.0":  # Triton before 3.7 writes 0.0 for it
        text = f"(tl.full([], -1.0, {triton_dtype(dtype)}) * 0.0)"
    return Value(text, dtype, EVERYWHERE, number)


def join(*values: Value) -> Dimensions:
    """Return the dimensions along which something computed from `values` varies."""
    return frozenset[Dimension]().union(*(value.dims for value in values))
