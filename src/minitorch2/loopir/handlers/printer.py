"""The handler that prints a loop body as Python that runs again.

    tmp0 = ops.load('arg0', i0*s1 + i1)
    tmp1 = ops.log(tmp0)
    tmp2 = ops.mul(tmp1, ops.constant(1.4426950408889634, torch.float32))

Equal calls are printed once. The text needs the names `ops`, `torch`, `FloorDiv`,
`ModularIndexing` and those of the size symbols.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from minitorch2.loopir.expressions import Expr, Ranges, index_symbol, simplify
from minitorch2.loopir.ops import Number, OpsHandler, ReductionKind, ScanKind, StoreMode

INDENT = "    "


class PrintingHandler(OpsHandler[str]):
    """A value is the name of a local variable, or the text of a constant.

    `ranges` of the index variables, if given, simplify the printed addresses.
    """

    def __init__(self, ranges: Ranges = ()) -> None:
        self.ranges = ranges
        self.lines: list[str] = []
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def _fresh(self, prefix: str) -> str:
        self._counts[prefix] = self._counts.get(prefix, -1) + 1
        return f"{prefix}{self._counts[prefix]}"

    def _assign(self, call: str, prefix: str = "tmp") -> str:
        if call not in self._names:
            self._names[call] = self._fresh(prefix)
            self.lines.append(f"{self._names[call]} = {call}")
        return self._names[call]

    def load(self, name: str, index: Expr) -> str:
        """`tmp = ops.load('name', index)`"""
        return self._assign(f"ops.load({name!r}, {simplify(index, self.ranges)})")

    def store(self, name: str, index: Expr, value: str, mode: StoreMode = "set") -> None:
        """`ops.store('name', index, tmp)`, or with `mode='add'`"""
        address, tail = simplify(index, self.ranges), "" if mode == "set" else f", mode={mode!r}"
        self.lines.append(f"ops.store({name!r}, {address}, {value}{tail})")

    def store_reduction(self, name: str, index: Expr, value: str) -> None:
        """`ops.store_reduction('name', index, tmp)`"""
        address = simplify(index, self.ranges)
        self.lines.append(f"ops.store_reduction({name!r}, {address}, {value})")

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: str | tuple[str, str],
    ) -> str:
        """`tmp = ops.reduction(dtype, src_dtype, 'kind', tmp)`"""
        text = value if isinstance(value, str) else f"({', '.join(value)})"
        return self._assign(f"ops.reduction({dtype}, {src_dtype}, {kind!r}, {text})")

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: str) -> str:
        """`tmp = ops.scan(dtype, 'kind', tmp)`"""
        return self._assign(f"ops.scan({dtype}, {kind!r}, {value})")

    def constant(self, value: Number, dtype: torch.dtype) -> str:
        """Return `ops.constant(2.0, torch.float32)`, in place."""
        text = repr(value) if repr(value) not in ("inf", "-inf", "nan") else f"float('{value}')"
        return f"ops.constant({text}, {dtype})"

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> str:
        """`tmp = ops.index_expr(expr, dtype)`"""
        return self._assign(f"ops.index_expr({simplify(expr, self.ranges)}, {dtype})")

    def indirect_indexing(
        self, value: str, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """`indirect0 = ops.indirect_indexing(tmp, size)`"""
        tail = ("" if check else ", check=False") + ("" if wrap else ", wrap=False")
        call = f"ops.indirect_indexing({value}, {size}{tail})"
        return index_symbol(self._assign(call, "indirect"))

    def masked(self, mask: str, body: Callable[[], str], other: Number) -> str:
        """Print a local function `body0` and `tmp = ops.masked(mask, body0, other)`"""
        outer_lines, outer_names = self.lines, dict(self._names)
        self.lines = []
        result = body()
        inner = [*self.lines, f"return {result}"]
        self.lines, self._names = outer_lines, outer_names
        name = self._fresh("body")
        self.lines += [f"def {name}():", *(INDENT + line for line in inner)]
        text = repr(other) if repr(other) not in ("inf", "-inf", "nan") else f"float('{other}')"
        return self._assign(f"ops.masked({mask}, {name}, {text})")

    def to_dtype(self, x: str, dtype: torch.dtype) -> str:
        """`tmp = ops.to_dtype(tmp, dtype)`"""
        return self._assign(f"ops.to_dtype({x}, {dtype})")

    def to_dtype_bitcast(self, x: str, dtype: torch.dtype, src_dtype: torch.dtype) -> str:
        """`tmp = ops.to_dtype_bitcast(tmp, dtype, src_dtype)`"""
        return self._assign(f"ops.to_dtype_bitcast({x}, {dtype}, {src_dtype})")

    def elementwise(self, name: str, *args: str) -> str:
        """`tmp = ops.name(tmp, ...)`"""
        return self._assign(f"ops.{name}({', '.join(args)})")
