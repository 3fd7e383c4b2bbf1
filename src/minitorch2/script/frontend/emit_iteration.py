"""Ranges, zips, and what makes containers of other values: `range`, `enumerate`, `list`, `len`."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.script.frontend.emission import (
    UNKNOWN,
    Arguments,
    Emission,
    Iteration,
    SugaredValue,
)
from minitorch2.script.frontend.forms import form, only
from minitorch2.script.frontend.sugared import (
    ConstantValue,
    SimpleValue,
    TupleSugar,
    list_of,
    sugar,
)
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import INT, STR, DictType, ListType, TensorType
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange


@dataclass(frozen=True)
class RangeSugar(SugaredValue):
    """``range(start, stop, step)``."""

    start: Value
    stop: Value
    step: Value
    known: range | None

    def describe(self) -> str:
        return "a range"

    def constant(self) -> Any:
        return UNKNOWN if self.known is None else self.known

    def iteration(self, emission: Emission, where: SourceRange) -> Iteration:
        bounds = (self.start, self.stop, self.step)
        if self.start.constant() == 0 and self.step.constant() == 1:
            return Iteration(self.stop, sugar)
        trips = emission.emit("aten::__range_length", bounds, where)
        start, step = self.start, self.step
        return Iteration(
            trips,
            lambda at: sugar(emission.emit("aten::__derive_index", (at, start, step), where)),
        )

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        bounds = (self.start, self.stop, self.step)
        return sugar(emission.emit("aten::__range_length", bounds, where))

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        at = index.as_value(emission, where)
        inputs = (at, self.start, self.step)
        return sugar(emission.emit("aten::__derive_index", inputs, where))


@dataclass(frozen=True)
class ZipSugar(SugaredValue):
    """``zip`` or ``enumerate``: several iterations side by side."""

    parts: Sequence[SugaredValue]

    def describe(self) -> str:
        return "a zip"

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        listed = [part.items(emission, where) for part in self.parts]
        lengths = [len(items) for items in listed if items is not None]
        if not lengths:
            return None
        count = min(lengths)
        columns = [
            self._elements(emission, part, items, count, where)
            for part, items in zip(self.parts, listed)
        ]
        return [TupleSugar(row) for row in zip(*columns)]

    def _elements(
        self,
        emission: Emission,
        part: SugaredValue,
        items: list[SugaredValue] | None,
        count: int,
        where: SourceRange,
    ) -> list[SugaredValue]:
        if items is not None:
            return items[:count]
        element = part.iteration(emission, where).element
        return [element(emission.constant(at, where)) for at in range(count)]

    def iteration(self, emission: Emission, where: SourceRange) -> Iteration:
        parts = [part.iteration(emission, where) for part in self.parts]
        counted = [part.trips for part, of in zip(parts, self.parts) if not isinstance(of, Counter)]
        trips = counted[0]
        if len(counted) > 1:
            trips = emission.emit("prim::min", (list_of(emission, counted, where),), where)
        return Iteration(trips, lambda at: TupleSugar([part.element(at) for part in parts]))


@dataclass(frozen=True)
class Counter(SugaredValue):
    """The numbers of ``enumerate``, without an end."""

    start: SugaredValue

    def iteration(self, emission: Emission, where: SourceRange) -> Iteration:
        start = self.start.constant()

        def element(at: Value) -> SugaredValue:
            if start == 0:
                known = at.constant()
                return ConstantValue(known) if isinstance(known, int) else sugar(at)
            first = self.start.as_value(emission, where)
            return sugar(emission.emit("aten::add", (at, first), where))

        return Iteration(emission.constant(2**63 - 1, where), element)


@form(range)
def emit_range(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``range`` of one to three ints."""
    given = arguments.positional
    if not 1 <= len(given) <= 3 or arguments.keywords:
        message = f"range takes 1 to 3 ints, and got {len(arguments.all())} arguments"
        raise ScriptError(message, where, code="script-wrong-arguments")
    bounds = [ConstantValue(0), given[0]] if len(given) == 1 else list(given)
    bounds += [ConstantValue(1)] * (3 - len(bounds))
    constants = [bound.constant() for bound in bounds]
    known = all(isinstance(constant, int) for constant in constants)
    values = [_as_int(emission, bound, where) for bound in bounds]
    start, stop, step = values
    static = range(*constants) if known and constants[2] else None
    return RangeSugar(start, stop, step, static)


