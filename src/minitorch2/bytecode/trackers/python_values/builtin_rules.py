"""Rules for Python's built-in functions on trackers."""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable
from typing import Any, Final

import torch

from minitorch2.bytecode.machine.continuation import variable_names
from minitorch2.bytecode.polyfills.iterators import call_until
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import (
    MISSING,
    class_lookup,
    class_tracker,
    is_of_trusted,
)
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable, GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.lazy import realize
from minitorch2.bytecode.trackers.observed import ObservedError, raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    ConstantVariable,
    fold,
    is_none,
)
from minitorch2.bytecode.trackers.python_values.exceptions import read_attribute
from minitorch2.bytecode.trackers.python_values.functions import FunctionVariable
from minitorch2.bytecode.trackers.python_values.identity import IdentityVariable
from minitorch2.bytecode.trackers.python_values.iterator import next_item
from minitorch2.bytecode.trackers.python_values.mapping import dict_of_names
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable, sort
from minitorch2.bytecode.trackers.python_values.weak_reference import WeakProxyVariable
from minitorch2.bytecode.trackers.torch_values.selection import better
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable, compute
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import LEGACY_TYPES

_TENSOR_TYPE: Any = type(torch.FloatTensor)

# Questions about a value --------------------------------------------------------------------------


@models(isinstance)
def is_instance(
    evaluator: Evaluator, value: VariableTracker, classes: VariableTracker
) -> VariableTracker:
    """``isinstance(value, classes)``"""
    found = any(_check_instance(evaluator, value, c) for c in _classes(evaluator, classes))
    return ConstantVariable(found)


def _check_instance(evaluator: Evaluator, value: VariableTracker, cls: Any) -> bool:
    """Return whether the value is an instance; a metaclass of the user may decide."""
    if value.python_type() is cls:
        return True
    found_in, check = class_lookup(type(cls), "__instancecheck__")
    if isinstance(check, types.FunctionType) and not is_of_trusted(found_in):
        kind = class_tracker(evaluator, cls)
        answer = kind.call_method(evaluator, "__instancecheck__", [value], {})
        return operations.truth(evaluator, answer)
    return _is_instance(value, cls)


def _is_instance(value: VariableTracker, cls: Any) -> bool:
    try:
        isinstance(None, cls)  # `typing.Any` and some protocols refuse
    except TypeError as error:
        raise_as_observed(error)
    if isinstance(value, WeakProxyVariable) and _is_instance(value.referent(), cls):
        return True
    if isinstance(value, TensorVariable):
        return _is_tensor_of(value, cls)
    real = value.as_constant() if isinstance(value, ConstantVariable) else None
    if isinstance(value, ConstantVariable):
        return isinstance(real, cls)
    if isinstance(value, ObjectVariable) and value.value is not MISSING:
        return isinstance(value.value, cls)
    return issubclass(value.python_type(), cls)


def _is_tensor_of(value: TensorVariable, cls: Any) -> bool:
    if cls is torch.nn.Parameter:
        return value.cls is torch.nn.Parameter
    if isinstance(cls, _TENSOR_TYPE):
        if cls not in LEGACY_TYPES or value.fake.device.type == "meta":
            unsupported("tensor-type", f"isinstance of a tensor and {cls}")
        return value.fake.device.type == "cpu" and value.fake.dtype is LEGACY_TYPES[cls]
    return issubclass(value.cls, cls)


@models(issubclass)
def is_subclass(
    evaluator: Evaluator, value: VariableTracker, classes: VariableTracker
) -> VariableTracker:
    """``issubclass(value, classes)``"""
    if not isinstance(value, ClassVariable):
        raise_observed(TypeError, "issubclass() arg 1 must be a class")
    return ConstantVariable(issubclass(value.value, tuple(_classes(evaluator, classes))))


def _classes(evaluator: Evaluator, value: VariableTracker) -> list[Any]:
    if isinstance(value, TupleVariable):
        return [cls for item in value.items(evaluator) for cls in _classes(evaluator, item)]
    real = getattr(value, "value", None)
    if not isinstance(real, type | types.UnionType | _TENSOR_TYPE):
        unsupported("isinstance", f"{value} as a class")
    return [real]


