"""The ops handler that answers with Halide expressions: a loop body becomes a pure definition.

    tmp1 = in_ptr0[512*i0 + r0]
    buf1[r0, i0] = lib.exp(tmp1 - buf0[i0])

A value is a name for an expression of the loops' variables. It belongs to no loop: where it is
computed, and how often, is what a schedule says. So equal texts share a name
throughout a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain

import sympy
import torch

from minitorch2.codegen.common import Namer, TextValue, print_expr
from minitorch2.errors import LoweringError
from minitorch2.graph.symbols.floats import FloatBits, rounded_parts
from minitorch2.loopir.expressions import Expr, Ranges, bounds, index_symbol, simplify
from minitorch2.loopir.ops import (
    PREDICATES,
    SHORT_FLOATS,
    Number,
    OpsHandler,
    ReductionKind,
    ScanKind,
    StoreMode,
    compute_dtype,
)

INFIX = {"truediv": "/", "eq": "==", "ne": "!=", "lt": "<", "gt": ">"}
FLOAT_INFIX = {"add": "+", "sub": "-", "mul": "*"}
_EXTREME = re.compile(r"\b(max|min)\(")
_WORD = re.compile(r"\w+")


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype in a kernel."""
    return str(dtype).removeprefix("torch.")


class HalideHandler(OpsHandler[TextValue]):
    """The handler that collects lines; the kernel printer says what a body's own buffers are.

    `calls` are the values of the kernel's own buffers. `stored` is the last store.
    `complaints` are the texts of computed indices out of range, with the size that they exceed.
    """

    def __init__(self, pointer: Callable[[str], str], dtypes: dict[str, torch.dtype]) -> None:
        self.pointer, self.dtypes = pointer, dtypes
        self.namer, self.names = Namer(), dict[str, TextValue]()
        self.texts: dict[str, str] = {}
        self.lines: list[str] = []
        self.sizes: dict[sympy.Basic, str] = {}
        self.ranges: Ranges = ()
        self.calls: dict[str, TextValue] = {}
        self.masks: list[TextValue] = []
        self.complaints: dict[str, Expr] = {}
        self.stored: tuple[Expr, TextValue, StoreMode]
        self.reduce: Callable[[str, torch.dtype, list[TextValue]], TextValue]

    def assign(self, text: str, dtype: torch.dtype, prefix: str = "tmp") -> TextValue:
        """Return the name of an expression."""
        key = f"{dtype} {text}"
        if key not in self.names:
            self.names[key] = found = TextValue(self.namer.fresh(prefix), dtype, 0)
            self.lines.append(f"{found} = {text}")
            self.texts[found.text] = text
        return self.names[key]

    def index(self, expr: Expr) -> str:
        """Return an address, or a number made of sizes, as text."""
        simple = sympy.sympify(simplify(expr, self.ranges))
        simple = simple.xreplace({part: self.size(part) for part in rounded_parts(simple)})
        loops = {symbol for symbol, _ in self.ranges}
        sizes = {s: self.size(s) for s in simple.free_symbols - loops if self.is_size(s)}
        return _EXTREME.sub(r"hl.\1(", print_expr(simple.xreplace(sizes)))

    def is_size(self, symbol: sympy.Symbol) -> bool:
        """Return whether a symbol is none of the kernel's own."""
        return str(symbol) not in self.texts and str(symbol) not in self.sizes.values()

    def size(self, expr: sympy.Basic) -> sympy.Symbol:
        """Return the argument for a size; the bits of a float are a `word`."""
        kind = "word" if expr.has(FloatBits) else "size"
        name = self.sizes.setdefault(expr, f"{kind}{len(self.sizes)}")
        return index_symbol(name)

    def variables(self, text: str) -> set[str]:
        """Return the loops that an expression depends on."""
        loops = {str(symbol) for symbol, _ in self.ranges}
        words = set(_WORD.findall(text))
        inner = (self.variables(self.texts[word]) for word in words & self.texts.keys())
        return words & loops | set(chain.from_iterable(inner))

    # -- memory ------------------------------------------------------------------------------------

    def load(self, name: str, index: Expr) -> TextValue:
        """`tmp0 = in_ptr0[...]`, or the value of the kernel's own buffer."""
        if name in self.calls:
            return self.calls[name]
        pointer, text, dtype = self.pointer(name), self.index(index), self.dtypes[name]
        place = f"{pointer}[{f'lib.inside({pointer}, {text})' if self.masks else text}]"
        if dtype in SHORT_FLOATS:
            place = f"lib.from_{name_of(dtype)}({place})"
        return self.assign(f"{place} != 0" if dtype == torch.bool else place, compute_dtype(dtype))

    def store(self, name: str, index: Expr, value: TextValue, mode: StoreMode = "set") -> None:
        """Note what is stored; the printer defines a function of it."""
        self.stored = index, value, mode

    def store_reduction(self, name: str, index: Expr, value: TextValue) -> None:
        """Note what is stored."""
        self.stored = index, value, "set"

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: TextValue | tuple[TextValue, TextValue],
    ) -> TextValue:
        """Return the total, for which the printer defines functions."""
        return self.reduce(kind, dtype, [*value] if isinstance(value, tuple) else [value])

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: TextValue) -> TextValue:
        """Return what has been combined so far."""
        return self.reduce(f"scan {kind}", dtype, [value])

    # -- values ------------------------------------------------------------------------------------

    def constant(self, value: Number, dtype: torch.dtype) -> TextValue:
        """Return a number."""
        kind = compute_dtype(dtype)
        number = float(value) if kind.is_floating_point else int(value)
        text = f"float('{number}')" if number in (float("inf"), -float("inf")) else repr(number)
        text = "float('nan')" if number != number else text
        return TextValue(f"lib.constant({text}, '{name_of(kind)}')", kind, 0)

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> TextValue:
        """Return an expression of indices, which Halide computes in int32."""
        limits = bounds(expr, self.ranges) or ()
        if any(isinstance(end, int) and abs(end) >= 2**31 for end in limits):
            raise LoweringError("Halide computes indices in 32 bits")
        if isinstance(expr, sympy.Basic) and expr.has(FloatBits):
            return TextValue(str(self.size(expr)), torch.int64, 0)
        wide = f"hl.i64({self.index(expr)})"
        return self.to_dtype(TextValue(wide, torch.int64, 0), dtype)

    def indirect_indexing(
        self, value: TextValue, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Return a computed index, which is kept inside; what was outside is a complaint."""
        limit = self.index(size)
        wide = self.assign(f"lib.wrapped({value}, {limit}, {wrap})", torch.int64, "indirect")
        if check:
            masks = ", ".join(mask.text for mask in self.masks)
            self.complaints[f"lib.complaint({value}, {wide}, {limit}, {masks})"] = size
        return index_symbol(self.assign(f"lib.position({wide}, {limit})", torch.int32, "at").text)

    def masked(self, mask: TextValue, body: Callable[[], TextValue], other: Number) -> TextValue:
        """Return a choice; what is loaded inside has its index moved into the memory."""
        self.masks.append(mask)
        value = body()
        self.masks.pop()
        return self.elementwise("where", mask, value, self.constant(other, value.dtype))

    def to_dtype(self, x: TextValue, dtype: torch.dtype) -> TextValue:
        """Return a cast; 16-bit floats are rounded float32."""
        if x.dtype == dtype:
            return x
        kind = compute_dtype(dtype)
        text = x.text if x.dtype == kind else f"lib.convert({x}, '{name_of(kind)}')"
        if dtype in SHORT_FLOATS:
            text = f"lib.from_{name_of(dtype)}({self.element(TextValue(text, kind, 0), dtype)})"
        return self.assign(text, kind)

    def to_dtype_bitcast(
        self, x: TextValue, dtype: torch.dtype, src_dtype: torch.dtype
    ) -> TextValue:
        """Return the same bits as another dtype."""
        if src_dtype == dtype:
            return x
        bits = self.element(x, src_dtype) if src_dtype in SHORT_FLOATS else x.text
        if dtype in SHORT_FLOATS:
            bits = f"lib.from_{name_of(dtype)}(lib.bitcast({bits}, 'uint16'))"
            return self.assign(bits, torch.float32)
        return self.assign(f"lib.bitcast({bits}, '{name_of(dtype)}')", dtype)

    def element(self, value: TextValue, dtype: torch.dtype) -> str:
        """Return a value as memory of a dtype holds it."""
        if dtype in SHORT_FLOATS:
            return f"lib.to_{name_of(dtype)}({value})"
        return f"hl.u8({value})" if dtype == torch.bool else value.text

    def elementwise(self, name: str, *args: TextValue) -> TextValue:
        """Return an operator or a call."""
        operand = args[-1].dtype
        sign = INFIX.get(name) or (FLOAT_INFIX.get(name) if operand.is_floating_point else None)
        text = (
            f" {sign} ".join(map(str, args)) if sign else f"lib.{name}({', '.join(map(str, args))})"
        )
        return self.assign(text, torch.bool if name in PREDICATES else operand)