def _as_int(emission: Emission, given: SugaredValue, where: SourceRange) -> Value:
    value = given.as_value(emission, where)
    if isinstance(value.type, TensorType):
        return emission.emit("aten::IntImplicit", (value,), where)
    if value.type != INT:
        raise given.refuse(
            "cannot be a bound of a range", where, code="script-wrong-type", fix="give an int"
        )
    return value


@form(enumerate)
def emit_enumerate(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``enumerate`` with or without a start."""
    start = arguments.keywords.get("start", ConstantValue(0))
    if len(arguments.positional) > 1:
        start = arguments.positional[1]
    return ZipSugar([Counter(start), arguments.positional[0]])


@form(zip)
def emit_zip(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``zip``."""
    return ZipSugar(arguments.positional)


@form(reversed)
def emit_reversed(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``reversed`` of static elements, or of a list."""
    (given,) = only(arguments, 1, "reversed", where)
    items = given.items(emission, where)
    if items is not None:
        return TupleSugar(items[::-1])
    forward = given.iteration(emission, where)
    one = emission.constant(1, where)
    last = emission.emit("aten::sub", (forward.trips, one), where)
    return DynamicSugar(
        Iteration(
            forward.trips,
            lambda at: forward.element(emission.emit("aten::sub", (last, at), where)),
        )
    )


@dataclass(frozen=True)
class DynamicSugar(SugaredValue):
    """Something that can only be looped over."""

    loop: Iteration

    def describe(self) -> str:
        return "an iterator"

    def iteration(self, emission: Emission, where: SourceRange) -> Iteration:
        return self.loop


def elements_of(
    emission: Emission, given: SugaredValue, where: SourceRange
) -> list[SugaredValue] | None:
    """Return the elements of a value whose number is known, ranges of constants included."""
    known = given.constant()
    if isinstance(known, range):
        return [ConstantValue(number) for number in known]
    return given.items(emission, where)


@form(list, torch.Size)
def emit_list(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``list(x)``, or ``torch.Size(x)``: a new list."""
    if not arguments.positional:
        return sugar(list_of(emission, [], where))
    (given,) = only(arguments, 1, "list", where)
    items = elements_of(emission, given, where)
    if items is not None:
        return sugar(list_of(emission, [item.as_value(emission, where) for item in items], where))
    if isinstance(given, SimpleValue) and not isinstance(given.type, DictType | TensorType):
        return sugar(emission.emit("aten::list", (given.value,), where))
    return collected(emission, given.iteration(emission, where), where)


def collected(emission: Emission, iteration: Iteration, where: SourceRange) -> SugaredValue:
    """Emit a loop that appends each element to a new list."""
    made = emission.node("prim::ListConstruct", (), (ListType(INT),), where).output
    node = emission.loop_node(iteration.trips, where)
    with emission.inside(node.blocks[0]):
        element = iteration.element(node.blocks[0].inputs[0]).as_value(emission, where)
        made.type = ListType(element.type)
        emission.emit("aten::append", (made, element), where)
    with emission.inside(node.blocks[1]):
        node.blocks[1].add_output(emission.truth(True, where))
    return sugar(made)


@form(tuple)
def emit_tuple(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``tuple(x)`` of a known number of elements; a list stays a list."""
    if not arguments.positional:
        return TupleSugar([])
    (given,) = only(arguments, 1, "tuple", where)
    items = elements_of(emission, given, where)
    if items is not None:
        return TupleSugar(items)
    if isinstance(given, SimpleValue) and isinstance(given.type, ListType):
        return sugar(emission.emit("aten::list", (given.value,), where))
    raise given.refuse("has no known number of elements", where, code="script-tuple-length")


@form(dict, collections.OrderedDict)
def emit_dict(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``dict()``, ``dict(other)`` and ``dict(name=value)``."""
    if arguments.positional:
        copied = arguments.positional[0].as_value(emission, where)
        return sugar(emission.emit("aten::dict", (copied,), where))
    inputs = list[Value]()
    for name, given in arguments.keywords.items():
        inputs += [emission.constant(name, where), given.as_value(emission, where)]
    value = inputs[1].type if inputs else TensorType()
    return sugar(
        emission.node("prim::DictConstruct", inputs, (DictType(STR, value),), where).output
    )


@form(len)
def emit_len(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``len``."""
    (given,) = only(arguments, 1, "len", where)
    return given.length(emission, where)


@form(itertools.repeat)
def emit_repeat(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``itertools.repeat`` of a value, a known number of times."""
    given, times = only(arguments, 2, "repeat", where)
    count = times.constant()
    if not isinstance(count, int):
        raise times.refuse(
            "is no constant number of repetitions", where, code="script-constant-argument"
        )
    return TupleSugar([given] * count)
