"""Operators on symbolic values, dispatched on the operands' types as CPython does.

Constants fold, and tensors and symbolic numbers put a node into the graph. Everything else goes
through the special methods: ``left.__add__(right)``, then ``right.__radd__(left)``. The right one
comes first if its class is a subclass that overrides it. In-place operators try ``__iadd__``
before. PyTorch 2 paper, section 3.4 ("the dispatch will vary based on those types").
"""

from __future__ import annotations

import numbers
import operator
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, TypeAlias

import torch
from numpy import bool_

from minitorch2.bytecode.guards.tensor_class import replaced_names
from minitorch2.bytecode.polyfills import iterate_by_index
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING, class_lookup
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.opaque import OpaqueVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, fold
from minitorch2.bytecode.trackers.python_values.iterator import (
    FixedIterator,
    IteratorVariable,
    next_item,
)
from minitorch2.bytecode.trackers.rules import raise_real
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable, compute

Function = Callable[..., Any]

BINARY: Final[dict[str, tuple[str, Function, Function]]] = {
    "+": ("add", operator.add, operator.iadd),
    "-": ("sub", operator.sub, operator.isub),
    "*": ("mul", operator.mul, operator.imul),
    "/": ("truediv", operator.truediv, operator.itruediv),
    "//": ("floordiv", operator.floordiv, operator.ifloordiv),
    "%": ("mod", operator.mod, operator.imod),
    "**": ("pow", operator.pow, operator.ipow),
    "@": ("matmul", operator.matmul, operator.imatmul),
    "<<": ("lshift", operator.lshift, operator.ilshift),
    ">>": ("rshift", operator.rshift, operator.irshift),
    "&": ("and", operator.and_, operator.iand),
    "|": ("or", operator.or_, operator.ior),
    "^": ("xor", operator.xor, operator.ixor),
}
"""Symbol to name of the special method, function, in-place function."""

UNARY: Final[dict[str, tuple[str, Function]]] = {
    "-": ("__neg__", operator.neg),
    "+": ("__pos__", operator.pos),
    "~": ("__invert__", operator.invert),
}

COMPARISONS: Final[dict[str, tuple[str, str, Function]]] = {
    "<": ("__lt__", "__gt__", operator.lt),
    "<=": ("__le__", "__ge__", operator.le),
    "==": ("__eq__", "__eq__", operator.eq),
    "!=": ("__ne__", "__ne__", operator.ne),
    ">": ("__gt__", "__lt__", operator.gt),
    ">=": ("__ge__", "__le__", operator.ge),
}
"""Symbol to special method, the other operand's special method, function."""


def _meets_tensor(*operands: VariableTracker) -> bool:
    """Return whether an operand is a tensor whose class has the operators that PyTorch made."""
    return any(operand.in_graph for operand in operands) and not replaced_names()


def refuse_varying(*operands: VariableTracker) -> None:
    """Leave operations on values of which only the type is known to Python."""
    for operand in operands:
        if isinstance(operand, OpaqueVariable):
            operand.refuse()


def binary(
    evaluator: Evaluator, symbol: str, left: VariableTracker, right: VariableTracker
) -> VariableTracker:
    """``left <symbol> right``; a symbol that ends in ``=`` is in-place."""
    inplace = symbol.endswith("=")
    name, function, inplace_function = BINARY[symbol.removesuffix("=")]
    if is_scalar(left) and is_scalar(right):
        return fold(function, [left, right])
    if _meets_tensor(left, right):
        target = inplace_function if inplace and left.in_graph else function
        if _graph_operands(left, right):
            return evaluator.capture.call_in_graph(
                evaluator, "call_function", target, [left, right]
            )
    if (number := compute(function, left, right)) is not None:
        return number
    attempts = [(left, right, f"__i{name}__")] if inplace else []
    attempts += _attempts(left, right, f"__{name}__", f"__r{name}__")
    result = _first_answer(evaluator, sorted(attempts, key=_is_of_sequence))
    if result is None:
        refuse_varying(left, right)
        refuse_operands(inplace_function if inplace else function, left, right)
    return result


