"""Python functions of operators on numbers, strings, lists and dictionaries.

PyTorch publishes their schemas, but cannot be called with them where a type variable stands, and a
call through its stack costs ten times as much. A function serves all overloads of a kind that take
no tensor, unless an overload has one of its own.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch

from minitorch2.script.ir.dtype_numbers import numbered

Function: TypeAlias = Callable[..., Any]


# -- lists and dictionaries ---------------------------------------------------------------------


def append(self: list[Any], element: Any) -> list[Any]:
    """Append an element in place, and return the list."""
    self.append(element)
    return self


def set_item(self: list[Any], index: int, element: Any) -> list[Any]:
    """Replace an element in place, and return the list."""
    self[index] = element
    return self


def take_slice(self: Any, start: int | None, end: int | None, step: int) -> Any:
    """Return a part of a list or a string."""
    return self[start:end:step]


def get_default(self: dict[Any, Any], key: Any, default: Any = None) -> Any:
    """Return the value of a key, or the default."""
    return self.get(key, default)


def derive_index(index: int, start: int, step: int) -> int:
    """Return an element of a range."""
    return start + index * step


# -- numbers ------------------------------------------------------------------------------------


def real_power(a: float, b: float) -> float:
    """Return a power of real numbers as a real number."""
    return math.pow(a, b)


def any_power(a: Any, b: Any) -> Any:
    """Return a power of numbers, at least one of them complex."""
    return a**b


def least_real(a: float, b: float) -> float:
    """Return the lesser of an int and a float, as a float."""
    return float(min(a, b))


def greatest_real(a: float, b: float) -> float:
    """Return the greater of an int and a float, as a float."""
    return float(max(a, b))


def number_function(name: str) -> Function:
    """Return a function of `math` that takes complex numbers by `cmath`."""
    real, of_complex = getattr(math, name), getattr(cmath, name, None)
    if of_complex is None:
        return real  # type: ignore[no-any-return]  # a function of math

    def call(*numbers: Any) -> Any:
        is_complex = any(isinstance(number, complex) for number in numbers)
        return (of_complex if is_complex else real)(*numbers)

    return call


def angle(a: complex) -> float:
    """Return the angle of a number in radians; that of a NaN is NaN."""
    return a if isinstance(a, float) and math.isnan(a) else cmath.phase(a)


def polar(length: float, angle: float) -> complex:
    """Return the complex number of a length and an angle in radians."""
    return cmath.rect(length, angle)


def round_number(a: float) -> float:
    """Round to the nearest whole number, halves to the even one."""
    return float(round(a)) if math.isfinite(a) else a


# -- strings ------------------------------------------------------------------------------------


def _end(text: str, end: int) -> int:
    """Return the end of a part; -1 is the end of the text, as the schemas' default has it."""
    return end if end >= 0 else len(text) + end + 1


def searching(name: str) -> Function:
    """Return a method of `str` that takes a part of the text, with -1 for the end."""
    method = getattr(str, name)
    return lambda self, part, start, end: method(self, part, start, _end(self, end))


def join(self: str, values: list[str]) -> str:
    """Join strings."""
    return self.join(values)


def list_of(value: Any) -> list[Any]:
    """Return a list of the elements."""
    return list(value)


def find_in(values: list[Any], element: Any) -> int:
    """Return the first position of an element in a list."""
    return values.index(element)


def percent_format(self: str, given: object) -> str:
    """Format a value, or the elements of a tuple, by `%`."""
    return self % given


def warn(message: str, stacklevel: int) -> None:
    """Warn the user."""
    warnings.warn(message, stacklevel=stacklevel + 1)


# -- tensors from lists -------------------------------------------------------------------------


def make_tensor(
    data: Any, dtype: torch.dtype | None, device: torch.device | None, requires_grad: bool = False
) -> torch.Tensor:
    """Make a tensor of numbers, on the CPU by default: scripts know of no default device."""
    device = device or getattr(data, "device", torch.device("cpu"))
    return torch.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


