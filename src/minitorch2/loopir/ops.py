"""The primitives of the loop IR, and the handler in force that answers them.

A loop body is a Python function of SymPy indices that calls `ops.*`. It never looks at the values
that they return, whose type depends on the current *handler*. They are text (printer, code
generators), NumPy arrays (the interpreter), dtypes (the type checker) or nothing (the recorder).

    body   ::=  def inner_fn(index[, reduction_index]) -> value
    value  ::=  ops.load(buffer, expr) | ops.constant(number, dtype) | ops.index_expr(expr, dtype)
             |  ops.to_dtype(value, dtype) | ops.to_dtype_bitcast(value, dtype, src_dtype)
             |  ops.masked(value, () -> value, number) | ops.scan(dtype, kind, value)
             |  ops.<elementwise>(value, ...)
    expr   ::=  SymPy over index and size symbols, or ops.indirect_indexing(value, size)
    effect ::=  ops.store(buffer, expr, value[, mode])
             |  ops.store_reduction(buffer, expr, ops.reduction(dtype, src_dtype, kind, value))

Typing rules, which every lowering obeys and `handlers.dtypes` checks:

- Operands of one elementwise primitive have one dtype: lowerings promote with `to_dtype` first.
  `where` and shifts included; a condition or mask is bool.
- **Compute dtypes.** float16 and bfloat16 live in memory only: `load` from such a buffer gives a
  float32 value, `store` rounds to the buffer's dtype, and `to_dtype(x, float16)` rounds to
  float16's precision but goes on as float32. `compute_dtype` says it in one function.
  A value that is loaded, chosen by `where` or `masked`, and stored or reinterpreted keeps its bits,
  those of a NaN included.
- Integer arithmetic wraps at its dtype. Comparisons and predicates give bool.

This is `V.ops` of the PyTorch 2 paper, section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeVar, cast

import torch

from minitorch2.loopir.expressions import Expr

Number = bool | int | float
ReductionKind = Literal["sum", "prod", "max", "min", "argmax", "argmin", "any", "xor_sum"]
"""`argmax` and `argmin` take a pair `(candidate, position)` and give the position: NaN wins over
every number, and of equal candidates the smallest position wins."""

StoreMode = Literal["set", "add"]
"""What a store does with the element that memory has: replace it, or add to it."""

ScanKind = Literal["sum", "prod", "max", "min"]
"""What a running combination combines with."""

V = TypeVar("V")


class Value:
    """An opaque value inside a loop body: only the current handler knows its type."""


class OpsHandler(Protocol[V]):
    """Every primitive, once: a handler is a subclass that answers them.

    The elementwise primitives all go through `elementwise` unless a subclass overrides one, so
    an analysis implements one method for all of them and an interpreter looks up a table.
    Each line names the NumPy function that defines the meaning.
    """

    # -- memory and structure -------------------------------------------------------------------

    def load(self, name: str, index: Expr) -> V:
        """`flat_memory_of(name)[index]`, in the compute dtype of the buffer's dtype."""
        ...

    def store(self, name: str, index: Expr, value: V, mode: StoreMode = "set") -> None:
        """`flat_memory_of(name)[index] = value`, or `+= value`, rounded to the buffer's dtype."""
        ...

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: V | tuple[V, V],
    ) -> V:
        """Combine `value` (of compute dtype `src_dtype`) along the node's reduction ranges.

        `dtype` is the compute dtype of the result. Empty ranges give the neutral element.
        """
        ...

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: V) -> V:
        """`np.cumsum` (or its like) of `value` along the node's reduction range, this one included.

        NaN wins over every number in `max` and `min`. Sums of float32 may be kept in float64.
        """
        ...

    def store_reduction(self, name: str, index: Expr, value: V) -> None:
        """Like `store`, once per output element, after the reduction is complete."""
        ...

    def constant(self, value: Number, dtype: torch.dtype) -> V:
        """`np.full((), value, dtype)`."""
        ...

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> V:
        """A SymPy expression over indices and sizes as a value of `dtype`."""
        ...

    def indirect_indexing(
        self, value: V, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """A computed integer as an index: a new symbol bound to `value`, in `0 <= v < size`.

        With `wrap`, `-size <= v < 0` counts from the end, as in `x[v]`; without, negative values
        are out of range, as in `embedding`. With `check`, a value out of range is an IndexError
        (a failed assertion on a GPU); without, the lowering has proved the range.
        """
        ...

    def masked(self, mask: V, body: Callable[[], V], other: Number) -> V:
        """`np.where(mask, body(), other)`, but where `mask` is false `body` reads nothing."""
        ...

    def to_dtype(self, x: V, dtype: torch.dtype) -> V:
        """`x.astype(dtype)`, float to integer by truncation, anything to bool by `!= 0`."""
        ...

    def to_dtype_bitcast(self, x: V, dtype: torch.dtype, src_dtype: torch.dtype) -> V:
        """`x.view(dtype)`: the same bits; both dtypes have the same width."""
        ...

    def elementwise(self, name: str, *args: V) -> V:
        """Answer the elementwise primitive called `name`."""
        ...

    # -- arithmetic -----------------------------------------------------------------------------

    def add(self, x: V, y: V) -> V:
        """`np.add`"""
        return self.elementwise("add", x, y)

    def sub(self, x: V, y: V) -> V:
        """`np.subtract`"""
        return self.elementwise("sub", x, y)

    def mul(self, x: V, y: V) -> V:
        """`np.multiply`"""
        return self.elementwise("mul", x, y)

    def truediv(self, x: V, y: V) -> V:
        """`np.true_divide`, of floats; division by zero gives inf or NaN"""
        return self.elementwise("truediv", x, y)

    def floordiv(self, x: V, y: V) -> V:
        """`np.floor_divide`, of integers: rounds towards minus infinity"""
        return self.elementwise("floordiv", x, y)

    def truncdiv(self, x: V, y: V) -> V:
        """`np.trunc(x / y)`, of integers, exact: rounds towards zero, as in C"""
        return self.elementwise("truncdiv", x, y)

    def mod(self, x: V, y: V) -> V:
        """`np.mod`, of integers: the remainder has the sign of the divisor, as in Python"""
        return self.elementwise("mod", x, y)

    def fmod(self, x: V, y: V) -> V:
        """`np.fmod`, of integers or floats: the remainder has the sign of the dividend, as in C"""
        return self.elementwise("fmod", x, y)

    def neg(self, x: V) -> V:
        """`np.negative`"""
        return self.elementwise("neg", x)

    def abs(self, x: V) -> V:
        """`np.abs`"""
        return self.elementwise("abs", x)

    def sign(self, x: V) -> V:
        """`torch.sign`: -1, 0 or 1; 0 for NaN"""
        return self.elementwise("sign", x)

    def maximum(self, x: V, y: V) -> V:
        """`np.maximum`: NaN if either is NaN"""
        return self.elementwise("maximum", x, y)

    def minimum(self, x: V, y: V) -> V:
        """`np.minimum`: NaN if either is NaN"""
        return self.elementwise("minimum", x, y)

    def copysign(self, x: V, y: V) -> V:
        """`np.copysign`"""
        return self.elementwise("copysign", x, y)

    # -- comparison and choice ------------------------------------------------------------------

    def eq(self, x: V, y: V) -> V:
        """`np.equal`"""
        return self.elementwise("eq", x, y)

    def ne(self, x: V, y: V) -> V:
        """`np.not_equal`"""
        return self.elementwise("ne", x, y)

    def lt(self, x: V, y: V) -> V:
        """`np.less`"""
        return self.elementwise("lt", x, y)

    def le(self, x: V, y: V) -> V:
        """`np.less_equal`"""
        return self.elementwise("le", x, y)

    def gt(self, x: V, y: V) -> V:
        """`np.greater`"""
        return self.elementwise("gt", x, y)

    def ge(self, x: V, y: V) -> V:
        """`np.greater_equal`"""
        return self.elementwise("ge", x, y)

    def where(self, condition: V, x: V, y: V) -> V:
        """`np.where`; both branches are evaluated"""
        return self.elementwise("where", condition, x, y)

    # -- logic on bool, bits on integers --------------------------------------------------------

    def logical_and(self, x: V, y: V) -> V:
        """`np.logical_and`, of bools"""
        return self.elementwise("logical_and", x, y)

    def logical_or(self, x: V, y: V) -> V:
        """`np.logical_or`, of bools"""
        return self.elementwise("logical_or", x, y)

    def logical_xor(self, x: V, y: V) -> V:
        """`np.logical_xor`, of bools"""
        return self.elementwise("logical_xor", x, y)

    def logical_not(self, x: V) -> V:
        """`np.logical_not`, of a bool"""
        return self.elementwise("logical_not", x)

    def bitwise_and(self, x: V, y: V) -> V:
        """`np.bitwise_and`, of integers"""
        return self.elementwise("bitwise_and", x, y)

    def bitwise_or(self, x: V, y: V) -> V:
        """`np.bitwise_or`, of integers"""
        return self.elementwise("bitwise_or", x, y)

    def bitwise_xor(self, x: V, y: V) -> V:
        """`np.bitwise_xor`, of integers"""
        return self.elementwise("bitwise_xor", x, y)

    def bitwise_not(self, x: V) -> V:
        """`np.bitwise_not`, of an integer"""
        return self.elementwise("bitwise_not", x)

    def lshift(self, x: V, y: V) -> V:
        """`np.left_shift`, of integers; 0 <= y < bits"""
        return self.elementwise("lshift", x, y)

    def rshift(self, x: V, y: V) -> V:
        """`np.right_shift`, of integers, arithmetic; 0 <= y < bits"""
        return self.elementwise("rshift", x, y)

    # -- rounding and predicates of floats ------------------------------------------------------

    def floor(self, x: V) -> V:
        """`np.floor`"""
        return self.elementwise("floor", x)

    def ceil(self, x: V) -> V:
        """`np.ceil`"""
        return self.elementwise("ceil", x)

    def trunc(self, x: V) -> V:
        """`np.trunc`"""
        return self.elementwise("trunc", x)

    def round(self, x: V) -> V:
        """`np.rint`: half to even"""
        return self.elementwise("round", x)

    def isnan(self, x: V) -> V:
        """`np.isnan`"""
        return self.elementwise("isnan", x)

    def isinf(self, x: V) -> V:
        """`np.isinf`"""
        return self.elementwise("isinf", x)

    def signbit(self, x: V) -> V:
        """`np.signbit`"""
        return self.elementwise("signbit", x)

    # -- functions of floats --------------------------------------------------------------------

    def sqrt(self, x: V) -> V:
        """`np.sqrt`"""
        return self.elementwise("sqrt", x)

    def rsqrt(self, x: V) -> V:
        """`1 / np.sqrt(x)`"""
        return self.elementwise("rsqrt", x)

    def exp(self, x: V) -> V:
        """`np.exp`"""
        return self.elementwise("exp", x)

    def exp2(self, x: V) -> V:
        """`np.exp2`"""
        return self.elementwise("exp2", x)

    def expm1(self, x: V) -> V:
        """`np.expm1`"""
        return self.elementwise("expm1", x)

    def log(self, x: V) -> V:
        """`np.log`"""
        return self.elementwise("log", x)

    def log2(self, x: V) -> V:
        """`np.log2`"""
        return self.elementwise("log2", x)

    def log10(self, x: V) -> V:
        """`np.log10`"""
        return self.elementwise("log10", x)

    def log1p(self, x: V) -> V:
        """`np.log1p`"""
        return self.elementwise("log1p", x)

    def pow(self, x: V, y: V) -> V:
        """`np.power`, of floats"""
        return self.elementwise("pow", x, y)

    def sin(self, x: V) -> V:
        """`np.sin`"""
        return self.elementwise("sin", x)

    def cos(self, x: V) -> V:
        """`np.cos`"""
        return self.elementwise("cos", x)

    def tan(self, x: V) -> V:
        """`np.tan`"""
        return self.elementwise("tan", x)

    def asin(self, x: V) -> V:
        """`np.arcsin`"""
        return self.elementwise("asin", x)

    def acos(self, x: V) -> V:
        """`np.arccos`"""
        return self.elementwise("acos", x)

    def atan(self, x: V) -> V:
        """`np.arctan`"""
        return self.elementwise("atan", x)

    def atan2(self, x: V, y: V) -> V:
        """`np.arctan2`"""
        return self.elementwise("atan2", x, y)

    def sinh(self, x: V) -> V:
        """`np.sinh`"""
        return self.elementwise("sinh", x)

    def cosh(self, x: V) -> V:
        """`np.cosh`"""
        return self.elementwise("cosh", x)

    def tanh(self, x: V) -> V:
        """`np.tanh`"""
        return self.elementwise("tanh", x)

    def asinh(self, x: V) -> V:
        """`np.arcsinh`"""
        return self.elementwise("asinh", x)

    def acosh(self, x: V) -> V:
        """`np.arccosh`"""
        return self.elementwise("acosh", x)

    def atanh(self, x: V) -> V:
        """`np.arctanh`"""
        return self.elementwise("atanh", x)

    def erf(self, x: V) -> V:
        """The error function, `math.erf`"""
        return self.elementwise("erf", x)

    def erfc(self, x: V) -> V:
        """`1 - erf(x)` without cancellation, `math.erfc`"""
        return self.elementwise("erfc", x)

    def lgamma(self, x: V) -> V:
        """The logarithm of |gamma(x)|, `math.lgamma`"""
        return self.elementwise("lgamma", x)

    def sigmoid(self, x: V) -> V:
        """`1 / (1 + np.exp(-x))`"""
        return self.elementwise("sigmoid", x)


STRUCTURAL = (
    "load", "store", "reduction", "store_reduction", "scan", "constant", "index_expr",
    "indirect_indexing", "masked", "to_dtype", "to_dtype_bitcast",
)  # fmt: skip
"""The primitives that are not elementwise: each handler answers each of them itself."""

ELEMENTWISE = tuple(
    name
    for name, member in vars(OpsHandler).items()
    if callable(member) and not name.startswith("_") and name not in (*STRUCTURAL, "elementwise")
)
"""The names of the elementwise primitives, read off the protocol."""

PRIMITIVES = (*STRUCTURAL, *ELEMENTWISE)

PREDICATES = frozenset(
    ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "signbit",
     "logical_and", "logical_or", "logical_xor", "logical_not")
)  # fmt: skip
"""Elementwise primitives whose result is bool; every other one keeps its operands' dtype."""


