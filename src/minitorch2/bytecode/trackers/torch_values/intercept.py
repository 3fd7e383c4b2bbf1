"""The call that PyTorch would pass to an override of one of its functions.

PyTorch chooses the function that a ``__torch_function__`` is given, and the arguments. ``1 + x`` is
``torch.Tensor.add(x, 1)``, ``1 - x`` is ``torch.Tensor.__rsub__(x, 1)``, and the functions of
`torch.nn.functional` pass all their defaults. So PyTorch is asked: the operation runs on stand-ins
of its operands, under a mode that stops at the first call and notes it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from minitorch2.bytecode.operators.fake_call import describe_target
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.python_values.constant import literal
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable, dict_of_names
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable
from minitorch2.native.torch_internals.modes import enable_torch_function


@dataclass(frozen=True)
class OverridableCall:
    """The call that an override is given.

    Attributes:
        function: the function of PyTorch's.
        overloaded: the arguments whose classes have an override, one of each class, in the order
            in which PyTorch found them. Functions in Python count plain tensors, too.
        args: the arguments, a tracker each.
        kwargs: the keyword arguments; None if PyTorch passes none.
    """

    function: Any
    overloaded: tuple[VariableTracker, ...]
    args: tuple[VariableTracker, ...]
    kwargs: dict[str, VariableTracker] | None


class _Noted(BaseException):
    """Leaves the operation with the first call that it makes."""

    def __init__(self, call: tuple[Any, ...]) -> None:
        super().__init__()
        self.call = call


class _Note(TorchFunctionMode):
    def __torch_function__(self, *call: Any) -> Any:
        raise _Noted(call)


def _overrides(cls: type, *call: Any) -> Any:
    return NotImplemented


_TENSORS: Final[list[type]] = []
_OBJECTS: Final[list[type]] = []


def _class_number(classes: list[type], base: type, number: int) -> type:
    while len(classes) <= number:
        classes.append(type("StandIn", (base,), {"__torch_function__": classmethod(_overrides)}))
    return classes[number]


@dataclass
class _StandIns:
    """Stand-ins of trackers and back.

    Args:
        has_override: whether the class of a tracker's value has an override.
    """

    has_override: Callable[[VariableTracker], bool]
    trackers: dict[int, VariableTracker] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)
    classes: dict[type, VariableTracker] = field(default_factory=dict)
    by_class: dict[type, type] = field(default_factory=dict)

    def of(self, tracker: VariableTracker) -> Any:
        """Return a value that PyTorch takes for the tracker's."""
        if tracker.is_constant():
            return tracker.as_constant()
        if isinstance(tracker, SequenceVariable):
            made = tracker.CLS([self.of(element) for element in tracker.realized()])
        elif isinstance(tracker, DictVariable):
            made = {key.as_constant(): self.of(value) for key, value in tracker.pairs()}
        else:
            made = self._value(tracker)
        self.trackers[id(made)] = tracker
        self.alive.append(made)
        return made

    def _value(self, tracker: VariableTracker) -> Any:
        fake = getattr(tracker, "fake", None)
        made: Any = None
        if isinstance(fake, torch.Tensor):
            size = (0,) if fake.ndim else ()
            made = torch.empty(size, dtype=fake.dtype, device="meta")
            self.classes.setdefault(torch.Tensor, tracker)
        if self.has_override(tracker):
            made = self._overriding(tracker, made)
        if made is not None:
            return made
        number = tracker.python_type()
        return number(len(self.alive) + 1000) if number in (int, float) else object()

    def _overriding(self, tracker: VariableTracker, plain: torch.Tensor | None) -> Any:
        cls = tracker.python_type()
        if plain is None:
            stand_in = self._class(cls, _OBJECTS, object, tracker)
            return stand_in()
        return plain.as_subclass(self._class(cls, _TENSORS, torch.Tensor, tracker))

    def _class(self, cls: type, pool: list[type], base: type, tracker: VariableTracker) -> type:
        if cls not in self.by_class:
            made = self.by_class[cls] = _class_number(pool, base, len(self.by_class))
            self.classes[made] = tracker
        return self.by_class[cls]

    def tracker_of(self, value: Any) -> VariableTracker:
        """Return the tracker behind a value that PyTorch passes on."""
        known = self.trackers.get(id(value))
        if known is not None:
            return known
        if isinstance(value, (tuple, list)):
            return literal(type(value)(())).make([self.tracker_of(v) for v in value])  # type: ignore[attr-defined, no-any-return]
        if isinstance(value, dict):
            return dict_of_names({key: self.tracker_of(v) for key, v in value.items()})
        return literal(value)


def intercept(
    op: str,
    target: str | Callable[..., Any],
    args: Arguments,
    kwargs: Keywords,
    has_override: Callable[[VariableTracker], bool],
) -> OverridableCall | types.FunctionType | None:
    """Return the call that overrides are given; None if there is nothing to override.

    A Python function of PyTorch's that makes such calls, but is not one itself, is returned as it
    is.

    Raises:
        UnsupportedError: PyTorch refuses the arguments.
    """
    stand_ins = _StandIns(has_override)
    values = [stand_ins.of(arg) for arg in args]
    named = {name: stand_ins.of(value) for name, value in kwargs.items()}
    function: Any = target
    if isinstance(target, str):
        function = getattr(torch.Tensor, target)
    try:
        with enable_torch_function(), _Note():
            function(*values, **named)
    except _Noted as noted:
        return _call_of(function, noted.call, stand_ins)
    except Exception as error:  # noqa: BLE001 (whatever PyTorch says of the arguments)
        cause = f"{describe_target(op, target)} failed: {type(error).__name__}: {error}"
        unsupported("operator-error", cause)
    return None


def _call_of(
    asked: Any, call: tuple[Any, ...], stand_ins: _StandIns
) -> OverridableCall | types.FunctionType:
    function, classes, args, *rest = call
    if isinstance(asked, types.FunctionType) and function is not asked:
        return asked
    kwargs = {name: stand_ins.tracker_of(v) for name, v in rest[0].items()} if rest else None
    overloaded = tuple(stand_ins.classes[cls] for cls in classes)
    return OverridableCall(function, overloaded, tuple(map(stand_ins.tracker_of, args)), kwargs)