def unary(evaluator: Evaluator, symbol: str, operand: VariableTracker) -> VariableTracker:
    """``-operand`` and the other operators of one operand, ``not`` among them."""
    if symbol == "not":
        return ConstantVariable(not truth(evaluator, operand))
    name, function = UNARY[symbol]
    if is_scalar(operand):
        return fold(function, [operand])
    if _meets_tensor(operand):
        return evaluator.capture.call_in_graph(evaluator, "call_function", function, [operand])
    if (number := compute(function, operand)) is not None:
        return number
    result = special(evaluator, operand, name)
    if result is None:
        refuse_varying(operand)
        refuse_operands(function, operand)
    return result


def refuse_operands(function: Function, *operands: VariableTracker) -> NoReturn:
    """Raise CPython's error for operands of an operator that none of them defines."""
    try:
        function(*map(_example, operands))
    except Exception as error:  # noqa: BLE001 (whatever the operator raises)
        raise_as_observed(error)
    unsupported("builtin-method", f"{function.__name__} of {operands}")


def _example(operand: VariableTracker) -> object:
    """Return the value, or an empty one whose class has the same name and base of C code."""
    if operand.is_constant():
        return operand.as_constant()
    kind: Any = operand.python_type()
    base: Any = next(cls for cls in kind.__mro__ if cls in (list, tuple, dict, set, object))
    return base() if kind is base else type(kind.__name__, (base,), {})()


def compare(
    evaluator: Evaluator, symbol: str, left: VariableTracker, right: VariableTracker
) -> VariableTracker:
    """``left <symbol> right`` for a comparison."""
    name, reflected, function = COMPARISONS[symbol]
    if is_scalar(left) and is_scalar(right):
        return fold(function, [left, right])
    if _meets_tensor(left, right) and _graph_operands(left, right):
        return evaluator.capture.call_in_graph(evaluator, "call_function", function, [left, right])
    if (number := compute(function, left, right)) is not None:
        return number
    result = _first_answer(evaluator, _attempts(left, right, name, reflected))
    if result is not None:
        return result
    refuse_varying(left, right)
    if symbol in ("==", "!="):
        return ConstantVariable(identical(evaluator, left, right) == (symbol == "=="))
    refuse_operands(function, left, right)


def equal(evaluator: Evaluator, left: VariableTracker, right: VariableTracker) -> bool:
    """Return whether containers take the two for the same element: identical or equal."""
    same = left is right or (not _are_numbers(left, right) and is_same(left, right))
    return same or truth(evaluator, compare(evaluator, "==", left, right))


def identical(evaluator: Evaluator, left: VariableTracker, right: VariableTracker) -> bool:
    """``left is right``, in the user's program: objects that are different now must stay so."""
    same = is_same(left, right)
    if not (same or is_scalar(left) or is_scalar(right)):
        evaluator.capture.guard_distinct(left, right)
    return same


def is_same(left: VariableTracker, right: VariableTracker) -> bool:
    """Return whether two trackers stand for one object, as far as capture can tell."""
    if left is right:
        return True
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        a, b = left.value, right.value
        return a is b or (type(a) is type(b) and a == b and isinstance(a, _INTERNED))
    if _are_numbers(left, right):
        return bool(left.as_constant() == right.as_constant())
    opaque = isinstance(left, OpaqueVariable) or isinstance(right, OpaqueVariable)
    if opaque and left.python_type() is right.python_type():
        refuse_varying(left, right)
    value = getattr(left, "value", None)  # None: the captured code makes it
    return not (value is None or value is MISSING) and value is getattr(right, "value", MISSING)


def _are_numbers(left: VariableTracker, right: VariableTracker) -> bool:
    """Return whether two numbers of one type, not both constant, might be one object."""
    symbolic = any(isinstance(side, SymbolicNumberVariable) for side in (left, right))
    return symbolic and left.python_type() is right.python_type()


