"""The choice of the sizes and numbers of a captured frame's inputs that are symbols.

    dynamic=False   none
    dynamic=True    all dimensions of inputs; those of weights stay numbers
    dynamic=None    those that changed since the code was compiled before (*automatic*)

A dimension that the user marked is as marked, whatever `dynamic` says. Sizes 0 and 1 are always
numbers. An ``int`` or ``float`` argument is a symbol from its second value on, and may then be any
number, 0 and 1 too. PyTorch 2 paper, section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sympy
import torch

from minitorch2 import config
from minitorch2.bytecode.guards.guard import Guard
from minitorch2.bytecode.guards.shapes import Contiguous, ShapeCondition
from minitorch2.bytecode.guards.sources import (
    AttributeSource,
    ItemSource,
    Source,
    StrideSource,
    is_drawn,
)
from minitorch2.errors import DynamicSizeError
from minitorch2.graph.symbols import ShapeEnv, SizeSymbol, expr_of, free_symbols, print_expr
from minitorch2.graph.symbols.conditions import Comparison, Condition, compare, map_condition
from minitorch2.graph.symbols.ranges import ANY, Range, range_of
from minitorch2.graph.symbols.report import chain_of, describe_chain
from minitorch2.marks.dimensions import DimensionMark, marks_of

SMALLEST_SIZE: Final = 2
"""The smallest size that may be a symbol: 0 and 1 are always numbers."""
_STATIC: Final = DimensionMark("static")
_DYNAMIC: Final = DimensionMark("maybe")
_RAGGED: Final = DimensionMark("ragged")
"""The length of all rows of a jagged tensor together: it equals another size by chance only."""


@dataclass
class SizeHistory:
    """The sizes and numbers with which a code object was compiled; None where they changed.

    Attributes:
        counted: the numbers of modules that the code writes itself.
        fixed: numbers made constants, and how much varied: a size that they equal may vary later.
    """

    shapes: dict[Source, tuple[int | None, ...]] = field(default_factory=dict)
    numbers: dict[Source, float | None] = field(default_factory=dict)
    fixed: dict[Source, int] = field(default_factory=dict)
    counted: set[Source] = field(default_factory=set)

    def note_shape(self, source: Source, shape: Sequence[int]) -> tuple[int | None, ...]:
        """Compare with earlier shapes; dimensions that changed are None. A new rank starts anew."""
        before = self.shapes.get(source)
        if before is None or len(before) != len(shape):
            before = tuple(shape)
        merged = tuple(n if n == old else None for n, old in zip(shape, before, strict=True))
        self.shapes[source] = merged
        return merged

    def note_number(self, source: Source, value: float) -> bool:
        """Return whether the number has changed since the code was compiled for the first time."""
        before = self.numbers.setdefault(source, value)
        if repr(before) != repr(value):  # which tells zeros, and takes a NaN for equal to itself
            self.numbers[source] = None
        return self.numbers[source] is None and self.fixed.get(source) != self.varying()

    def varying(self) -> int:
        """Return how many sizes and numbers have changed."""
        return sum([*each].count(None) for each in (*self.shapes.values(), self.numbers.values()))


@dataclass(frozen=True)
class SymbolicLayout:
    """Sizes and strides of an input, some of them symbols, and the conditions on the strides."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dynamic: frozenset[int]


