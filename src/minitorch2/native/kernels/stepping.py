"""Kernels as plain Python, one element at a time, for debuggers and prints.

With the option `cpu_compiler="python"`, a kernel's text is compiled by CPython and nothing else: a
debugger steps through its lines, whose comments name the user's, and shows each value. The names in
the text have the same meaning here, on NumPy's scalars, as in machine code; the tests compare the
two.
"""

from __future__ import annotations

import builtins
import ctypes
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch

from minitorch2.foundation.generated_code import execute
from minitorch2.foundation.source_lines import keep_lines
from minitorch2.native.kernels import names
from minitorch2.native.kernels.python_launcher import PythonLauncher

_C_TYPES: dict[str, Any] = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "int8": ctypes.c_int8,
    "int16": ctypes.c_int16, "int32": ctypes.c_int32, "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
}  # fmt: skip


class Memory:
    """The elements at an address; it does not know how many there are."""

    def __init__(self, address: int, kind: str) -> None:
        self.address = address
        self.kind = kind
        self._type = _C_TYPES[kind]

    def _place(self, index: int) -> Any:
        return self._type.from_address(self.address + int(index) * ctypes.sizeof(self._type))

    def __getitem__(self, index: int) -> Any:
        return getattr(np, self.kind)(self._place(index).value)

    def __setitem__(self, index: int, value: Any) -> None:
        self._place(index).value = np.asarray(value).astype(self.kind).item()

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.address:#x}: {self[0]}, {self[1]}...>"


def step_kernel(name: str, text: str, pointers: tuple[str, ...], filename: str) -> PythonLauncher:
    """Return a launcher that lets CPython run the text of a range kernel."""
    namespace = dict(NAMES)
    execute(text, filename, namespace)
    kernel = namespace[name]
    keep_lines(filename, text, kernel)
    return run_in_python(kernel, pointers)


def run_in_python(kernel: Callable[..., int], pointers: tuple[str, ...]) -> PythonLauncher:
    """Return a launcher of a range kernel whose free names are looked up in `NAMES`."""

    def run(n: int, words: list[int]) -> tuple[int, int] | None:
        memories = map(Memory, words, pointers)
        error = [0, 0]
        with np.errstate(all="ignore"):
            status = kernel(0, n, *memories, *words[len(pointers) :], error)
        return (int(error[0]), int(error[1])) if status else None

    # The kernel takes lo, hi and the error's place; the launcher n.
    return PythonLauncher(kernel.__name__, kernel.__code__.co_argcount - 2, run)


def _scalar(value: Any, kind: str) -> Any:
    return np.asarray(value).astype(kind)[()]


def _to_type(kind: str) -> Callable[[Any], Any]:
    """Return a cast that wraps around; `local_array` takes such casts as types, too."""

    def cast(value: Any) -> Any:
        return _scalar(value, kind)

    cast.__name__ = kind
    return cast


def _by_torch(name: str) -> Callable[..., Any]:
    """Return an elementary function, as eager PyTorch computes it."""
    function = getattr(torch, name)

    def compute(*args: Any) -> Any:
        return function(*(torch.from_numpy(np.asarray(arg)) for arg in args)).numpy()[()]

    return compute


def _truncdiv(x: Any, y: Any) -> Any:
    """Return C's division of integers, and 0 for a divisor of 0."""
    if y == 0:
        return x - x
    quotient = abs(int(x)) // abs(int(y))
    return _scalar(quotient if (x < 0) == (y < 0) else -quotient, x.dtype.name)


def _remainder(x: Any, y: Any) -> Any:
    """Return the remainder of C's division, which has the sign of `x`."""
    return x - x if y == 0 else x - _truncdiv(x, y) * y


def _bits(x: Any) -> Any:
    return x.view(f"int{8 * x.dtype.itemsize}")


def _from_bits(x: Any) -> Any:
    return x.view(f"float{8 * x.dtype.itemsize}")


def _flip(pattern: Any) -> Any:
    limit = np.iinfo(pattern.dtype).max
    return pattern ^ (limit if pattern < 0 else pattern.dtype.type(0))


def _rank(nan_is_first: bool) -> Callable[[Any], Any]:
    def rank(x: Any) -> Any:
        limits = np.iinfo(_bits(x).dtype)
        nan = limits.min if nan_is_first else limits.max
        return _scalar(nan, limits.dtype.name) if x != x else _flip(_bits(x))

    return rank


def _short_float(dtype: torch.dtype) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the conversions from the 16 bits of a number to a float32, and back."""

    def read(pattern: Any) -> Any:
        short = torch.from_numpy(np.asarray(pattern).view("int16")).view(dtype)
        return short.float().numpy()[()]

    def write(number: Any) -> Any:
        short = torch.from_numpy(np.asarray(number, "float32")).to(dtype)
        return short.view(torch.int16).numpy().view("uint16")[()]

    return read, write


_FROM_FLOAT16, _TO_FLOAT16 = _short_float(torch.float16)
_FROM_BFLOAT16, _TO_BFLOAT16 = _short_float(torch.bfloat16)


def _copy_transposed(
    to: Any, pitch: int, source: Any, offset: int, stride: int, rows: int, columns: int
) -> None:
    for r, c in product(range(rows), range(columns)):
        to[r * pitch + c] = source[offset + r + c * stride]


NAMES: dict[str, Any] = {
    **{name: _by_torch(name) for name in sorted(names.NAMES) if hasattr(torch, name)},
    **{kind: _to_type(kind) for kind in _C_TYPES},
    "boolean": np.bool_,
    "where": lambda condition, x, y: x if condition else y,
    "absolute": np.abs,
    "round_even": np.rint,
    "maximum_any_order": np.maximum,
    "minimum_any_order": np.minimum,
    "add_any_order": lambda x, y: x + y,
    "multiply_any_order": lambda x, y: x * y,
    "truncdiv": _truncdiv,
    "remainder": _remainder,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "lshift": lambda x, y: _scalar(x << y, x.dtype.name),
    "rshift": lambda x, y: _scalar(x >> y, x.dtype.name),
    "bits": _bits,
    "from_bits": _from_bits,
    "rank_nan_last": _rank(nan_is_first=False),
    "rank_nan_first": _rank(nan_is_first=True),
    "from_rank": lambda rank: _from_bits(_flip(rank)),
    "from_float16": _FROM_FLOAT16,
    "to_float16": _TO_FLOAT16,
    "from_bfloat16": _FROM_BFLOAT16,
    "to_bfloat16": _TO_BFLOAT16,
    "cut_bfloat16": _TO_BFLOAT16,
    "copy_transposed": _copy_transposed,
    "local_array": lambda length, kind: np.zeros(length, kind.__name__),
    **{name: getattr(builtins, name) for name in ("abs", "min", "max")},
    "inf": math.inf,
    "nan": math.nan,
}
"""The vocabulary of kernels in Python."""

assert NAMES.keys() >= names.NAMES, names.NAMES - NAMES.keys()
