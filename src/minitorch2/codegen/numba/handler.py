"""The ops handler that answers with Numba source: a loop body becomes the lines of a kernel.

Each value is a variable, named in the outermost loop in which it can be computed. Loads of buffers
that the kernel itself computes do not go to memory while a variable holds the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch

from minitorch2.codegen.common import Block, Namer, TextValue, print_expr
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.cuts import COMPARISONS, decided
from minitorch2.graph.symbols.floats import rounded_parts
from minitorch2.loopir.expressions import Expr, Ranges, index_symbol, simplify
from minitorch2.loopir.ops import (
    SHORT_FLOATS,
    Number,
    OpsHandler,
    ReductionKind,
    ScanKind,
    StoreMode,
    compute_dtype,
)

_CHOICES = {
    "neg", "abs", "maximum", "minimum", "where", "copysign", "floor", "ceil", "trunc", "round",
}  # fmt: skip
_SETTLED = ("True", "False")
_DECISIVE = {"logical_and": "False", "logical_or": "True"}
"""The answer that settles a question whatever the other part of it is."""
WRONG = "wrong"
"""The variable of a kernel that says whether an index that could only be 0 was not."""


@dataclass
class Arguments:
    """The arguments of a kernel by the order of their first use.

    `storage` says which buffers share memory (in-place reuse): they share a pointer.
    """

    dtypes: Mapping[str, torch.dtype]
    storage: dict[str, str]
    read: set[str]
    written: set[str]
    pointers: dict[str, str] = field(default_factory=dict)
    sizes: dict[sympy.Expr, str] = field(default_factory=dict)
    namer: Namer = field(default_factory=Namer)

    def root(self, buffer: str) -> str:
        """Return the buffer whose memory this one uses."""
        return self.storage.get(buffer, buffer)

    def pointer(self, buffer: str) -> str:
        """Return the pointer argument for a buffer: in_ptr0, out_ptr0, in_out_ptr0..."""
        root = self.root(buffer)
        if root not in self.pointers:
            way = ("in_" if root in self.read else "") + ("out_" if root in self.written else "")
            self.pointers[root] = self.namer.fresh(f"{way}ptr")
        return self.pointers[root]

    def size(self, expr: sympy.Expr) -> str:
        """Return the argument for a size symbol, or an integer computed of sizes: size0, ..."""
        if expr not in self.sizes:
            self.sizes[expr] = f"size{len(self.sizes)}"
        return self.sizes[expr]


class NumbaHandler(OpsHandler[TextValue]):
    """The handler that writes into `block`, the innermost loop at the moment.

    The kernel printer sets `block`, the depth of each loop variable (`depths`), and tells where the
    values of the kernel's own buffers are (`at_hand`). `bfloats` are the values that are numbers of
    bfloat16 though kept as float32: they are stored without rounding. `patterns` are the variables
    with the 16 bits that values have in memory, where a kernel has them. `places` are the values
    that are indices, or numbers that these are compared with.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.namer = Namer()
        self.block = self.function = Block("")
        self.depths: dict[str, int] = {}
        self.ranges: Ranges = ()
        self.at_hand: dict[str, Callable[[], TextValue]] = {}
        self.on_store: Callable[[str, TextValue], bool] = lambda name, value: True
        self.stage: Callable[[str, Expr], TextValue | None] = lambda name, index: None
        self.reduce: Callable[[ReductionKind, torch.dtype, list[TextValue]], TextValue]
        self.pending: list[tuple[str, Expr, TextValue]] = []
        self.checks_late = False
        self.bfloats: set[str] = set()
        self.patterns: dict[tuple[str, torch.dtype], TextValue] = {}
        self.places: dict[str, Expr] = {}

    # -- names ------------------------------------------------------------------------------------

    def assign(self, text: str, dtype: torch.dtype, depth: int, prefix: str = "tmp") -> TextValue:
        """Return the variable that holds an expression, in the outermost possible loop."""
        block = self.block.at_depth(depth)
        key = f"{dtype} {text}"
        found = block.find(key)
        if found is None:
            found = TextValue(self.namer.fresh(prefix), dtype, block.depth)
            block.names[key] = found
            block.lines.append(f"{found} = {text}")
        if text.startswith("from_bfloat16("):
            self.bfloats.add(found.text)
        return found

    def index(self, expr: Expr) -> tuple[str, int]:
        """Return an address as text, and the depth of the loops that it depends on."""
        simple = simplify(expr, self.ranges)
        if isinstance(simple, int):
            return str(simple), 0
        rounded = {part: self._size(part) for part in sorted(rounded_parts(simple), key=str)}
        simple = simple.xreplace(rounded)
        outside = [s for s in sorted(simple.free_symbols, key=str) if s.name not in self.depths]
        sizes = {s: self._size(s) for s in outside if s not in rounded.values()}
        depth = max((self.depths.get(s.name, 0) for s in simple.free_symbols), default=0)
        return print_expr(simple.xreplace(sizes)), depth

    def _size(self, expr: sympy.Expr) -> sympy.Symbol:
        return sympy.Symbol(self.arguments.size(expr), integer=True)

    # -- memory ------------------------------------------------------------------------------------

    def load(self, name: str, index: Expr) -> TextValue:
        """`tmp0 = in_ptr0[...]`, or the variable that holds the value already."""
        if name in self.at_hand:
            return self.at_hand[name]()
        staged = self.stage(name, index)
        if staged is not None:
            return staged
        dtype = self.arguments.dtypes[name]
        text, depth = self.index(index)
        if self.arguments.root(name) in self.arguments.written:  # a store may change it
            depth = self.block.depth
        return self.read(dtype, f"{self.arguments.pointer(name)}[{text}]", depth)

    def read(self, dtype: torch.dtype, place: str, depth: int) -> TextValue:
        """Return the value of a memory element; the bits of a 16-bit float stay known."""
        if dtype not in SHORT_FLOATS:
            return self.assign(operators.load(dtype, place), dtype, depth)
        return self._from_pattern(self.assign(place, torch.uint16, depth, "half"), dtype)

    def _from_pattern(self, pattern: TextValue, dtype: torch.dtype) -> TextValue:
        text = operators.load(dtype, pattern.text)
        value = self.assign(text, compute_dtype(dtype), pattern.depth)
        self.patterns[value.text, dtype] = pattern
        return value

    def _pattern(self, value: TextValue, dtype: torch.dtype) -> TextValue:
        """Return the bits of a value in memory as a 16-bit float."""
        known = self.patterns.get((value.text, dtype))
        return known or self.assign(self._element(value, dtype), torch.uint16, value.depth, "half")

    def _element(self, value: TextValue, dtype: torch.dtype) -> str:
        """Return the element of memory that a value becomes."""
        known = self.patterns.get((value.text, dtype))
        is_exact = value.text in self.bfloats
        return known.text if known else operators.store(dtype, value.text, is_exact=is_exact)

    def store(self, name: str, index: Expr, value: TextValue, mode: StoreMode = "set") -> None:
        """`out_ptr0[...] = tmp0`, unless the kernel keeps the value to itself."""
        if not self.on_store(name, value):
            return
        text, _ = self.index(index)
        place, dtype = f"{self.arguments.pointer(name)}[{text}]", self.arguments.dtypes[name]
        element = self._element(value, dtype)
        if mode == "add":
            terms = [operators.load(dtype, place), value.text]
            result = operators.elementwise("add", terms, compute_dtype(dtype))
            element = operators.store(dtype, result)
        self.block.lines.append(f"{place} = {element}")

    def store_reduction(self, name: str, index: Expr, value: TextValue) -> None:
        """The kernel printer stores results when the loop has ended."""
        self.pending.append((name, index, value))

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: TextValue | tuple[TextValue, TextValue],
    ) -> TextValue:
        """Write one step of the accumulation."""
        values = list(value) if isinstance(value, tuple) else [value]
        return self.reduce(kind, dtype, values)

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: TextValue) -> TextValue:
        """Write one step of the accumulation, and return the accumulator's new value."""
        held = self.reduce(kind, dtype, [value])
        result = TextValue(self.namer.fresh("tmp"), dtype, self.block.depth)
        self.block.lines.append(f"{result} = {held}")
        return result

    # -- values ------------------------------------------------------------------------------------

    def constant(self, value: Number, dtype: torch.dtype) -> TextValue:
        """Return a literal, in place."""
        text = operators.constant(value, compute_dtype(dtype))
        if dtype == torch.int64:
            self.places[text] = int(value)
        for short in SHORT_FLOATS if compute_dtype(dtype) == torch.float32 else ():
            pattern = operators.pattern(value, short)
            if pattern is not None:
                self.patterns[text, short] = TextValue(pattern, torch.uint16, 0)
        if (text, torch.bfloat16) in self.patterns:
            self.bfloats.add(text)
        return TextValue(text, compute_dtype(dtype), 0)

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> TextValue:
        """Return the expression, computed in int64."""
        text, depth = self.index(expr)
        result = compute_dtype(dtype)
        if result == torch.int64:
            value = TextValue(f"int64({text})", result, depth)
            self.places[value.text] = expr
            return value
        return self.assign(operators.convert(f"({text})", torch.int64, result), result, depth)

    def indirect_indexing(
        self, value: TextValue, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Return a computed index, which is checked; by `wrap` negative ones count from the end."""
        limit, depth = self.index(size)
        depth = max(depth, value.depth)
        wide = self.assign(
            operators.convert(value.text, value.dtype, torch.int64), torch.int64, depth
        )
        found = wide
        if wrap:
            text = f"where({wide} < 0, {wide} + {limit}, {wide})"
            found = self.assign(text, torch.int64, depth, "indirect")
        self.depths[found.text] = found.depth
        block = self.block.at_depth(depth)
        if check and limit == "1":
            return self._only_zero(found)
        checked = f"{found} in {limit}"
        if check and block.find(checked) is None:
            block.names[checked] = found
            block.lines += [
                f"if {found} < 0 or {found} >= {limit}:",
                f"    error[0], error[1] = {wide}, {limit}",
                "    return 1",
            ]
        return index_symbol(found.text)

    def _only_zero(self, found: TextValue) -> Expr:
        """Return an index that can only be 0; it is checked after all loops.

        Otherwise the loop could be left early, and so would not be vectorized.
        """
        if not self.checks_late:
            self.checks_late = True
            self.function.lines.insert(0, f"{WRONG} = False")
        self.block.lines.append(f"{WRONG} = {WRONG} | ({found} != 0)")
        return 0

    def masked(self, mask: TextValue, body: Callable[[], TextValue], other: Number) -> TextValue:
        """Write `if mask:` around the body: memory is not read where the mask is false."""
        if mask.text == "True":
            return body()
        outer = self.block
        inside = Block(f"if {mask}:", parent=outer, is_loop=False)
        self.block = inside
        value = body()
        self.block = outer
        default = self.constant(other, value.dtype)
        if mask.text == "False":
            return default
        if not any("_ptr" in str(line) or isinstance(line, Block) for line in inside.lines):
            outer.lines += inside.lines  # nothing is read: a choice between two values will do
            outer.names |= inside.names
            chosen = self._chosen(mask, value, default)
            return chosen or self._same_bfloats(self._where(mask, value, default), value, default)
        kind, value, default = self._patterns_of(value, default) or (None, value, default)
        result = TextValue(self.namer.fresh("half" if kind else "tmp"), value.dtype, outer.depth)
        inside.lines.append(f"{result} = {value}")
        outer.lines.append(f"{result} = {default}")
        inside.close()
        if kind is not None:
            return self._from_pattern(result, kind)
        return self._same_bfloats(result, value, default)

    def _where(self, mask: TextValue, x: TextValue, y: TextValue) -> TextValue:
        depth = max(mask.depth, x.depth, y.depth)
        return self.assign(f"where({mask}, {x}, {y})", x.dtype, depth)

    def _patterns_of(
        self, x: TextValue, y: TextValue
    ) -> tuple[torch.dtype, TextValue, TextValue] | None:
        """Return the bits of two values that both have in memory, and the dtype there."""
        for dtype in SHORT_FLOATS:
            first, second = self.patterns.get((x.text, dtype)), self.patterns.get((y.text, dtype))
            if first is not None and second is not None:
                return dtype, first, second
        return None

    def _chosen(self, mask: TextValue, x: TextValue, y: TextValue) -> TextValue | None:
        """Choose one of two 16-bit floats by their bits, so that a NaN keeps its bits."""
        found = self._patterns_of(x, y)
        return found and self._from_pattern(self._where(mask, *found[1:]), found[0])

    def to_dtype(self, x: TextValue, dtype: torch.dtype) -> TextValue:
        """Return a cast."""
        if x.dtype == dtype or (x.text, dtype) in self.patterns:
            return x
        text = operators.convert(x.text, x.dtype, dtype)
        return self.assign(text, compute_dtype(dtype), x.depth)

    def to_dtype_bitcast(
        self, x: TextValue, dtype: torch.dtype, src_dtype: torch.dtype
    ) -> TextValue:
        """Return the same bits as another dtype; a 16-bit float has the bits that memory has."""
        if src_dtype == dtype:
            return x
        if src_dtype in SHORT_FLOATS:
            x, src_dtype = self._pattern(x, src_dtype), torch.uint16
        if dtype not in SHORT_FLOATS:
            return self.assign(operators.bitcast(x.text, src_dtype, dtype), dtype, x.depth)
        text = operators.bitcast(x.text, src_dtype, torch.uint16)
        return self._from_pattern(self.assign(text, torch.uint16, x.depth, "half"), dtype)

    def elementwise(self, name: str, *args: TextValue) -> TextValue:
        """Return an operator or a call of the vocabulary."""
        settled = self._settled(name, args)
        if settled is not None:
            return settled
        chosen = self._chosen(*args) if name == "where" else None
        if chosen is not None:
            return chosen
        dtypes = [arg.dtype for arg in args]
        operand = dtypes[1] if name == "where" else dtypes[0]
        texts = [arg.text for arg in args]
        loaded = (text in self.bfloats and text.isidentifier() for text in texts)  # no constants
        of_bfloats = operand == torch.float32 and all(loaded)
        text = operators.elementwise(name, texts, operand, of_bfloats=of_bfloats)
        depth = max(arg.depth for arg in args)
        result = self.assign(text, operators.result_dtype(name, dtypes), depth)
        return self._same_bfloats(result, *args) if name in _CHOICES else result

    def _settled(self, name: str, args: Sequence[TextValue]) -> TextValue | None:
        """Return the result of an operation that is the same in the whole loop, else None."""
        if name in COMPARISONS and all(arg.text in self.places for arg in args):
            a, b = (self.places[arg.text] for arg in args)
            answer = decided(name, a, b, self.ranges)
            return None if answer is None else self.constant(answer, torch.bool)
        if name == "where" and args[0].text in _SETTLED:
            return args[1 if args[0].text == "True" else 2]
        if name in _DECISIVE and any(arg.text in _SETTLED for arg in args):
            decisive = [arg for arg in args if arg.text == _DECISIVE[name]]
            return (decisive or [arg for arg in args if arg.text not in _SETTLED] or [*args])[0]
        return None

    def _same_bfloats(self, result: TextValue, *values: TextValue) -> TextValue:
        """Note that a result, one of these values up to its sign, is a bfloat16 if they are."""
        if all(v.text in self.bfloats for v in values if v.dtype.is_floating_point):
            self.bfloats.add(result.text)
        return result
