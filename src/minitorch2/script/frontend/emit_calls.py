"""Calls of functions that the compiler knows: `int`, `min`, `math.sqrt`, `print`, `fork`."""

from __future__ import annotations

import builtins
import logging
import math
import warnings
from collections.abc import Sequence
from typing import Any, Final

import torch

from minitorch2.script.frontend.emission import UNKNOWN, Arguments, Emission, SugaredValue
from minitorch2.script.frontend.emit_iteration import elements_of
from minitorch2.script.frontend.environment import Variable
from minitorch2.script.frontend.forms import form, only
from minitorch2.script.frontend.python_calls import call_python
from minitorch2.script.frontend.python_values import (
    FORMS,
    Form,
    OperatorValue,
    register_sugar,
    to_sugared_value,
)
from minitorch2.script.frontend.sugared import METHODS_IN_PYTHON, ConstantValue, list_of, sugar
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import (
    BOOL,
    NONE,
    NUMBER,
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
from minitorch2.script.syntax.source import NOWHERE, SourceRange

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
        raise ScriptError(str(error), where, code="script-wrong-arguments") from error


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
    if value.type == NUMBER:
        return emission.emit("aten::ne", (value, emission.constant(0, where)), where)
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
        given = arguments.positional or only(arguments, 1, kind.removeprefix("prim::"), where)
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
    """Emit ``sum`` of a list of numbers, or as `_folded` does."""
    given, start = _given_and_start(arguments, "sum", where)
    if start is None and elements_of(emission, given, where) is None:
        return OperatorValue("aten::sum").call(emission, arguments, where)
    return _folded(emission, "aten::add", given, start or ConstantValue(0), where)


@form(math.prod)
def emit_prod(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``math.prod`` as `_folded` does."""
    given, start = _given_and_start(arguments, "math.prod", where)
    return _folded(emission, "aten::mul", given, start or ConstantValue(1), where)


def _given_and_start(
    arguments: Arguments, name: str, where: SourceRange
) -> tuple[SugaredValue, SugaredValue | None]:
    listed = [*arguments.positional, *filter(None, [arguments.keywords.get("start")])]
    if len(listed) == 1:
        return listed[0], None
    given, start = only(Arguments(listed), 2, name, where)
    return given, start


def _folded(
    emission: Emission, kind: str, given: SugaredValue, start: SugaredValue, where: SourceRange
) -> SugaredValue:
    """Combine a start with a known number of elements, or in a loop over a list."""
    items = elements_of(emission, given, where)
    if items is None:
        return _folded_in_loop(emission, kind, given, start, where)
    result = start.as_value(emission, where)
    for item in items:
        value = item.as_value(emission, where)
        result = _typed_start(emission, result, value.type, where)
        swaps = isinstance(value.type, TensorType)  # a tensor comes first, whatever the other is
        result = emission.emit(kind, (value, result) if swaps else (result, value), where)
    return sugar(result)


def _typed_start(emission: Emission, start: Value, wanted: Type, where: SourceRange) -> Value:
    """Return a start that is an empty list as one of the elements' type."""
    is_empty = start.node.kind == "prim::ListConstruct" and not start.node.inputs
    if not is_empty or not isinstance(wanted, ListType):
        return start
    return list_of(emission, [], where, wanted.element)


def _folded_in_loop(
    emission: Emission, kind: str, given: SugaredValue, start: SugaredValue, where: SourceRange
) -> SugaredValue:
    listed, first = given.as_value(emission, where).type, start.as_value(emission, where)
    if isinstance(listed, ListType):
        first = _typed_start(emission, first, listed.element, where)
    iteration, name = given.iteration(emission, where), f"the result at {where.start}"
    emission.store(name, first, where)
    node = emission.loop_node(iteration.trips, where)
    with emission.inside(node.blocks[0]):
        element = iteration.element(node.blocks[0].inputs[0]).as_value(emission, where)
        if element.type != first.type:
            message = f"the start is of type {first.type}, and the elements are {element.type}"
            fix = "give a start of the elements' type"
            raise ScriptError(message, where, code="script-wrong-type", fix=fix)
        before = emission.load(name, Variable(first.type, where), where)
        emission.store(name, emission.emit(kind, (before, element), where), where)
    with emission.inside(node.blocks[1]):
        node.blocks[1].add_output(emission.truth(True, where))
    return sugar(emission.load(name, Variable(first.type, where), where))


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
    """Emit ``print``; its keywords are not part of the language."""
    if arguments.keywords:
        message = f"print has no keyword {next(iter(arguments.keywords))} here"
        raise ScriptError(
            message, where, code="script-wrong-arguments", fix="put all into one string"
        )
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
    raise ScriptError("torch.Tensor makes no tensor here", where, code="script-class", fix=fix)


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


_CHECKS: Final[dict[str, type[Exception]]] = {
    "_check": RuntimeError,
    "_check_index": IndexError,
    "_check_value": ValueError,
    "_check_type": TypeError,
    "_check_not_implemented": NotImplementedError,
}
"""The functions of torch that raise an exception if a condition does not hold."""

_NO_MESSAGE: Final = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please"
    " report an enhancement request to PyTorch.)"
)


def _emit_check(
    emission: Emission, error: type[Exception], given: dict[str, SugaredValue], where: SourceRange
) -> SugaredValue:
    """Emit ``torch._check(cond, message)``: a message is a function, called where it is needed."""
    condition, message = given["cond"].as_value(emission, where), given.get("message")
    if condition.type != BOOL:
        what = "is no bool, and a check takes one"
        raise given["cond"].refuse(what, where, code="script-wrong-type")
    node = emission.if_node(condition, where)
    with emission.inside(node.blocks[1]):
        text: SugaredValue = ConstantValue(_NO_MESSAGE)
        if message is not None and message.constant() is not None:
            text = message.call(emission, Arguments(), where)
        name = f"{error.__module__}.{error.__qualname__}"
        raise_error(emission, text.as_value(emission, where), name, where)
    return ConstantValue(None)


def _check(error: type[Exception]) -> Form:
    def emit(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        given = dict(zip(("cond", "message"), arguments.positional)) | arguments.keywords
        return _emit_check(emission, error, given, where)

    return emit


FORMS.update({f"torch:{name}": _check(error) for name, error in _CHECKS.items()})


@form("torch:_check_with")
def emit_check_with(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``torch._check_with(error_type, cond, message)``."""
    names = ("error_type", "cond", "message")
    given = dict(zip(names, arguments.positional)) | arguments.keywords
    error = given["error_type"].constant()
    if not isinstance(error, type) or not issubclass(error, Exception):
        what = "is no class of errors that is known while compiling"
        raise given["error_type"].refuse(what, where, code="script-wrong-type")
    return _emit_check(emission, error, given, where)


class LoggerMethod(SugaredValue):
    """A method of a logger: Python writes the message when the graph runs."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def describe(self) -> str:
        return "a method of a logger"

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        return call_python(emission, self.function, arguments, where, NONE)


register_sugar(
    lambda given: isinstance(getattr(given, "__self__", None), logging.Logger),
    lambda given, _: LoggerMethod(given),
)
METHODS_IN_PYTHON.update(
    (function.__name__, to_sugared_value(function, NOWHERE))
    for function in (torch.stft, torch.unique, torch.unique_consecutive)
)


@form("torch:annotate", "minitorch2:annotate", "typing:cast")
def emit_annotate(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Return the value of ``annotate(T, value)``, whose type was taken from the text before."""
    return only(arguments, 2, "annotate", where)[1]


@form("torch:fork", "minitorch2:fork")
def emit_fork(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``fork(function, *arguments)``: the call becomes a node with a future."""
    function = arguments.positional[0]
    rest = Arguments(arguments.positional[1:], arguments.keywords)
    result = function.call(emission, rest, where).as_value(emission, where)
    call = result.node
    if call.kind not in ("prim::CallFunction", "prim::CallMethod"):
        fix = "give a function or a method of the script"
        raise function.refuse("cannot be forked", where, code="script-fork", fix=fix)
    node = emission.node("prim::fork", call.inputs, (FutureType(result.type),), where)
    node.attributes.update(call.attributes)
    call.destroy()
    return sugar(node.output)


@form("torch:wait", "minitorch2:wait")
def emit_wait(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``wait(future)``."""
    (future,) = only(arguments, 1, "wait", where)
    return sugar(emission.emit("aten::wait", (future.as_value(emission, where),), where))
