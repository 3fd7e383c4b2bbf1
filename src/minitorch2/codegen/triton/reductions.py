"""Kinds of reduction as Triton text: neutral element, how two blocks combine, how one collapses."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minitorch2.codegen.triton.values import number_text, triton_dtype
from minitorch2.loopir.ops import Number, ReductionKind

POSITIONED = ("argmax", "argmin")
"""Kinds whose elements are pairs (candidate, position)."""


@dataclass(frozen=True)
class ReductionPrinter:
    """The printer of one kind of reduction for elements of one dtype. Bools are reduced as int32,
    which `tl.max` has.
    """

    kind: ReductionKind
    dtype: torch.dtype

    def neutral(self) -> str:
        """Return the element that changes nothing."""
        return number_text(_neutral(self.kind, self.dtype), self.dtype)

    def accumulator(self, width: str) -> str:
        """Return a block of neutral elements."""
        return f"tl.full([XBLOCK, {width}], {self.neutral()}, {triton_dtype(self.dtype)})"

    def combine(self, x: str, y: str) -> str:
        """Combine two blocks, element by element."""
        if self.kind == "sum":
            return f"{x} + {y}"
        if self.kind in ("prod", "xor_sum"):
            return f"{x} {'*' if self.kind == 'prod' else '^'} {y}"
        return f"lib.{'minimum' if self.kind == 'min' else 'maximum'}({x}, {y})"

    def collapse(self, block: str) -> str:
        """Return a block along its second dimension: a column of results."""
        return f"{self.reduced(block)}[:, None]"

    def reduced(self, block: str) -> str:
        """Return a block without its second dimension."""
        if self.kind == "sum":
            text = f"tl.sum({block}, 1)"
        elif self.kind in ("prod", "xor_sum"):
            text = f"tl.reduce({block}, 1, lib.{'product' if self.kind == 'prod' else 'xor'})"
        else:
            text = self._extremum(block)
        # tl.sum and tl.max widen small integers to 32 bits
        return text + (f".to({triton_dtype(self.dtype)})" if self.dtype.itemsize < 4 else "")

    def scan(self, block: str) -> str:
        """Return the running combination along the second dimension of a block."""
        function = {"sum": "add", "prod": "product", "max": "maximum", "min": "minimum"}[self.kind]
        text = f"tl.associative_scan({block}, 1, lib.{function})"
        return f"({text}).to({triton_dtype(self.dtype)})"

    def _extremum(self, block: str) -> str:
        name = "min" if self.kind == "min" else "max"
        if self.dtype.is_floating_point:  # tl.max would lose NaN
            return f"tl.reduce({block}, 1, lib.{name}imum)"
        return f"tl.{name}({block}, 1)"


def _neutral(kind: ReductionKind, dtype: torch.dtype) -> Number:
    if kind in ("max", "argmax"):
        return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min
    if kind in ("min", "argmin"):
        return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max
    return 1 if kind == "prod" else 0