def tensor_of_number(number: complex) -> torch.Tensor:
    """Make a tensor of one number, on the CPU."""
    return make_tensor(number, None, None)


# -- the tables ---------------------------------------------------------------------------------

MATHEMATICAL_NAMES: Final = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp expm1 "
    "factorial floor fmod frexp gamma gcd isfinite isinf isnan ldexp lgamma log log10 log1p "
    "modf radians sin sinh sqrt tan tanh"
)
STRING_METHODS: Final = (
    "upper lower capitalize title swapcase strip lstrip rstrip replace expandtabs zfill "
    "center ljust rjust partition rpartition splitlines isalnum isalpha isdecimal isdigit "
    "isidentifier islower isnumeric isprintable isspace istitle isupper"
)
TENSOR_FLAGS: Final = "is_nested is_cuda is_cpu is_meta is_sparse is_quantized is_mkldnn is_leaf"

ARITHMETIC: Final[dict[str, Function]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::div": operator.truediv,
    "aten::floordiv": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::pow": real_power,
    "aten::neg": operator.neg,
    "aten::divmod": divmod,
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::__not__": operator.not_,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__xor__": operator.xor,
    "aten::__lshift__": operator.lshift,
    "aten::__rshift__": operator.rshift,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::round": round_number,
    "aten::angle": angle,
    "aten::polar": polar,
    "aten::mathremainder": math.remainder,
    "aten::Int": int,
    "aten::Float": float,
    "aten::Bool": bool,
    "aten::Complex": complex,
    "prim::abs": abs,
    "prim::min": min,
    "prim::max": max,
    "aten::sum": sum,
    "aten::all": all,
    "aten::any": any,
    "aten::__range_length": lambda lo, hi, step: len(range(lo, hi, step)),
    "aten::__derive_index": derive_index,
    "prim::rangelist": lambda n: list(range(n)),
}

MATHEMATICS: Final[dict[str, Function]] = {
    f"aten::{name}": number_function(name) for name in MATHEMATICAL_NAMES.split()
}

CONTAINERS: Final[dict[str, Function]] = {
    "aten::len": len,
    "aten::append": append,
    "aten::pop": lambda self, *place: self.pop(*place),
    "aten::insert": lambda self, index, element: self.insert(index, element),
    "aten::extend": lambda self, other: self.extend(other),
    "aten::clear": lambda self: self.clear(),
    "aten::remove": lambda self, element: self.remove(element),
    "aten::reverse": lambda self: self.reverse(),
    "aten::sort": lambda self, reverse: self.sort(reverse=reverse),
    "aten::sorted": builtins.sorted,
    "aten::__getitem__": operator.getitem,
    "aten::select": operator.getitem,
    "aten::_set_item": set_item,
    "aten::Delete": operator.delitem,
    "aten::__contains__": operator.contains,
    "aten::slice": take_slice,
    "aten::add_": operator.iadd,
    "aten::mul_": operator.imul,
    "aten::index": find_in,
    "aten::count": lambda self, element: self.count(element),
    "aten::list": list_of,
    "aten::copy": lambda self: self.copy(),
    "aten::keys": list_of,
    "aten::values": lambda self: list(self.values()),
    "aten::items": lambda self: list(self.items()),
    "aten::get": get_default,
    "aten::setdefault": lambda self, key, default: self.setdefault(key, default),
    "aten::update": lambda self, other: self.update(other),
    "aten::popitem": lambda self: self.popitem(),
    "aten::dict": dict,
    "aten::tensor": make_tensor,
    "aten::as_tensor": make_tensor,
}

STRINGS: Final[dict[str, Function]] = {
    "aten::str": str,
    "aten::hash": hash,
    "aten::ord": ord,
    "aten::chr": chr,
    "aten::bin": bin,
    "aten::hex": hex,
    "aten::oct": oct,
    "aten::join": join,
    "aten::format": str.format,
    "aten::percentFormat": percent_format,
    "aten::warn": warn,
    **{f"aten::{name}": searching(name) for name in ("find", "rfind", "startswith", "endswith")},
    **{f"aten::{name}": getattr(str, name) for name in STRING_METHODS.split()},
}

