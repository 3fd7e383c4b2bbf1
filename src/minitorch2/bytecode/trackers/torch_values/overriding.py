"""Dispatch on ``__torch_function__``: find the override that answers a call of PyTorch's.

The order is PyTorch's. The innermost mode is asked first, while it is not active itself. Then comes
each class among the arguments that has an override: a derived class before its base, the others
from left to right. An override that returns NotImplemented leaves the call to the next. The
override itself is the user's Python and is inlined.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch
import torch.nn.functional as F

from minitorch2.bytecode.guards import OverridesOfClasses
from minitorch2.bytecode.guards.overrides import overrides_functions, with_overrides
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_tracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.lazy import LazyVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.functions import UserFunctionVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable, dict_of_names
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable, TupleVariable
from minitorch2.bytecode.trackers.torch_values.intercept import OverridableCall, intercept
from minitorch2.native.torch_internals.nested import NestedTensor

DEPTH: Final = 2
"""The depth to which PyTorch's functions look for tensors in lists."""

_OPERATORS: Final = frozenset(
    value for value in vars(operator).values() if isinstance(value, types.BuiltinFunctionType)
)


def overridden(
    evaluator: Evaluator,
    op: str,
    target: str | Callable[..., Any],
    args: Arguments,
    kwargs: Keywords | None = None,
) -> VariableTracker | None:
    """Return an override's result for a call; None if no override applies to it.

    Args:
        op: as in `Capture.call_in_graph`.
        target: the method's name, the function, or an operator of Python's.
    """
    kwargs, overrides = kwargs or {}, evaluator.capture.overrides
    has_mode = overrides.sees(target)
    if not has_mode and not has_overrides(evaluator, (*args, *kwargs.values())):
        return None
    asked = has_override if overrides.of_classes else lambda tracker: False
    call = intercept(op, target, args, kwargs, asked)
    if isinstance(call, types.FunctionType):
        body = UserFunctionVariable(call, source=evaluator.capture.reference(call))
        return body.call(evaluator, args, dict(kwargs))
    if call is None or not (has_mode or call.overloaded):
        return None
    return dispatch(evaluator, call)


def has_overrides(evaluator: Evaluator, values: Iterable[VariableTracker]) -> bool:
    """Return whether the class of a value, or of an element of it, has an override that acts."""
    if not any(map(has_override, _flat(values))):
        return False
    evaluator.capture.add_guard(OverridesOfClasses(evaluator.capture.frame.overrides.of_classes))
    return evaluator.capture.overrides.of_classes


def has_override(tracker: VariableTracker) -> bool:
    """Return whether the class of a value has a ``__torch_function__``."""
    if isinstance(tracker, LazyVariable):
        return overrides_functions(type(tracker.value))
    cls = getattr(tracker, "cls", None)
    return isinstance(cls, type) and overrides_functions(cls)


def _flat(values: Iterable[VariableTracker], depth: int = DEPTH) -> Iterator[VariableTracker]:
    for value in values:
        if depth and isinstance(value, SequenceVariable):
            yield from _flat(value.elements, depth - 1)
        elif depth and isinstance(value, DictVariable):
            yield from _flat(value.values(), depth - 1)
        else:
            yield value


def is_operator(target: object) -> bool:
    """Return whether a function is an operator of Python's, or reads an attribute."""
    return target is getattr or target in _OPERATORS


def method_of(target: str | Callable[..., Any]) -> str | None:
    """Return the name of the method that a target of a node calls; None for a function."""
    if isinstance(target, str):
        return target
    return f"__{target.__name__.strip('_')}__" if is_operator(target) else None


def dispatch(evaluator: Evaluator, call: OverridableCall) -> VariableTracker:
    """Ask the overrides in turn.

    Raises:
        UnsupportedError: no override answers: PyTorch raises its own error.
    """
    capture, overloaded = evaluator.capture, in_order(call.overloaded)
    function = capture.wrap(call.function, capture.reference(call.function))
    kinds = TupleVariable([class_tracker(evaluator, t.python_type()) for t in overloaded])
    arguments: list[VariableTracker] = [function, kinds, TupleVariable(list(call.args))]
    if call.kwargs is not None:
        arguments.append(dict_of_names(call.kwargs))
    mode = capture.overrides.innermost()
    if mode is not None:
        with capture.overrides.without_innermost():
            result = mode.call_method(evaluator, "__torch_function__", arguments, {})
        if not _is_not_implemented(result):
            return result
    for owner in overloaded:
        override = owner.get_attribute(evaluator, "__torch_function__")
        result = override.call(evaluator, arguments, {})
        if not _is_not_implemented(result):
            return result
    return unsupported("operator-error", f"no __torch_function__ answers {call.function}")


def _is_not_implemented(result: VariableTracker) -> bool:
    return isinstance(result, ConstantVariable) and result.value is NotImplemented


_OF_JAGGED: Final[dict[str | Callable[..., Any], Callable[..., Any]]] = {
    "flatten": with_overrides(torch.Tensor.flatten),
    torch.flatten: with_overrides(torch.flatten),
    torch.rms_norm: with_overrides(torch.rms_norm),
    F.rms_norm: with_overrides(F.rms_norm),
    F.scaled_dot_product_attention: with_overrides(F.scaled_dot_product_attention),
}
"""Functions that PyTorch computes otherwise for jagged tensors, as the class overrides them."""


def of_jagged(
    evaluator: Evaluator,
    op: str,
    target: str | Callable[..., Any],
    args: Arguments,
    kwargs: Keywords,
) -> VariableTracker | None:
    """Record a function that jagged tensors override; None for all others."""
    function = _OF_JAGGED.get(target)
    read = [t for t in _flat(args) if not isinstance(t, LazyVariable)] if function else []
    jagged = [t for t in read if t.python_type() is NestedTensor]
    if function is None or not jagged:
        return None
    if target is F.scaled_dot_product_attention and jagged[0].fake.device.type == "cpu":  # type: ignore[attr-defined]
        unsupported("data-dependent", "the CPU's attention to jagged tensors splits them into rows")
    return evaluator.capture.call_in_graph(evaluator, "call_function", function, args, kwargs)


def in_order(overloaded: Iterable[VariableTracker]) -> list[VariableTracker]:
    """Return one argument of each class, a derived class before its base, else as they come."""
    ordered: list[VariableTracker] = []
    for tracker in overloaded:
        cls = tracker.python_type()
        known = [each.python_type() for each in ordered]
        if cls not in known:
            place = next((i for i, k in enumerate(known) if issubclass(cls, k)), len(known))
            ordered.insert(place, tracker)
    return ordered