class Sizes:
    """The symbols of one capture.

    Attributes:
        env: symbols and the guards on them.
        history: the sizes of earlier compilations of the same code.
        guards: the guards besides those of `env`: on equal sizes, and on strides.
    """

    def __init__(self, history: SizeHistory) -> None:
        self.env = ShapeEnv(duck_shapes=config.current().duck_shapes)
        self.history = history
        self.mode = config.current().dynamic
        self.guards: list[Guard] = []

    # Inputs --------------------------------------------------------------------------------------

    def of_tensor(
        self, tensor: torch.Tensor, source: Source, *, is_weight: bool, ragged: int | None = None
    ) -> SymbolicLayout | None:
        """Return sizes and strides of an input tensor; None if all of them are numbers.

        In the dimension `ragged` a jagged tensor has its rows, one after another.
        """
        marks = self._marks(tensor, source, is_weight)
        if ragged is not None and self.mode is not False:
            marks[ragged] = _RAGGED
        shape = AttributeSource(source, "shape")
        places = [ItemSource(shape, d) for d in range(tensor.dim())]
        sizes = tuple(
            size if mark.kind == "static" else self._size(place, size, mark)
            for place, size, mark in zip(places, tensor.shape, marks, strict=True)
        )
        dynamic = frozenset(d for d, size in enumerate(sizes) if not isinstance(size, int))
        if not is_weight:
            for d in set(range(tensor.dim())) - dynamic:
                self.env.numbers[places[d]] = self._why_number(sizes[d], d in marks_of(tensor))
        if not dynamic:
            return None
        return SymbolicLayout(sizes, self._strides(tensor, source, sizes), dynamic)

    def of_number(
        self, value: float, source: Source, *, varies: bool, in_module: bool
    ) -> torch.SymInt | torch.SymFloat | None:
        """Return an int or float as a symbol if it changes from call to call; else None.

        With `varies`, a float is not to be specialised again. A number of a module belongs to the
        model: it is a constant, unless the code itself counts with it.
        """
        if self.mode is False or not self.history.note_number(source, value):
            return None
        if in_module and source not in self.history.counted:
            return None
        marked = varies and isinstance(value, float)
        number: torch.SymInt | torch.SymFloat = self.env.input_number(source, value, marked=marked)
        return number

    def of_drawn(self, source: Source, example: float, limits: Range) -> Any:
        """Return a symbol without a hint for a number that was drawn and that `source` loads.

        The number lies within `limits`, and is a number like the `example`.
        """
        symbol = self.env.unbacked_symbol(type(example), limits)
        record = self.env.symbols[symbol]
        record.sources.append(source)
        record.hint, record.limits = example, ANY  # no guard can ask for it
        return self.env.number_of(symbol)

    def _marks(self, tensor: torch.Tensor, source: Source, is_weight: bool) -> list[DimensionMark]:
        default = [_STATIC] * tensor.dim()
        if is_drawn(source):  # the arguments of the call say how much is drawn
            return default
        if not is_weight and self.mode is True:
            default = [_DYNAMIC] * tensor.dim()
        elif not is_weight and self.mode is None:
            merged = self.history.note_shape(source, tensor.shape)
            default = [_DYNAMIC if size is None else _STATIC for size in merged]
        given = marks_of(tensor)
        return [given.get(d, mark) for d, mark in enumerate(default)]

    def _why_number(self, size: int, is_marked: bool) -> str:
        if size < SMALLEST_SIZE:
            return f"{size}, as sizes 0 and 1 are compiled apart"
        if is_marked:
            return f"{size}, as it is marked as static"
        return f"{size}, {'as dynamic is False' if self.mode is False else 'and has not changed'}"

    def _size(self, source: Source, size: int, mark: DimensionMark) -> Any:
        high = math.inf if mark.high is None else mark.high
        if mark.kind == "unbacked":
            return self._unbacked(source, Range(mark.low or 0, high))
        limits = Range(SMALLEST_SIZE if mark.low is None else mark.low, high)
        marked = mark.kind == "dynamic"
        if marked and size < SMALLEST_SIZE:
            raise DynamicSizeError(
                f"{source} is marked as dynamic, and its size is {size}: sizes 0 and 1 are "
                "specialised, since they broadcast and vanish",
                fix="call with another size first, or use mark_unbacked",
            )
        known = self.env.by_name.get(mark.name)
        if known is not None and known.hint != size:
            raise DynamicSizeError(
                f"{mark.name} is {known.hint} as {known.sources[0]}, and {size} as {source}",
                fix=f"mark one of them with a Dim of another name than {mark.name!r}",
            )
        return self.env.input_size(
            source, size, shared=mark.kind == "maybe", marked=marked, limits=limits, name=mark.name
        )

    def _unbacked(self, source: Source, limits: Range) -> torch.SymInt:
        size = self.env.unbacked_size(limits)
        self.env.symbols[expr_of(size)].sources.append(source)
        return size

    def _strides(
        self, tensor: torch.Tensor, source: Source, sizes: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Return each stride in terms of sizes, guarded."""
        if tensor.is_contiguous():
            self.guards.append(Contiguous(source, tensor.dim()))
            return _contiguous(sizes)
        strides: list[Any] = [None] * tensor.dim()
        products: dict[int, Any] = {1: 1}
        for d in sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d)):
            stride = tensor.stride(d)
            strides[d] = products.get(stride, stride)
            place = StrideSource(source, d)
            self._require(place, strides[d])
            if tensor.shape[d] > 1:
                products[stride * tensor.shape[d]] = strides[d] * sizes[d]
        return tuple(strides)

    def _require(self, place: Source, value: Any) -> None:
        """Guard that a source loads the value of an expression."""
        symbol = sympy.Symbol(f"<{place}>", integer=True)
        condition = compare("==", symbol, expr_of(value))
        self.guards.append(ShapeCondition(condition, ((symbol, place), *self._places(condition))))

    # Guards --------------------------------------------------------------------------------------

    def all_guards(self) -> list[Guard]:
        """Return every guard on sizes, those of single sizes first.

        Raises:
            DynamicSizeError: a dimension that the user marked as dynamic was specialised.
        """
        env = self.env
        if not env.symbols:
            return []
        for record in env.symbols.values():
            if record.marked:
                self._check_mark(record)
        for symbol, record in env.symbols.items():
            if symbol in env.fixed or isinstance(env.simplify(symbol), int):
                # Specialised all the same: a number is a constant from now on.
                numbers = set(record.sources) & set(self.history.numbers)
                self.history.fixed |= dict.fromkeys(numbers, self.history.varying())
        guards = [*self._limits(), *self.guards]
        for guard in env.guards:
            condition = map_condition(guard.condition, env.knowledge.in_inputs)
            places = tuple(self._places(condition))
            if not self._is_implied(guard.condition):
                guards.append(
                    ShapeCondition(condition, places, guard.operator, user_line=guard.line)
                )
        return guards

    def _limits(self) -> Iterator[Guard]:
        """Yield the range of each symbol, and the equality of the sizes that share it."""
        guarded = {symbol: record.limits for symbol, record in self.env.symbols.items()}
        for record in self.env.symbols.values():
            if not record.sources:
                continue
            symbol, (first, *others) = record.symbol, record.sources
            place = (symbol, first)
            for other in others:
                twin = sympy.Symbol(f"<{other}>", integer=True)
                yield ShapeCondition(compare("==", twin, symbol), ((twin, other), place))
            known = self.env.simplify(symbol)
            limits, found = record.limits, range_of(known, guarded)
            if limits.low != -math.inf and (known == symbol or found.low < limits.low):
                yield ShapeCondition(compare(">=", symbol, int(limits.low)), (place,))
            if limits.high != math.inf and (known == symbol or found.high > limits.high):
                yield ShapeCondition(compare("<=", symbol, int(limits.high)), (place,))

    def _is_implied(self, condition: Condition) -> bool:
        """Return whether the equalities among the guards make another guard true."""
        if not isinstance(condition, Comparison) or condition.relation == "==":
            return False
        return map_condition(condition, self.env.simplify) is True

    def of_inputs(self, symbols: Iterable[sympy.Symbol]) -> set[sympy.Symbol]:
        """Return the inputs' symbols that determine these ones, some of which divisibility made."""
        return free_symbols([self.env.knowledge.in_inputs(symbol) for symbol in symbols])

    def _places(self, value: Any) -> Iterator[tuple[sympy.Symbol, Source]]:
        for symbol in sorted(free_symbols(value), key=str):
            record = self.env.symbols.get(symbol)
            if record is not None and record.sources:
                yield symbol, record.sources[0]

    def _check_mark(self, record: SizeSymbol) -> None:
        value = self.env.simplify(record.symbol)
        found = self.env.knowledge.range(value)
        is_named = bool(record.name)
        is_given = is_named or record.limits != Range(SMALLEST_SIZE, math.inf)
        narrower = found.low > record.limits.low or found.high < record.limits.high
        if isinstance(value, int):
            what, instead = f"its size was specialised to {value}", "use maybe_mark_dynamic"
        elif is_named and value != record.symbol:
            what = f"the program works where it is {self._shown(value)} only"
            instead = "mark it without a Dim, or with that one if it is a Dim"
        elif is_given and narrower:
            what = f"the program works for sizes {found} only, not for {record.limits}"
            limits = f"min={found.low}" + (f", max={found.high}" if found.high < math.inf else "")
            call = f"Dim({record.name!r}, {limits})" if is_named else f"{limits} in the mark"
            instead = f"use {call}"
        else:
            return
        chain = chain_of(self.env, record.symbol)
        raise DynamicSizeError(
            f"{record.sources[0]} is marked as dynamic, and {what}:\n"
            + describe_chain(self.env, chain),
            fix=f"change that line, or {instead}",
            user_line=chain[-1].line if chain else None,
        )

    def _shown(self, value: Any) -> str:
        """Return an expression with symbols as the user knows them: by name, or by source."""
        names = {s: str(r.sources[0]) for s, r in self.env.symbols.items() if r.sources}
        names |= {symbol: record.name for symbol, record in self.env.symbols.items() if record.name}
        return print_expr(self.env.knowledge.in_inputs(value), names)

    # Values --------------------------------------------------------------------------------------

    def names(self) -> dict[sympy.Symbol, Source]:
        """Return the source from which residual code loads the value of each input symbol."""
        return {s: record.sources[0] for s, record in self.env.symbols.items() if record.sources}


def _contiguous(sizes: Sequence[Any]) -> tuple[Any, ...]:
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(sizes):
        strides.append(step)
        step = step * size if not (isinstance(size, int) and size == 0) else step
    return tuple(reversed(strides))
