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

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeVar, cast

import torch

from minitorch2.foundation.blocks import holding
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

    The elementwise primitives all go through `elementwise`, so an analysis implements one method
    for all of them and an interpreter looks up a table. `ELEMENTWISE` names the NumPy function
    that defines the meaning of each.
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

    def __getattr__(self, name: str) -> Callable[..., V]:
        """Return the elementwise primitive `name` as a function of its operands."""
        if name not in ELEMENTWISE:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return partial(self.elementwise, name)


@dataclass(frozen=True)
class Elementwise:
    """An elementwise primitive: the names of its operands, their dtypes, its result, its meaning.

    `takes` is `numbers` (integers and floats), `any` (bools too), `integers`, `floats` or `bools`.
    """

    operands: tuple[str, ...]
    takes: str
    gives_bool: bool
    meaning: str

    @classmethod
    def parse(cls, row: str) -> tuple[str, Elementwise]:
        """Return the name and the primitive of a row such as `eq(x, y) -> bool | any | text`."""
        head, takes, meaning = (part.strip() for part in row.split("|"))
        name, _, rest = head.partition("(")
        operands, _, result = rest.partition(")")
        return name, cls(tuple(operands.split(", ")), takes, bool(result), meaning)


_ROWS = """
    add(x, y)                 | numbers  | `np.add`
    sub(x, y)                 | numbers  | `np.subtract`
    mul(x, y)                 | numbers  | `np.multiply`
    truediv(x, y)             | floats   | `np.true_divide`; division by zero gives inf or NaN
    floordiv(x, y)            | integers | `np.floor_divide`: rounds towards minus infinity
    truncdiv(x, y)            | integers | `np.trunc(x / y)` exactly: rounds towards zero, as in C
    mod(x, y)                 | integers | `np.mod`: remainder of the divisor's sign, as in Python
    fmod(x, y)                | numbers  | `np.fmod`: remainder of the dividend's sign, as in C
    neg(x)                    | numbers  | `np.negative`
    abs(x)                    | numbers  | `np.abs`
    sign(x)                   | numbers  | `torch.sign`: -1, 0 or 1; 0 for NaN
    maximum(x, y)             | any      | `np.maximum`: NaN if either is NaN
    minimum(x, y)             | any      | `np.minimum`: NaN if either is NaN
    copysign(x, y)            | floats   | `np.copysign`
    eq(x, y) -> bool          | any      | `np.equal`
    ne(x, y) -> bool          | any      | `np.not_equal`
    lt(x, y) -> bool          | any      | `np.less`
    le(x, y) -> bool          | any      | `np.less_equal`
    gt(x, y) -> bool          | any      | `np.greater`
    ge(x, y) -> bool          | any      | `np.greater_equal`
    where(condition, x, y)    | any      | `np.where`; both branches are evaluated
    logical_and(x, y) -> bool | bools    | `np.logical_and`
    logical_or(x, y) -> bool  | bools    | `np.logical_or`
    logical_xor(x, y) -> bool | bools    | `np.logical_xor`
    logical_not(x) -> bool    | bools    | `np.logical_not`
    bitwise_and(x, y)         | integers | `np.bitwise_and`
    bitwise_or(x, y)          | integers | `np.bitwise_or`
    bitwise_xor(x, y)         | integers | `np.bitwise_xor`
    bitwise_not(x)            | integers | `np.bitwise_not`
    lshift(x, y)              | integers | `np.left_shift`; 0 <= y < bits
    rshift(x, y)              | integers | `np.right_shift`, arithmetic; 0 <= y < bits
    floor(x)                  | floats   | `np.floor`
    ceil(x)                   | floats   | `np.ceil`
    trunc(x)                  | floats   | `np.trunc`
    round(x)                  | floats   | `np.rint`: half to even
    isnan(x) -> bool          | floats   | `np.isnan`
    isinf(x) -> bool          | floats   | `np.isinf`
    signbit(x) -> bool        | floats   | `np.signbit`
    sqrt(x)                   | floats   | `np.sqrt`
    rsqrt(x)                  | floats   | `1 / np.sqrt(x)`
    exp(x)                    | floats   | `np.exp`
    exp2(x)                   | floats   | `np.exp2`
    expm1(x)                  | floats   | `np.expm1`
    log(x)                    | floats   | `np.log`
    log2(x)                   | floats   | `np.log2`
    log10(x)                  | floats   | `np.log10`
    log1p(x)                  | floats   | `np.log1p`
    pow(x, y)                 | floats   | `np.power`
    sin(x)                    | floats   | `np.sin`
    cos(x)                    | floats   | `np.cos`
    tan(x)                    | floats   | `np.tan`
    asin(x)                   | floats   | `np.arcsin`
    acos(x)                   | floats   | `np.arccos`
    atan(x)                   | floats   | `np.arctan`
    atan2(x, y)               | floats   | `np.arctan2`
    sinh(x)                   | floats   | `np.sinh`
    cosh(x)                   | floats   | `np.cosh`
    tanh(x)                   | floats   | `np.tanh`
    asinh(x)                  | floats   | `np.arcsinh`
    acosh(x)                  | floats   | `np.arccosh`
    atanh(x)                  | floats   | `np.arctanh`
    erf(x)                    | floats   | `math.erf`: the error function
    erfc(x)                   | floats   | `math.erfc`: `1 - erf(x)` without cancellation
    lgamma(x)                 | floats   | `math.lgamma`: the logarithm of the absolute gamma
    sigmoid(x)                | floats   | `1 / (1 + np.exp(-x))`
"""

ELEMENTWISE = dict(map(Elementwise.parse, _ROWS.strip().splitlines()))
"""The elementwise primitives by name."""

STRUCTURAL = (
    "load", "store", "reduction", "store_reduction", "scan", "constant", "index_expr",
    "indirect_indexing", "masked", "to_dtype", "to_dtype_bitcast",
)  # fmt: skip
"""The primitives that are not elementwise: each handler answers each of them itself."""

PRIMITIVES = (*STRUCTURAL, *ELEMENTWISE)

PREDICATES = frozenset(name for name, row in ELEMENTWISE.items() if row.gives_bool)
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


def use_handler(handler: OpsHandler[Any]) -> AbstractContextManager[object]:
    """Let `handler` answer `ops.*` inside the block; blocks nest, and each thread has its own."""
    return holding(_HANDLER, handler)
