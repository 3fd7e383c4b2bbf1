"""Guards on sizes that vary: relations between them, and how tensors of such sizes are laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy

from minitorch2.bytecode.guards.guard import Check, Guard, Name, SourceGuard, Test
from minitorch2.bytecode.guards.sources import Source
from minitorch2.graph.symbols import print_condition, print_naming
from minitorch2.graph.symbols.conditions import Condition
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.tensor_layout import MOST_DIMENSIONS, tensor_layout


@dataclass(frozen=True)
class ShapeCondition(Guard):
    """A relation between sizes (and other numbers) of the inputs.

    Attributes:
        condition: over symbols.
        symbols: the source of each symbol's value, such as ``x.shape[0]``.
        reason: the operator that needed it; empty for Python.
    """

    KIND = "SHAPE_ENV"
    condition: Condition
    symbols: tuple[tuple[sympy.Symbol, Source], ...]
    reason: str = ""

    def sources(self) -> tuple[Source, ...]:
        return tuple(source for _, source in self.symbols)

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        names = {symbol: path for (symbol, _), path in zip(self.symbols, paths, strict=True)}
        text = print_naming(self.condition, names, name)
        sources = (str(source).replace("{", "{{").replace("}", "}}") for source in self.sources())
        shown = ", ".join(f"{source} = {{}}" for source in sources)
        actual = f"{shown!r}.format({', '.join(paths)})"
        yield Check("shape", text, actual, str(self))

    def __str__(self) -> str:
        return print_condition(self.condition, {s: str(source) for s, source in self.symbols})


@dataclass(frozen=True)
class Contiguous(SourceGuard):
    """A tensor of varying sizes that lies in memory row by row, without holes."""

    KIND = "TENSOR_MATCH"
    rank: int

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        yield Check("layout", f"{path}.is_contiguous()", f"{path}.stride()", "contiguous")

    def tests(self) -> Sequence[Test] | None:
        layout = tensor_layout()
        if layout is None or self.rank > MOST_DIMENSIONS:
            return None
        table = [layout.tensor, layout.sizes, layout.strides, self.rank]
        return (Test(Op.CONTIGUOUS, table),)
