"""The handler that types a loop body: a value is the dtype it has.

It checks the typing rules of `minitorch2.loopir.ops`, so that code generators may rely on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from minitorch2.errors import VerificationError
from minitorch2.loopir.expressions import Expr, index_symbol
from minitorch2.loopir.ops import (
    ELEMENTWISE,
    PREDICATES,
    Number,
    OpsHandler,
    ReductionKind,
    ScanKind,
    StoreMode,
    compute_dtype,
)


def result_dtype(name: str, *args: torch.dtype) -> torch.dtype:
    """Return the dtype of an elementwise primitive's result.

    Raises:
        VerificationError: the operands break a typing rule.
    """
    operands = args[1:] if name == "where" else args
    if name == "where" and args[0] != torch.bool:
        raise VerificationError(f"ops.where takes a bool condition, not {args[0]}")
    if len(set(operands)) > 1:
        raise VerificationError(f"ops.{name} takes operands of one dtype, not {operands}")
    if not _accepts(name, operands[0]):
        raise VerificationError(f"ops.{name} does not take {operands[0]}")
    return torch.bool if name in PREDICATES else operands[0]


def _accepts(name: str, dtype: torch.dtype) -> bool:
    if dtype != compute_dtype(dtype) or dtype.is_complex:
        return False
    takes = ELEMENTWISE[name].takes
    if dtype == torch.bool:
        return takes in ("any", "bools")
    return takes in ("any", "numbers", "floats" if dtype.is_floating_point else "integers")


class TypingHandler(OpsHandler[torch.dtype]):
    """`dtypes` gives each buffer's dtype in memory.

    Raises:
        VerificationError: a body breaks a typing rule.
    """

    def __init__(self, dtypes: Mapping[str, torch.dtype]) -> None:
        self.dtypes = dtypes

    def load(self, name: str, index: Expr) -> torch.dtype:
        """Return the compute dtype of the buffer."""
        return compute_dtype(self.dtypes[name])

    def store(self, name: str, index: Expr, value: torch.dtype, mode: StoreMode = "set") -> None:
        """The value must have the buffer's compute dtype; bools are not added."""
        if mode == "add":
            result_dtype("add", value, value)
        if value != compute_dtype(self.dtypes[name]):
            raise VerificationError(f"{value} is stored into {name} of {self.dtypes[name]}")

    def store_reduction(self, name: str, index: Expr, value: torch.dtype) -> None:
        """The value must have the buffer's compute dtype."""
        self.store(name, index, value)

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: torch.dtype | tuple[torch.dtype, torch.dtype],
    ) -> torch.dtype:
        """Check that the value has dtype `src_dtype`; argmax and argmin add an int64 position."""
        expected = (src_dtype, torch.int64) if kind in ("argmax", "argmin") else src_dtype
        if value != expected:
            raise VerificationError(f"reduction {kind} of {src_dtype} is given {value}")
        return dtype

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: torch.dtype) -> torch.dtype:
        """Check that the value has the given compute dtype."""
        if value != dtype or dtype == torch.bool:
            raise VerificationError(f"scan {kind} of {dtype} is given {value}")
        return dtype

    def constant(self, value: Number, dtype: torch.dtype) -> torch.dtype:
        """Return the given dtype, which must be a compute dtype."""
        if dtype != compute_dtype(dtype):
            raise VerificationError(f"no value has dtype {dtype}: it lives in memory only")
        return dtype

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> torch.dtype:
        """Return the given dtype, which must be a compute dtype."""
        return self.constant(0, dtype)

    def indirect_indexing(
        self, value: torch.dtype, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Check that the value is an integer."""
        if value.is_floating_point or value == torch.bool:
            raise VerificationError(f"{value} is no index")
        return index_symbol("indirect0")

    def masked(
        self, mask: torch.dtype, body: Callable[[], torch.dtype], other: Number
    ) -> torch.dtype:
        """Return the body's dtype; the mask must be bool."""
        if mask != torch.bool:
            raise VerificationError(f"ops.masked takes a bool mask, not {mask}")
        return body()

    def to_dtype(self, x: torch.dtype, dtype: torch.dtype) -> torch.dtype:
        """Return the compute dtype of `dtype`."""
        return compute_dtype(dtype)

    def to_dtype_bitcast(
        self, x: torch.dtype, dtype: torch.dtype, src_dtype: torch.dtype
    ) -> torch.dtype:
        """Return the compute dtype of `dtype`; both must have the same width."""
        if dtype.itemsize != src_dtype.itemsize or x != compute_dtype(src_dtype):
            raise VerificationError(f"the bits of {x} ({src_dtype}) are no {dtype}")
        return compute_dtype(dtype)

    def elementwise(self, name: str, *args: torch.dtype) -> torch.dtype:
        """Return the operands' dtype, or bool for a predicate."""
        return result_dtype(name, *args)
