"""The handler that computes with NumPy: the meaning of every primitive, and the tests' oracle.

All elements of a loop nest are computed at once. An index variable is an `arange` along its own
axis, so a value is an array that broadcasts to the ranges (reduction ranges last).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import sympy
import torch

from minitorch2.graph.symbols.floats import PYTHON_OPERATIONS
from minitorch2.loopir.expressions import Expr, FloorDiv, ModularIndexing, index_symbol
from minitorch2.loopir.layout import FixedLayout
from minitorch2.loopir.ops import (
    SHORT_FLOATS,
    Number,
    OpsHandler,
    ReductionKind,
    ScanKind,
    StoreMode,
    compute_dtype,
)

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Environment = Mapping[sympy.Basic, "Array | int | float"]


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """Return the NumPy dtype in which values of a torch dtype are computed."""
    return torch.empty((), dtype=compute_dtype(dtype)).numpy().dtype


def round_to(value: Array, dtype: torch.dtype) -> Array:
    """Convert to `dtype`; 16-bit floats are rounded and stay float32."""
    if dtype in SHORT_FLOATS:
        return widened(narrowed(value, dtype))
    if dtype == torch.bool:
        return np.asarray(value != 0)
    return value.astype(numpy_dtype(dtype))


_FRACTION_BITS = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23}
_AS_BITS = {torch.complex32: torch.int32} | dict.fromkeys(
    (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
     torch.float8_e8m0fnu), torch.uint8,
)  # fmt: skip
"""What NumPy holds the elements as of dtypes that it lacks; loops do not compute with them."""


def narrowed(value: Array, dtype: torch.dtype) -> torch.Tensor:
    """Round numbers to a 16-bit float. A NaN that fits keeps its bits, as in memory."""
    single = np.array(value, np.float32)
    short, bits = torch.from_numpy(single).to(dtype), single.view(np.int32)
    cut = _FRACTION_BITS[torch.float32] - _FRACTION_BITS[dtype]
    fits = np.isnan(single) & (bits & ((1 << cut) - 1) == 0)
    exponent = int(torch.tensor(math.inf, dtype=dtype).view(torch.int16).item())
    pattern = (bits >> 16 & 0x8000) | exponent | (bits & 0x7FFFFF) >> cut
    chosen = np.where(fits, pattern.astype(np.int16), short.view(torch.int16).numpy())
    result: torch.Tensor = torch.from_numpy(chosen).view(dtype)
    return result


def widened(short: torch.Tensor) -> Array:
    """Return 16-bit floats as float32; NaN keep their bits."""
    single, bits = short.float().numpy(), short.view(torch.int16).numpy().astype(np.int32)
    cut = _FRACTION_BITS[torch.float32] - _FRACTION_BITS[short.dtype]
    fraction = bits & ((1 << _FRACTION_BITS[short.dtype]) - 1)
    pattern = (bits & 0x8000) << 16 | 0x7F800000 | fraction << cut
    return np.where(np.isnan(single), pattern.view(np.float32), single)


@dataclass
class Memory:
    """The flat memory of one buffer, as an array of the compute dtype."""

    array: Array
    dtype: torch.dtype

    @classmethod
    def allocate(cls, count: int, dtype: torch.dtype) -> Memory:
        """Zeroed memory for `count` elements."""
        return cls(np.zeros(count, numpy_dtype(dtype)), dtype)

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Memory:
        """Return a copy of the memory from a tensor's first element to its last."""
        span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        count = span if tensor.numel() else 0
        flat = tensor.detach().resolve_conj().as_strided((count,), (1,), tensor.storage_offset())
        own = flat.cpu().clone()
        if tensor.dtype in SHORT_FLOATS:
            return cls(widened(own), tensor.dtype)
        return cls(own.view(_AS_BITS.get(tensor.dtype, tensor.dtype)).numpy(), tensor.dtype)

    def view(self, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> torch.Tensor:
        """Return a tensor with a copy of the elements that a layout selects, and its strides."""
        if self.dtype in SHORT_FLOATS:
            flat = narrowed(self.array, self.dtype)
        else:
            flat = torch.from_numpy(self.array.copy()).view(self.dtype)
        return flat.as_strided(size, stride, offset)


def evaluate(expr: Expr, environment: Environment) -> Any:
    """Return the value of an index expression: an int, or an array of int64."""
    if isinstance(expr, (int, float)):
        return expr
    if expr in environment:
        return environment[expr]
    if expr.is_Integer:
        return int(expr)
    if expr.is_number:
        return float(expr)
    rule = next((rule for kind, rule in _EXPRESSION_RULES.items() if isinstance(expr, kind)), None)
    if rule is None:
        raise NotImplementedError(f"no numeric rule for {sympy.srepr(expr)}")
    return rule(*(evaluate(argument, environment) for argument in expr.args))


_EXPRESSION_RULES: dict[type, Callable[..., Any]] = {
    sympy.Add: lambda *terms: sum(terms),
    sympy.Mul: lambda *factors: math.prod(factors),
    sympy.Pow: lambda base, exponent: float(base) ** exponent if exponent < 0 else base**exponent,
    FloorDiv: lambda a, b: a // b,
    ModularIndexing: lambda a, d, m: a // d % m,
    sympy.Mod: lambda a, b: a % b,
    sympy.floor: math.floor,
    sympy.ceiling: math.ceil,
    sympy.Max: lambda *args: reduce(np.maximum, args),
    sympy.Min: lambda *args: reduce(np.minimum, args),
    sympy.Abs: abs,
    **PYTHON_OPERATIONS,
}


def _truncdiv(x: Array, y: Array) -> Array:
    quotient = np.floor_divide(x, y)
    inexact = (quotient * y != x) & ((x < 0) != (y < 0))
    return np.asarray(quotient + inexact.astype(x.dtype))


def _python_function(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function of Python's `math` for arrays, with NumPy's answers at the edges."""

    def one(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):  # lgamma of a pole, or beyond the largest float
            return math.inf

    vectorized = np.vectorize(one, otypes=[np.float64])
    return lambda x: np.asarray(vectorized(x))


ELEMENTWISE_RULES: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "truncdiv": _truncdiv, "mod": np.mod, "fmod": np.fmod,
    "neg": np.negative, "abs": np.abs, "sign": lambda x: np.nan_to_num(np.sign(x)),
    "maximum": np.maximum, "minimum": np.minimum, "copysign": np.copysign,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "where": np.where,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "logical_not": np.logical_not, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert, "lshift": np.left_shift,
    "rshift": np.right_shift, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "isnan": np.isnan, "isinf": np.isinf, "signbit": np.signbit,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "pow": np.power, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": _python_function(math.erf), "erfc": _python_function(math.erfc),
    "lgamma": _python_function(math.lgamma), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
"""The NumPy meaning of each elementwise primitive."""


class InterpretingHandler(OpsHandler[Array]):
    """The handler that computes one loop nest over all its indices at once.

    `shape` is that of all ranges, reduction ranges last, of which there are `reduction_ndim`.

    Raises:
        IndexError: an address lies outside of its buffer, or a computed index outside its size.
    """

    def __init__(
        self,
        memory: dict[str, Memory],
        environment: Environment,
        shape: tuple[int, ...],
        reduction_ndim: int,
    ) -> None:
        self.memory = memory
        self.environment = dict(environment)
        self.shape = shape
        self.reduction_ndim = reduction_ndim
        self.masks: list[Array] = []

    def _index(self, expr: Expr) -> Array:
        return np.asarray(evaluate(expr, self.environment), dtype=np.int64)

    def _in_use(self, index: Array) -> Array:
        """Return the indices that count: 0 where the mask in force is false."""
        if not self.masks:
            return index
        return np.where(np.asarray(reduce(np.logical_and, self.masks)), index, 0)

    def load(self, name: str, index: Expr) -> Array:
        """Gather from flat memory."""
        array = self.memory[name].array
        position = self._in_use(self._index(index))
        if not array.size:
            # Only reached by loops that run nowhere, or under a mask that is false everywhere.
            return np.zeros(position.shape, array.dtype)
        if position.size and not (position.min() >= 0 and position.max() < array.size):
            raise IndexError(f"load of {name}[{index}] leaves the {array.size} elements")
        return array[position]

    def store(self, name: str, index: Expr, value: Array, mode: StoreMode = "set") -> None:
        """Scatter into flat memory: of equal addresses the last one wins, or all add up."""
        memory = self.memory[name]
        position = np.broadcast_to(self._index(index), self.shape).reshape(-1)
        if mode == "add":
            np.add.at(memory.array, position, np.broadcast_to(value, self.shape).reshape(-1))
            memory.array[:] = round_to(memory.array, memory.dtype)
        else:
            rounded = np.broadcast_to(round_to(value, memory.dtype), self.shape)
            memory.array[position] = rounded.reshape(-1)

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: Array | tuple[Array, Array],
    ) -> Array:
        """Reduce the last axes; they keep size 1."""
        axes = tuple(range(len(self.shape) - self.reduction_ndim, len(self.shape)))
        if isinstance(value, tuple):
            candidate, position = (np.broadcast_to(v, self.shape) for v in value)
            return _position_of_extreme(kind, candidate, position, axes)
        full = np.broadcast_to(value, self.shape)
        return REDUCTION_RULES[kind](full, axes).astype(numpy_dtype(dtype))

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: Array) -> Array:
        """Accumulate along the last axis; float32 in float64."""
        full = np.broadcast_to(value, self.shape)
        wide = np.float64 if full.dtype == np.float32 and kind in ("sum", "prod") else full.dtype
        rule: np.ufunc = ELEMENTWISE_RULES[SCAN_RULES[kind]]  # type: ignore[assignment]
        return np.asarray(rule.accumulate(full.astype(wide), axis=-1)).astype(numpy_dtype(dtype))

    def store_reduction(self, name: str, index: Expr, value: Array) -> None:
        """Scatter the results, of shape `ranges + (1, ..., 1)`."""
        memory = self.memory[name]
        outer = self.shape[: len(self.shape) - self.reduction_ndim] + (1,) * self.reduction_ndim
        position = np.broadcast_to(self._index(index), outer)
        rounded = np.broadcast_to(round_to(value, memory.dtype), outer)
        memory.array[position.reshape(-1)] = rounded.reshape(-1)

    def constant(self, value: Number, dtype: torch.dtype) -> Array:
        """Return a 0-dim array."""
        return np.asarray(value).astype(numpy_dtype(dtype))

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Array:
        """Return the array of an expression's values."""
        value = np.asarray(evaluate(expr, self.environment))
        return round_to(value, dtype)

    def indirect_indexing(
        self, value: Array, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Bind a fresh symbol to the values, wrapped if need be."""
        extent = evaluate(size, self.environment)
        index = value.astype(np.int64)
        index = self._in_use(np.where(index < 0, index + extent, index) if wrap else index)
        wrong = index[(index < 0) | (index >= extent)]
        if wrong.size and math.prod(self.shape):
            number = int(wrong[0]) - (extent if wrap and wrong[0] < 0 else 0)
            raise IndexError(f"index {number} is out of bounds for a dimension of size {extent}")
        symbol = index_symbol(f"indirect{len(self.environment)}")
        self.environment[symbol] = index
        return symbol

    def masked(self, mask: Array, body: Callable[[], Array], other: Number) -> Array:
        """Evaluate the body where the mask is true."""
        self.masks.append(mask)
        value = body()
        self.masks.pop()
        return np.where(mask, value, np.asarray(other).astype(value.dtype))

    def to_dtype(self, x: Array, dtype: torch.dtype) -> Array:
        """Convert."""
        return round_to(x, dtype)

    def to_dtype_bitcast(self, x: Array, dtype: torch.dtype, src_dtype: torch.dtype) -> Array:
        """Reinterpret the bits in the memory dtypes."""
        short = src_dtype in SHORT_FLOATS
        bits = narrowed(x, src_dtype) if short else torch.from_numpy(np.ascontiguousarray(x))
        result = bits.reshape(x.shape).view(dtype)
        return widened(result) if dtype in SHORT_FLOATS else result.numpy()

    def elementwise(self, name: str, *args: Array) -> Array:
        """Look up the NumPy function; the result keeps the operands' dtype, or is bool."""
        result = np.asarray(ELEMENTWISE_RULES[name](*args))
        return result if result.dtype == bool else result.astype(args[-1].dtype)


def _position_of_extreme(
    kind: str, candidate: Array, position: Array, axes: tuple[int, ...]
) -> Array:
    best = REDUCTION_RULES["max" if kind == "argmax" else "min"](candidate, axes)
    hit = candidate == best
    if candidate.dtype.kind == "f":
        hit |= np.isnan(candidate) & np.isnan(best)
    positions = np.where(hit, position, np.iinfo(np.int64).max)
    return np.asarray(positions.min(axis=axes, keepdims=True, initial=np.iinfo(np.int64).max))


def _extreme(
    function: np.ufunc, worst: Callable[[Array], Any]
) -> Callable[[Array, tuple[int, ...]], Array]:
    return lambda a, axes: np.asarray(
        function.reduce(a, axis=axes, keepdims=True, initial=worst(a))
    )


def _lowest(a: Array) -> Any:
    if a.dtype == bool:
        return False
    return -np.inf if a.dtype.kind == "f" else np.iinfo(a.dtype).min


def _highest(a: Array) -> Any:
    if a.dtype == bool:
        return True
    return np.inf if a.dtype.kind == "f" else np.iinfo(a.dtype).max


SCAN_RULES = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
"""The elementwise primitive that a running combination repeats."""

REDUCTION_RULES: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
    "sum": lambda a, axes: np.sum(a, axis=axes, keepdims=True, dtype=a.dtype),
    "prod": lambda a, axes: np.prod(a, axis=axes, keepdims=True, dtype=a.dtype),
    "max": _extreme(np.maximum, _lowest),
    "min": _extreme(np.minimum, _highest),
    "any": lambda a, axes: np.any(a, axis=axes, keepdims=True),
    "xor_sum": lambda a, axes: (
        np.bitwise_xor.reduce(a, axis=axes, keepdims=True)
        if len(axes) == 1
        else reduce(lambda x, axis: np.bitwise_xor.reduce(x, axis=axis, keepdims=True), axes, a)
    ),
}
"""The NumPy meaning of each reduction kind; argmax and argmin build on max and min."""


def fixed_numbers(layout: FixedLayout, environment: Environment) -> FixedLayout:
    """Return the layout with every symbolic size replaced by its value."""

    def number(expr: Expr) -> int:
        return int(evaluate(expr, environment))

    return FixedLayout(
        layout.device,
        layout.dtype,
        tuple(map(number, layout.size)),
        tuple(map(number, layout.stride)),
        number(layout.offset),
    )