# Functions of single overloads, which the kind's function would not fit.
OVERLOADS: Final[dict[str, Function]] = {
    **{
        f"prim::{name}.{mixed}": function
        for name, function in (("min", least_real), ("max", greatest_real))
        for mixed in ("int_float", "float_int")
    },
    "aten::pow.int_to_int": operator.pow,
    "aten::pow.complex": any_power,
    "aten::pow.float_complex": any_power,
    "aten::pow.complex_float": any_power,
    "aten::_set_item.t": set_item,
    "aten::split.str": str.split,
    "aten::rsplit": str.rsplit,
    "aten::index.str": searching("index"),
    "aten::rindex": searching("rindex"),
    "aten::count": searching("count"),
    "aten::dict.Tensor": dict,
    "aten::wait": lambda self: self.wait(),
    "aten::len.Tensor": len,
    "prim::unchecked_cast": lambda x: x,
    "prim::unchecked_unwrap_optional": lambda optional: optional,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "prim::NumToTensor.Scalar": tensor_of_number,
    "prim::NumToTensor.bool": tensor_of_number,
}

KINDS: Final[dict[str, Function]] = {**ARITHMETIC, **MATHEMATICS, **CONTAINERS, **STRINGS}


def _attribute(name: str) -> Function:
    return operator.attrgetter(name)


# Operators that PyTorch publishes not at all, or with another type.
SCHEMAS: Final[dict[str, Function]] = {
    "prim::dtype(Tensor a) -> ScalarType": _attribute("dtype"),
    "prim::layout(Tensor a) -> Layout": _attribute("layout"),
    **{
        f"prim::number.{kind}({kind} a) -> int": numbered
        for kind in ("ScalarType", "Layout", "MemoryFormat")
    },
    "prim::number.list(int[] a) -> int[]": numbered,
    "prim::device(Tensor a) -> Device": _attribute("device"),
    "prim::requires_grad(Tensor a) -> bool": _attribute("requires_grad"),
    "prim::grad(Tensor a) -> Tensor(*)?": _attribute("grad"),
    **{f"prim::{name}(Tensor a) -> bool": _attribute(name) for name in TENSOR_FLAGS.split()},
    "prim::itemsize(Tensor a) -> int": _attribute("itemsize"),
    "prim::nbytes(Tensor a) -> int": _attribute("nbytes"),
    "prim::ndim(Tensor a) -> int": _attribute("ndim"),
    "prim::T(Tensor(a) a) -> Tensor(a)": _attribute("T"),
    "prim::H(Tensor(a) a) -> Tensor(a)": _attribute("H"),
    "prim::name(Tensor a) -> str?": _attribute("name"),
    "aten::Bool.Scalar(Scalar a) -> bool": bool,
    "aten::__contains__.substring(str text, str part) -> bool": operator.contains,
    "prim::is_floating_point(ScalarType self) -> bool": _attribute("is_floating_point"),
    # torch.nn's sizes, where one number stands for all dimensions.
    **{
        f"aten::_{word}{overload}({kind}[{count}] x) -> {kind}[]": list
        for count, word in enumerate(("single", "pair", "triple", "quadruple"), 1)
        for kind, overload in (("int", ""), ("float", ".float"))
    },
}


def function_of(full_name: str, kind: str, takes_tensors: bool) -> Function | None:
    """Return the Python function of an operator, if it has one.

    Args:
        full_name: the kind with the overload's name, such as ``"aten::add.int"``.
        kind: such as ``"aten::add"``.
        takes_tensors: whether an argument is a tensor, so that the kind's function is not meant.
    """
    own = OVERLOADS.get(full_name)
    return own or (None if takes_tensors else KINDS.get(kind))