LOOP_DTYPES = frozenset(
    (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
     torch.bfloat16, torch.float32, torch.float64)
)  # fmt: skip
"""The dtypes of buffers that loop bodies may read and write; others meet library calls only."""


SHORT_FLOATS = (torch.float16, torch.bfloat16)
"""The dtypes that live in memory only."""


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that values of a buffer's `dtype` are computed in: float32 for 16-bit floats."""
    return torch.float32 if dtype in SHORT_FLOATS else dtype


_HANDLER: ContextVar[OpsHandler[Any]] = ContextVar("ops_handler")


class _CurrentHandler:
    """`ops.add(...)` calls `add` of the handler that `use_handler` has put in force."""

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name.startswith("__"):  # asked by `inspect` and the like, when no handler is in force
            raise AttributeError(name)
        return cast(Callable[..., Value], getattr(_HANDLER.get(), name))


# Loop bodies are checked against the protocol; who answers is known only when they run.
ops = cast(OpsHandler[Value], _CurrentHandler())


@contextmanager
def use_handler(handler: OpsHandler[Any]) -> Iterator[None]:
    """Let `handler` answer `ops.*` inside the block; blocks nest, and each thread has its own."""
    token = _HANDLER.set(handler)
    try:
        yield
    finally:
        _HANDLER.reset(token)
