"""Calls of functions that the compiler knows: `len`, `range`, `isinstance`, `math.sqrt`, and others."""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from minitorch2.script.frontend.annotations import UnknownTypeError, type_from_object
from minitorch2.script.frontend.emission import (
    UNKNOWN,
    Arguments,
    Emission,
    Iteration,
    SugaredValue,
)
from minitorch2.script.frontend.python_values import (
    FORMS,
    ObjectValue,
    OperatorValue,
)
from minitorch2.script.frontend.refine import split_members
from minitorch2.script.frontend.sugared import (
    ConstantValue,
    SimpleValue,
    TupleSugar,
    list_of,
    sugar,
)
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import (
    ANY,
    BOOL,
    INT,
    NONE,
    STR,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange


def form(*functions: Any) -> Callable[[Any], Any]:
    """Register what the compiler does at a call of each of these functions."""

    def register(emit: Any) -> Any:
        FORMS.update(dict.fromkeys(functions, emit))
        return emit

    return register


def only(arguments: Arguments, count: int, name: str, where: SourceRange) -> list[SugaredValue]:
    """Return the positional arguments if there are `count`.

    Raises:
        ScriptError: there is another number of arguments.
    """
    if len(arguments.positional) != count or arguments.keywords:
        message = f"{name} takes {count} arguments here, and got {len(arguments.all())}"
        raise ScriptError(message, where, code="wrong-arguments")
    return arguments.positional


# -- iteration ------------------------------------------------------------------------------------


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
        raise ScriptError(message, where, code="wrong-arguments")
    bounds = [ConstantValue(0), given[0]] if len(given) == 1 else list(given)
    bounds += [ConstantValue(1)] * (3 - len(bounds))
    constants = [bound.constant() for bound in bounds]
    known = all(isinstance(constant, int) for constant in constants)
    values = [_as_int(emission, bound, where) for bound in bounds]
    return RangeSugar(*values, range(*constants) if known and constants[2] else None)


def _as_int(emission: Emission, given: SugaredValue, where: SourceRange) -> Value:
    value = given.as_value(emission, where)
    if isinstance(value.type, TensorType):
        return emission.emit("aten::IntImplicit", (value,), where)
    if value.type != INT:
        raise given.refuse("cannot be a bound of a range", where, "wrong-type", "give an int")
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


@form(list)
def emit_list(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``list(x)``: a new list."""
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
    raise given.refuse("has no known number of elements", where, "tuple-length")


@form(dict)
def emit_dict(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``dict()``, ``dict(other)`` and ``dict(name=value)``."""
    if arguments.positional:
        copied = arguments.positional[0].as_value(emission, where)
        return sugar(emission.emit("aten::dict", (copied,), where))
    inputs = list[Value]()
    for name, given in arguments.keywords.items():
        inputs += [emission.constant(name, where), given.as_value(emission, where)]
    value = inputs[1].type if inputs else TensorType()
    return sugar(emission.node("prim::DictConstruct", inputs, (DictType(STR, value),), where).output)


@form(len)
def emit_len(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``len``."""
    (given,) = only(arguments, 1, "len", where)
    return given.length(emission, where)


# -- questions that are answered while compiling ----------------------------------------------------


def class_types(given: SugaredValue, where: SourceRange) -> list[Any]:
    """Return the types that the second argument of `isinstance` lists; classes for containers."""
    items = given.values if isinstance(given, TupleSugar) else None
    if items is not None:
        return [type_ for item in items for type_ in class_types(item, where)]
    found = given.constant()
    if found in (list, tuple, dict, torch.Size):
        return [{list: ListType, tuple: TupleType, dict: DictType, torch.Size: ListType}[found]]
    try:
        return [type_from_object(found)]
    except UnknownTypeError:
        if isinstance(found, tuple):
            return [type_ for part in found for type_ in class_types(ObjectValue(part), where)]
        return [found]


def is_of(member: Type, wanted: Any) -> bool:
    """Tell whether a type is one that `isinstance` asks for."""
    if isinstance(wanted, type):
        return issubclass(wanted, Type) and isinstance(member, wanted)
    return bool(member == wanted or (member, wanted) == (BOOL, INT)
                or (isinstance(member, TensorType) and isinstance(wanted, TensorType)))


@form(isinstance)
def emit_isinstance(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``isinstance``, as a constant if the static type decides it."""
    given, classes = only(arguments, 2, "isinstance", where)
    wanted = class_types(classes, where)
    if not given.first_class:
        known, objects = given.constant(), _classes_of(classes)
        if known is not UNKNOWN:
            return ConstantValue(isinstance(known, objects))
        return ConstantValue(isinstance(given, TupleSugar) and TupleType in wanted)
    value = given.as_value(emission, where)
    inside = instance_members(value.type, wanted)
    if inside is not None and not (inside[0] and inside[1]):
        return ConstantValue(bool(inside[0]))
    node = emission.node("prim::isinstance", (value,), (BOOL,), where, types=tuple(wanted))
    return sugar(node.output)


def _classes_of(given: SugaredValue) -> Any:
    found = given.constant()
    return found if isinstance(found, type | tuple) else ()


def instance_members(type_: Type, wanted: Sequence[Any]) -> tuple[list[Type], list[Type]] | None:
    """Sort the types that a value may have into those that `isinstance` asks for, and others."""
    if type_ == ANY:
        return None
    split = split_members(type_, [type_])
    assert split is not None
    members = split[0] + split[1]
    inside = [member for member in members if any(is_of(member, want) for want in wanted)]
    return inside, [member for member in members if member not in inside]


@form(hasattr)
def emit_hasattr(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Answer ``hasattr``."""
    given, name = only(arguments, 2, "hasattr", where)
    return ConstantValue(given.has_attr(_constant_name(name, where)))


@form(getattr)
def emit_getattr(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``getattr`` with a constant name."""
    given, name, *default = arguments.positional
    known = _constant_name(name, where)
    if default and not given.has_attr(known):
        return default[0]
    return given.attr(emission, known, where)


def _constant_name(given: SugaredValue, where: SourceRange) -> str:
    name = given.constant()
    if not isinstance(name, str):
        raise given.refuse("is no constant name of an attribute", where, "constant-argument")
    return name


@form(type)
def emit_type(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Refuse ``type(x)``: types are no values."""
    fix = "use `isinstance(x, T)`"
    raise ScriptError("`type` gives no value in a script", where, code="type-of", fix=fix)


# -- arithmetic, text, and the rest -----------------------------------------------------------------

_CASTS: Final = {int: "aten::Int", float: "aten::Float", bool: "aten::Bool",
                 complex: "aten::Complex", str: "aten::str"}  # fmt: skip


def _emit_cast(cls: type) -> Any:
    def emit(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        known = [given.constant() for given in arguments.positional]
        if not arguments.keywords and all(isinstance(k, int | float | str | bool) for k in known):
            return ConstantValue(_evaluated(cls, known, where))
        given = [argument.as_value(emission, where) for argument in arguments.positional]
        if cls is bool and len(given) == 1:
            return sugar(truth_of(emission, given[0], where))
        return sugar(emission.emit(_CASTS[cls], given, where))

    return emit


def _evaluated(cls: type, known: Sequence[Any], where: SourceRange) -> Any:
    try:
        return cls(*known)
    except (TypeError, ValueError) as error:
        raise ScriptError(str(error), where, code="wrong-arguments") from error


for _cls in _CASTS:
    FORMS[_cls] = _emit_cast(_cls)


def truth_of(emission: Emission, value: Value, where: SourceRange) -> Value:
    """Return a value as a bool, as Python's `if` takes it."""
    if value.type == BOOL:
        return value
    if isinstance(value.type, ListType | DictType) or value.type == STR:
        length = emission.emit("aten::len", (value,), where)
        zero = emission.constant(0, where)
        return emission.emit("aten::ne", (length, zero), where)
    if value.type == NONE:
        return emission.truth(False, where)
    if isinstance(value.type, TupleType):
        return emission.truth(bool(value.type.elements), where)
    if isinstance(value.type, OptionalType):
        return _truth_of_optional(emission, value, value.type.element, where)
    return emission.emit("aten::Bool", (value,), where)


def _truth_of_optional(emission: Emission, value: Value, inner: Type, where: SourceRange) -> Value:
    none = emission.constant(None, where)
    node = emission.if_node(emission.emit("aten::__isnot__", (value, none), where), where)
    with emission.inside(node.blocks[0]):
        element = emission.cast(value, inner, where)
        node.blocks[0].add_output(truth_of(emission, element, where))
    with emission.inside(node.blocks[1]):
        node.blocks[1].add_output(emission.truth(False, where))
    return node.add_output(type=BOOL)


def _operator(kind: str) -> Any:
    def emit(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        return OperatorValue(kind).call(emission, arguments, where)

    return emit


for _name in ("abs", "round", "divmod", "chr", "ord", "hex", "oct", "bin", "hash"):
    _kind = {"abs": "prim::abs", "divmod": "aten::divmod"}.get(_name, f"aten::{_name}")
    FORMS[getattr(builtins, _name)] = _operator(_kind)
for _name in dir(math):
    if callable(getattr(math, _name)):
        FORMS[getattr(math, _name)] = _operator(f"aten::{_name}")


def _emit_extreme(kind: str) -> Any:
    def emit(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        given = arguments.positional
        if len(given) == 1:
            items = elements_of(emission, given[0], where)
            given = given if items is None else items
        if len(given) == 1:
            return OperatorValue(kind).call(emission, Arguments(list(given)), where)
        result = given[0].as_value(emission, where)
        for other in given[1:]:
            result = emission.emit(kind, (result, other.as_value(emission, where)), where)
        return sugar(result)

    return emit


FORMS[min], FORMS[max] = _emit_extreme("prim::min"), _emit_extreme("prim::max")


@form(pow)
def emit_pow(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``pow(a, b)``."""
    return OperatorValue("aten::pow").call(emission, arguments, where)


@form(sum)
def emit_sum(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``sum`` of a list, or of a known number of elements."""
    items = elements_of(emission, arguments.positional[0], where)
    if items is None:
        return OperatorValue("aten::sum").call(emission, arguments, where)
    total = emission.constant(0, where)
    for item in items:
        total = emission.emit("aten::add", (item.as_value(emission, where), total), where)
    return sugar(total)


def _emit_quantifier(kind: str, decides: bool) -> Any:
    def emit(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        items = elements_of(emission, arguments.positional[0], where)
        if items is None:
            return OperatorValue(kind).call(emission, arguments, where)
        known = [item.constant() for item in items]
        if all(k is not UNKNOWN for k in known):
            return ConstantValue(any(known) if decides else all(known))
        values = [truth_of(emission, item.as_value(emission, where), where) for item in items]
        listed = list_of(emission, values, where)
        return sugar(emission.emit(kind, (listed,), where))

    return emit


FORMS[any], FORMS[all] = _emit_quantifier("aten::any", True), _emit_quantifier("aten::all", False)


@form(sorted)
def emit_sorted(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``sorted``: a new list."""
    return OperatorValue("aten::sorted").call(emission, arguments, where)


@form(print)
def emit_print(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``print``; its keywords are no part of the language."""
    if arguments.keywords:
        message = f"print has no keyword {next(iter(arguments.keywords))} here"
        raise ScriptError(message, where, code="wrong-arguments", fix="put all into one string")
    values = [argument.as_value(emission, where) for argument in arguments.positional]
    emission.node("prim::Print", values, (), where)
    return ConstantValue(None)


@form(warnings.warn)
def emit_warn(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``warnings.warn``; the category is left out."""
    message = arguments.positional[0].as_value(emission, where)
    level = arguments.keywords.get("stacklevel", ConstantValue(2)).as_value(emission, where)
    emission.emit("aten::warn", (message, level), where)
    return ConstantValue(None)


@form(torch.Tensor)
def emit_new_tensor(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Refuse ``torch.Tensor(...)``."""
    fix = "use `torch.tensor(...)`, or `torch.empty(...)`"
    raise ScriptError("torch.Tensor makes no tensor here", where, code="class", fix=fix)


@form(torch.Size)
def emit_size(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``torch.Size(x)``: sizes are lists of ints."""
    return emit_list(emission, arguments, where)


@form(torch._assert)
def emit_assert(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``torch._assert(condition, message)``."""
    given, message = only(arguments, 2, "torch._assert", where)
    condition = truth_of(emission, given.as_value(emission, where), where)
    node = emission.if_node(condition, where)
    with emission.inside(node.blocks[1]):
        raise_error(emission, message.as_value(emission, where), "builtins.AssertionError", where)
    return ConstantValue(None)


def raise_error(emission: Emission, message: Value, name: str, where: SourceRange) -> None:
    """Insert the raising of an exception."""
    class_name = emission.constant(name, where)
    emission.node("prim::RaiseException", (message, class_name), (), where)


@form("torch:fork", "minitorch2:fork")
def emit_fork(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``fork(function, *arguments)``: the call becomes a node with a future."""
    function = arguments.positional[0]
    rest = Arguments(arguments.positional[1:], arguments.keywords)
    result = function.call(emission, rest, where).as_value(emission, where)
    call = result.node
    if call.kind not in ("prim::CallFunction", "prim::CallMethod"):
        fix = "give a function or a method of the script"
        raise function.refuse("cannot be forked", where, "fork", fix)
    node = emission.node("prim::fork", call.inputs, (FutureType(result.type),), where)
    node.attributes.update(call.attributes)
    call.destroy()
    return sugar(node.output)


@form("torch:wait", "minitorch2:wait")
def emit_wait(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``wait(future)``."""
    (future,) = only(arguments, 1, "wait", where)
    return sugar(emission.emit("aten::wait", (future.as_value(emission, where),), where))


@form(torch.is_tensor)
def emit_is_tensor(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Answer ``torch.is_tensor``."""
    (given,) = only(arguments, 1, "torch.is_tensor", where)
    classes = ObjectValue(torch.Tensor)
    return emit_isinstance(emission, Arguments([given, classes]), where)