# Equal values of these types are one object wherever programs rely on it (small ints, names).
_INTERNED = (int, str, bytes)


def contains(
    evaluator: Evaluator, container: VariableTracker, item: VariableTracker
) -> VariableTracker:
    """``item in container``."""
    if is_scalar(container) and is_scalar(item):
        return fold(operator.contains, [container, item])
    result = special(evaluator, container, "__contains__", item)
    if result is not None:
        return ConstantVariable(truth(evaluator, result))
    elements = iterate(evaluator, container)
    return ConstantVariable(any(equal(evaluator, item, element) for element in elements))


def get_item(evaluator: Evaluator, owner: VariableTracker, key: VariableTracker) -> VariableTracker:
    """``owner[key]``."""
    if is_scalar(owner) and key.is_foldable():
        return fold(operator.getitem, [owner, key])
    if _is_class(owner):
        return owner.call_method(evaluator, "__class_getitem__", [key], {})
    return _required(evaluator, owner, "__getitem__", "object is not subscriptable", key)


def set_item(
    evaluator: Evaluator, owner: VariableTracker, key: VariableTracker, value: VariableTracker
) -> None:
    """``owner[key] = value``."""
    message = "object does not support item assignment"
    _required(evaluator, owner, "__setitem__", message, key, value)


def delete_item(evaluator: Evaluator, owner: VariableTracker, key: VariableTracker) -> None:
    """``del owner[key]``."""
    _required(evaluator, owner, "__delitem__", "object doesn't support item deletion", key)


