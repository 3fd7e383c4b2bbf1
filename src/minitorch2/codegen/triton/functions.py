"""Elementwise primitives as Triton expressions: one table.

Math functions are those of CUDA's libdevice where Triton's own are fast approximations (`tl.exp`
loses digits for large arguments, `tl.log` near 1, `/` rounds differently from eager).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import torch

from minitorch2.codegen.triton.values import Value
from minitorch2.loopir.ops import ELEMENTWISE

Printer = Callable[..., str]

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "logical_and": "&", "logical_or": "|", "logical_xor": "^", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "lshift": "<<", "rshift": ">>", "truncdiv": "//",
}  # fmt: skip
"""Triton's operators; on integers `//` rounds towards zero, as in C."""

_LIBDEVICE = {name: name for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "rsqrt",
    "trunc", "copysign",
)} | {"round": "rint"}  # fmt: skip

_TRITON = ("sin", "cos", "floor", "ceil", "abs")
_LIBRARY = ("sign", "sigmoid", "mod", "floordiv")


def _infix(symbol: str) -> Printer:
    def show(x: Value, y: Value) -> str:
        if x.number is not None and y.number is not None:
            return f"{x.text} {symbol} {y.text}"
        return f"{x.operand} {symbol} {y.operand}"

    return show


def _call(function: str) -> Printer:
    return lambda *args: f"{function}({', '.join(value.text for value in args)})"


def _truediv(x: Value, y: Value) -> str:
    if x.dtype == torch.float32:  # a literal is float32 there
        return f"tl.div_rn({x.operand}, {y.operand})"
    return _infix("/")(x, y)


def _sqrt(x: Value) -> str:
    return f"tl.sqrt_rn({x.text})" if x.dtype == torch.float32 else f"tl.sqrt({x.text})"


def _fmod(x: Value, y: Value) -> str:
    return _call("libdevice.fmod")(x, y) if x.dtype.is_floating_point else _infix("%")(x, y)


def _extremum(name: str, of_bools: str) -> Printer:
    def show(x: Value, y: Value) -> str:
        return (_infix(of_bools) if x.dtype == torch.bool else _call(f"lib.{name}"))(x, y)

    return show


def _neg(x: Value) -> str:
    if x.dtype.is_floating_point:
        return f"{x.operand} * -1.0"  # Triton before 3.7 computes 0 - x: the sign of zero is lost
    return f"-{x.text}" if x.dtype.is_signed else f"0 - {x.text}"


_SPECIAL: dict[str, Printer] = {
    "truediv": _truediv,
    "sqrt": _sqrt,
    "fmod": _fmod,
    "maximum": _extremum("maximum", "|"),
    "minimum": _extremum("minimum", "&"),
    "neg": _neg,
    "where": _call("tl.where"),
    "isnan": lambda x: f"{x.text} != {x.text}",
    "isinf": lambda x: f"tl.abs({x.text}) == float('inf')",
    "signbit": lambda x: f"libdevice.signbit({x.text}) != 0",
    "logical_not": lambda x: f"{x.text} == 0",
    "bitwise_not": lambda x: f"~{x.text}",
}

FUNCTIONS: dict[str, Printer] = (
    {name: _infix(symbol) for name, symbol in _INFIX.items()}
    | {name: _call(f"libdevice.{target}") for name, target in _LIBDEVICE.items()}
    | {name: _call(f"tl.{name}") for name in _TRITON}
    | {name: _call(f"lib.{name}") for name in _LIBRARY}
    | _SPECIAL
)
"""Every elementwise primitive, by name."""

DECIDED: Mapping[str, Callable[..., bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
} | {"logical_and": operator.and_, "logical_or": operator.or_}
"""Questions whose answer is known where the operands are numbers."""

assert set(FUNCTIONS) == set(ELEMENTWISE), set(FUNCTIONS) ^ set(ELEMENTWISE)