@models(callable)
def is_callable(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``callable(value)``"""
    known = FunctionVariable | ClassVariable | BoundMethodVariable | GetAttrVariable
    has_call = class_lookup(value.python_type(), "__call__")[1] is not MISSING
    return ConstantVariable(isinstance(value, known) or has_call)


@models(hasattr)
def has_attribute(
    evaluator: Evaluator, value: VariableTracker, name: VariableTracker
) -> VariableTracker:
    """``hasattr(value, name)``"""
    return ConstantVariable(_attribute(evaluator, value, name) is not None)


@models(getattr)
def get_attribute(
    evaluator: Evaluator,
    value: VariableTracker,
    name: VariableTracker,
    default: VariableTracker | None = None,
) -> VariableTracker:
    """``getattr(value, name, default)``"""
    if default is None:
        return read_attribute(evaluator, value, _text(name, "attribute name must be string"))
    return _attribute(evaluator, value, name) or default


def _attribute(
    evaluator: Evaluator, value: VariableTracker, name: VariableTracker
) -> VariableTracker | None:
    try:
        return value.get_attribute(evaluator, _text(name, "attribute name must be string"))
    except ObservedError as error:
        if issubclass(error.kind, AttributeError):
            return None
        raise


@models(setattr)
def set_attribute(
    evaluator: Evaluator, owner: VariableTracker, name: VariableTracker, value: VariableTracker
) -> None:
    """``setattr(owner, name, value)``"""
    owner.set_attribute(evaluator, _text(name, "attribute name must be string"), value)


@models(delattr)
def delete_attribute(evaluator: Evaluator, owner: VariableTracker, name: VariableTracker) -> None:
    """``delattr(owner, name)``"""
    owner.delete_attribute(evaluator, _text(name, "attribute name must be string"))


def _text(value: VariableTracker, rule: str) -> str:
    """Return a text that a built-in function takes; raise the user's TypeError for other values."""
    if not issubclass(value.python_type(), str):
        raise_observed(TypeError, f"{rule}, not {value.python_type().__name__!r}")
    text: str = value.as_constant()
    return text


@models(vars)
def variables(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``vars(value)``"""
    return value.get_attribute(evaluator, "__dict__")


@models(id)
def identity(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``id(value)``: a number of an object that guards hold fixed, else only as good as a key."""
    real = getattr(value, "value", MISSING)
    if real is not MISSING and _identity_is_guarded(value):
        return ConstantVariable(id(real))
    if isinstance(value, ConstantVariable | TupleVariable | SymbolicNumberVariable):
        unsupported("identity", f"the id of {value} is not known while capturing")
    return IdentityVariable(value)


def _identity_is_guarded(value: VariableTracker) -> bool:
    return value.source is not None and (
        value.source.is_fixed
        or any(guard.kind in ("FUNCTION_MATCH", "ID_MATCH") for guard in value.guards)
    )


@models(hash)
def hash_of(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``hash(value)``"""
    result = operations.special(evaluator, value, "__hash__")
    kind = value.python_type().__name__
    return result or raise_observed(TypeError, f"unhashable type: {kind!r}")


# Truth, order, sums -------------------------------------------------------------------------------


@models(any)
def any_of(evaluator: Evaluator, values: VariableTracker) -> VariableTracker:
    """``any(values)``: stops at the first true one."""
    return ConstantVariable(_first_with(evaluator, values, True))


@models(all)
def all_of(evaluator: Evaluator, values: VariableTracker) -> VariableTracker:
    """``all(values)``: stops at the first false one."""
    return ConstantVariable(not _first_with(evaluator, values, False))


def _first_with(evaluator: Evaluator, values: VariableTracker, wanted: bool) -> bool:
    iterator = operations.get_iterator(evaluator, values)
    while (element := next_item(evaluator, iterator)) is not None:
        if operations.truth(evaluator, element) is wanted:
            return True
    return False


@models(sum)
def sum_of(
    evaluator: Evaluator, values: VariableTracker, start: VariableTracker | None = None
) -> VariableTracker:
    """``sum(values, start)``"""
    total = ConstantVariable(0) if start is None else start
    elements = operations.iterate(evaluator, values)
    if all(operations.is_scalar(value) for value in (total, *elements)):
        numbers = [element.as_constant() for element in elements]
        return fold(lambda first: sum(numbers, first), [total])  # floats are not just added
    for element in elements:
        total = operations.binary(evaluator, "+", total, element)
    return total


def _extreme(symbol: str) -> Callable[..., VariableTracker]:
    def rule(
        evaluator: Evaluator,
        *values: VariableTracker,
        key: VariableTracker = NONE,
        default: VariableTracker | None = None,
    ) -> VariableTracker:
        candidates = list(values)
        if len(values) == 1:
            candidates = operations.iterate(evaluator, values[0])
        if not candidates:
            name = "min" if symbol == "<" else "max"
            return default or raise_observed(ValueError, f"{name}() arg is an empty sequence")
        if is_none(key) and len({c.python_type() for c in candidates}) == 1 == len(candidates) - 1:
            function = torch.sym_min if symbol == "<" else torch.sym_max
            if (number := compute(function, *candidates)) is not None:
                return number
        return _best(evaluator, symbol, candidates, key)

    return rule


def _best(
    evaluator: Evaluator, symbol: str, candidates: list[VariableTracker], key: VariableTracker
) -> VariableTracker:
    def rank(value: VariableTracker) -> VariableTracker:
        return value if is_none(key) else key.call(evaluator, [value], {})

    best, best_rank = candidates[0], rank(candidates[0])
    for candidate in candidates[1:]:
        ranks = [best_rank, rank(candidate)]
        best, best_rank = better(evaluator, symbol, [best, candidate], ranks)
    return best


models(min)(_extreme("<"))
models(max)(_extreme(">"))


@models(sorted)
def sorted_list(
    evaluator: Evaluator,
    values: VariableTracker,
    *,
    key: VariableTracker | None = None,
    reverse: VariableTracker | None = None,
) -> VariableTracker:
    """``sorted(values, key=key, reverse=reverse)``"""
    return ListVariable(sort(evaluator, operations.iterate(evaluator, values), key, reverse))


# Numbers and text ---------------------------------------------------------------------------------

_UNARY_METHODS: Final = {
    abs: "__abs__",
    repr: "__repr__",
    math.floor: "__floor__",
    math.ceil: "__ceil__",
    math.trunc: "__trunc__",
}


def _by_method(function: Any, name: str) -> None:
    def rule(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
        result = operations.special(evaluator, value, name)
        if result is None:
            unsupported("builtin", f"{function.__name__} of {value}")
        return result

    models(function)(rule)


for _function, _name in _UNARY_METHODS.items():
    _by_method(_function, _name)


@models(math.pow)
def float_power(
    evaluator: Evaluator, base: VariableTracker, exponent: VariableTracker
) -> VariableTracker:
    """``math.pow(base, exponent)``, a number of floats also where an operand is a tensor"""
    to_float = evaluator.capture.wrap(float, None)
    numbers = [to_float.call(evaluator, [value], {}) for value in (base, exponent)]
    return operations.binary(evaluator, "**", *numbers)


@models(pow)
def power(
    evaluator: Evaluator,
    base: VariableTracker,
    exponent: VariableTracker,
    modulus: VariableTracker = NONE,
) -> VariableTracker:
    """``pow(base, exponent)``"""
    if not is_none(modulus):
        result = operations.special(evaluator, base, "__pow__", exponent, modulus)
        return result or raise_observed(TypeError, "unsupported operand type(s) for ** or pow()")
    return operations.binary(evaluator, "**", base, exponent)


@models(divmod)
def divide(evaluator: Evaluator, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """``divmod(left, right)``, which tensors do not have"""
    for owner, other, name in ((left, right, "__divmod__"), (right, left, "__rdivmod__")):
        if isinstance(owner, ObjectVariable) or owner.in_graph:
            result = operations.special(evaluator, owner, name, other)
            if result is not None:
                return result
    if left.in_graph or right.in_graph:
        kinds = f"{left.python_type().__name__!r} and {right.python_type().__name__!r}"
        raise_observed(TypeError, f"unsupported operand type(s) for divmod(): {kinds}")
    parts = [operations.binary(evaluator, symbol, left, right) for symbol in ("//", "%")]
    return TupleVariable(parts)


@models(round)
def rounded(
    evaluator: Evaluator, value: VariableTracker, digits: VariableTracker | None = None
) -> VariableTracker:
    """``round(value, digits)``"""
    kind = value.python_type().__name__
    result = operations.special(
        evaluator, value, "__round__", *([] if digits is None else [digits])
    )
    return result or raise_observed(TypeError, f"type {kind} doesn't define __round__ method")


@models(format)
def formatted(
    evaluator: Evaluator, value: VariableTracker, spec: VariableTracker | None = None
) -> VariableTracker:
    """``format(value, spec)``"""
    if spec is not None and not issubclass(spec.python_type(), str):
        kind = spec.python_type().__name__
        raise_observed(TypeError, f"format() argument 2 must be str, not {kind}")
    return operations.format_value(evaluator, value, None, spec)


@models(math.sqrt)
def square_root(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``math.sqrt`` of a symbolic number."""
    if isinstance(value, ObjectVariable):
        number = operations.special(evaluator, value, "__float__")
        return fold(math.sqrt, [number or raise_observed(TypeError, "must be real number")])
    return compute(torch.sym_sqrt, value) or unsupported("scalar-read", "math.sqrt of a tensor")


@models(math.prod)
def product(
    evaluator: Evaluator, values: VariableTracker, *, start: VariableTracker | None = None
) -> VariableTracker:
    """``math.prod(values, start=start)``"""
    result = start or ConstantVariable(1)
    for element in operations.iterate(evaluator, values):
        result = operations.binary(evaluator, "*", result, element)
    return result


# Iteration ----------------------------------------------------------------------------------------


@models(iter)
def make_iterator(
    evaluator: Evaluator, value: VariableTracker, sentinel: VariableTracker | None = None
) -> VariableTracker:
    """``iter(value)`` or ``iter(function, sentinel)``"""
    if sentinel is None:
        return operations.get_iterator(evaluator, value)
    return evaluator.capture.wrap(call_until, None).call(evaluator, [value, sentinel], {})


@models(next)
def next_element(
    evaluator: Evaluator, iterator: VariableTracker, default: VariableTracker | None = None
) -> VariableTracker:
    """``next(iterator, default)``"""
    kind = iterator.python_type()
    if not hasattr(kind, "__next__"):
        raise_observed(TypeError, f"{kind.__name__!r} object is not an iterator")
    if default is None:
        return iterator.call_method(evaluator, "__next__", [], {})
    return next_item(evaluator, iterator) or default


@models(globals)
def global_variables(evaluator: Evaluator) -> VariableTracker:
    """``globals()``"""
    namespace = evaluator.namespace
    return evaluator.capture.wrap(namespace, evaluator.capture.reference(namespace))


@models(locals)
def local_variables(evaluator: Evaluator) -> VariableTracker:
    """``locals()`` of a function: a dict that nothing else has."""
    cells = {name: cell.contents for name, cell in evaluator.cells.items()}
    bound = {**evaluator.locals, **cells}
    known = [(name, bound.get(name)) for name in variable_names(evaluator.code)]
    return dict_of_names({name: realize(value) for name, value in known if value is not None})


@models(dir)
def directory(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``dir(value)`` of a class or an instance: all names, sorted"""
    cls = value.value if isinstance(value, ClassVariable) else value.python_type()
    if class_lookup(value.python_type(), "__dir__")[0] not in (object, type):
        names = operations.special(evaluator, value, "__dir__")
        return ListVariable(sort(evaluator, operations.iterate(evaluator, names or NONE)))
    if not isinstance(value, ClassVariable | ObjectVariable):
        unsupported("builtin", f"dir of {value}")
    found = {*dir(cls)}
    if isinstance(value, ObjectVariable) and cls.__dictoffset__:
        own = operations.iterate(evaluator, value.get_attribute(evaluator, "__dict__"))
        found |= {name.as_constant() for name in own}
    return ListVariable([ConstantVariable(name) for name in sorted(found)])


def _outside_rule(name: str) -> Callable[..., VariableTracker]:
    cause = f"the built-in function {name} has effects outside the graph"
    return lambda evaluator, *args, **kwargs: unsupported("builtin", cause)


for _function in (print, input, open, exec, eval, compile, breakpoint):
    models(_function)(_outside_rule(_function.__name__))


# The functions of `operator` ----------------------------------------------------------------------


def _binary_rule(
    symbol: str, apply: Callable[..., VariableTracker] = operations.binary
) -> Callable[..., VariableTracker]:
    return lambda evaluator, a, b: apply(evaluator, symbol, a, b)


def _unary_rule(symbol: str) -> Callable[..., VariableTracker]:
    return lambda evaluator, a: operations.unary(evaluator, symbol, a)


for _symbol, (_, _plain, _inplace) in operations.BINARY.items():
    models(_plain)(_binary_rule(_symbol))
    models(_inplace)(_binary_rule(f"{_symbol}="))
for _symbol, (_, _operator) in operations.UNARY.items():
    models(_operator)(_unary_rule(_symbol))
for _symbol, (_, _, _operator) in operations.COMPARISONS.items():
    models(_operator)(_binary_rule(_symbol, operations.compare))
models(operator.not_)(_unary_rule("not"))


models(len)(operations.length)
models(operator.getitem)(operations.get_item)
models(operator.setitem)(operations.set_item)
models(operator.delitem)(operations.delete_item)
models(operator.contains)(operations.contains)


@models(operator.index)
def index_of(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``operator.index(value)``"""
    if isinstance(value, SymbolicNumberVariable):
        return value
    return value.call_method(evaluator, "__index__", [], {})