def length(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``len(value)``."""
    if is_scalar(value):
        return fold(len, [value])
    kind = value.python_type().__name__
    result = special(evaluator, value, "__len__")
    if result is None:
        raise_observed(TypeError, f"object of type '{kind}' has no len()")
    return result


def truth(evaluator: Evaluator, value: VariableTracker) -> bool:
    """``bool(value)``."""
    return value.truth(evaluator)


def get_iterator(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``iter(value)``."""
    if isinstance(value, IteratorVariable):
        return value
    if is_scalar(value) or _meets_tensor(value):
        return FixedIterator(value.items(evaluator))
    result = special(evaluator, value, "__iter__")
    if result is not None:
        return result
    if hasattr(value.python_type(), "__getitem__") and not _is_class(value):
        by_index = evaluator.capture.wrap(iterate_by_index, None)
        return by_index.call(evaluator, [value], {})
    return raise_observed(TypeError, f"'{value.python_type().__name__}' object is not iterable")


def iterate(evaluator: Evaluator, value: VariableTracker) -> list[VariableTracker]:
    """Return all elements of an iteration over the value."""
    iterator = get_iterator(evaluator, value)
    elements: list[VariableTracker] = []
    while (element := next_item(evaluator, iterator)) is not None:
        elements.append(element)
        if len(elements) > _UNROLL_LIMIT:
            unsupported("endless-iteration", f"iteration over {value} has no end in sight")
    return elements


_UNROLL_LIMIT = 100_000


def special(
    evaluator: Evaluator, owner: VariableTracker, name: str, *args: VariableTracker
) -> VariableTracker | None:
    """Call a special method of the value's class; None if it has none or it is NotImplemented."""
    found_in, method = class_lookup(owner.python_type(), name)
    if method in (MISSING, None) or (found_in is object and name in _ORDERS):
        return None
    result = owner.call_method(evaluator, name, args, {})
    if is_scalar(result) and result.as_constant() is NotImplemented:
        return None
    return result


_ORDERS: Final = {"__lt__", "__le__", "__gt__", "__ge__"}
"""Special methods for which `object` gives NotImplemented."""


def is_scalar(value: VariableTracker) -> bool:
    """Return whether the value is a constant and not a container."""
    return isinstance(value, ConstantVariable)


Attempt: TypeAlias = tuple[VariableTracker, VariableTracker, str]
"""An operand, the other one, and the special method that is asked about them."""


def _attempts(
    left: VariableTracker, right: VariableTracker, name: str, reflected: str
) -> list[Attempt]:
    """Ask the left operand, then the right one; a subclass on the right is asked first."""
    left_type, right_type = left.python_type(), right.python_type()
    attempts = [(left, right, name), (right, left, reflected)]
    is_derived = right_type is not left_type and issubclass(right_type, left_type)
    is_comparison = not reflected.startswith("__r")
    if is_derived and (is_comparison or _overrides(right_type, left_type, reflected)):
        attempts.reverse()
    if right_type is left_type and not is_comparison:
        attempts.pop()
    return attempts


def _first_answer(evaluator: Evaluator, attempts: Iterable[Attempt]) -> VariableTracker | None:
    for owner, other, method in attempts:
        if is_foreign(owner, other):
            continue
        result = special(evaluator, owner, method, other)
        if result is not None:
            return result
    return None


def _is_of_sequence(attempt: Attempt) -> bool:
    """Return whether the method joins or repeats a sequence: CPython asks numbers before."""
    owner, _, method = attempt
    joins = method.endswith(("add__", "mul__"))
    return joins and class_lookup(owner.python_type(), method)[0] in _SEQUENCES


_SEQUENCES: Final = (list, tuple, str, bytes, bytearray, deque)


def is_foreign(tensor: VariableTracker, other: VariableTracker) -> bool:
    """Return whether the operators of a tensor give NotImplemented for the other operand."""
    if not issubclass(tensor.python_type(), torch.Tensor) or other.in_graph:
        return False
    kind = other.python_type()
    taken = issubclass(kind, numbers.Number | bool_) or hasattr(kind, "__array__")
    return not (taken or hasattr(kind, "__torch_function__"))


def _overrides(derived: type, base: type, name: str) -> bool:
    """Return whether a derived class has another method of this name than its base."""
    return class_lookup(derived, name)[1] is not class_lookup(base, name)[1]


def _required(
    evaluator: Evaluator, owner: VariableTracker, name: str, message: str, *args: VariableTracker
) -> VariableTracker:
    if not hasattr(owner.python_type(), name):
        raise_real(getattr(operator, name), [owner, *args])
        raise_observed(TypeError, f"'{owner.python_type().__name__}' {message}")
    return owner.call_method(evaluator, name, args, {})


def _graph_operands(left: VariableTracker, right: VariableTracker) -> bool:
    """Return whether both operands can be arguments of a node, without an operator of their own."""
    return all(
        side.in_graph
        or isinstance(side, SymbolicNumberVariable)
        or (side.is_constant() and side.python_type() not in (str, bytes))
        for side in (left, right)
    ) and not (is_foreign(left, right) or is_foreign(right, left))


def _is_class(value: VariableTracker) -> bool:
    return issubclass(value.python_type(), type)


_CONVERSIONS: Final[dict[str, Function]] = {"s": str, "r": repr, "a": ascii}


def format_value(
    evaluator: Evaluator,
    value: VariableTracker,
    conversion: str | None,
    spec: VariableTracker | None,
) -> VariableTracker:
    """Return the text ``f"{value!r:spec}"``, only for values that are known while capturing."""
    if conversion is None and not value.is_constant() and not value.in_graph:
        text = special(evaluator, value, "__format__", spec or ConstantVariable(""))
        return text or raise_observed(TypeError, "unsupported format string")
    name = {"r": "__repr__", "s": "__str__"}.get(conversion or "", "")
    if not value.is_constant() and name and not value.in_graph:
        text = special(evaluator, value, name)
        if text is not None and spec is None:
            return text
        value, conversion = text or value, None
    if not value.is_constant():
        unsupported("format", f"the text of {value} is not known while capturing")
    constant = value.as_constant()
    shown = _CONVERSIONS[conversion](constant) if conversion else constant
    return fold(format, [ConstantVariable(shown), *([] if spec is None else [spec])])
