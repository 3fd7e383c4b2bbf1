"""``warnings.warn``: a call in residual code, or the answer of filters that captured code changed.

    warnings.warn(f"{n} left")      -->  warn_at(globals, file, line, "3 left", UserWarning, None)

The filters decide when residual code runs. A guard checks that they do not make an error of the
warning. Inside of ``with warnings.catch_warnings()`` the captured code owns the list of filters, so
it is known whether the warning is shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType
from typing import Any, Final

import torch

from minitorch2.bytecode.frames.skip_files import is_stand_in
from minitorch2.bytecode.guards import Check, Guard
from minitorch2.bytecode.operators.warned import action_of, warn_above, warn_at
from minitorch2.bytecode.polyfills import warning
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, is_none
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.native.cpython.guard_machine import Op

_WARNINGS: Final[Any] = warnings
_REPLACED: Final = ("filters", "showwarning", "_showwarnmsg_impl", "defaultaction")
"""The names that captured code may replace, be it through `catch_warnings`."""


@dataclass(frozen=True)
class WarningIsError(Guard):
    """The fact that the filters in force do, or do not, make an exception of a warning."""

    KIND = "WARNING_IS_ERROR"
    text: str
    category: type[Warning]
    module: str | None
    number: int | None
    is_error: bool

    def checks(self) -> Iterable[Check]:
        asked = outcome_of, self.text, self.category, self.module, self.number
        known = "an error" if self.is_error else "no error"
        return (Check("the warning", Op.PYTHON, known, asked),)


def outcome_of(*warning: Any) -> str:
    """Return what the filters in force make of a warning; see `action_of`."""
    action = action_of(*warning)
    return {"error": "an error", None: "unknown"}.get(action, "no error")


@models(warnings.warn)
def warn(
    evaluator: Evaluator,
    message: VariableTracker,
    category: VariableTracker = NONE,
    stacklevel: VariableTracker = ConstantVariable(1),  # noqa: B008 (a constant)
    source: VariableTracker = NONE,
    *,
    skip_file_prefixes: VariableTracker = ConstantVariable(()),  # noqa: B008 (a constant)
) -> VariableTracker:
    """``warnings.warn`` for a line of the captured code, or of a caller of the frame"""
    if skip_file_prefixes.as_constant():
        unsupported("warning", "a warning for the nearest line outside of some files")
    kind = _category(evaluator, message, category)
    cls = evaluator.capture.wrap(kind, None)
    frames = list(_frames(evaluator))
    level = max(stacklevel.as_constant(), 1)
    if any(map(_is_called_by_torch, frames[: min(level, len(frames)) - 1])):
        unsupported("warning", "a warning for the line of PyTorch's that calls a forward method")
    place = frames[level - 1] if level <= len(frames) else None
    if _has_other_filters(evaluator):
        if place is None:
            unsupported("warning", "a warning for a caller of the captured function")
        return _decide(evaluator, place, message, cls, source)
    if _is_recorded_within_reach(evaluator):
        unsupported("warning", "a warning that goes to a list which the captured code can read")
    text = _text(evaluator, message)
    module = None if place is None else _module(place)
    number = None if place is None else place.line
    action = action_of(text, kind, module, number)
    if action is None:
        unsupported("warning", "a warning that is an error for some callers")
    is_error = action == "error"
    guard = WarningIsError(text, kind, module, number, is_error)
    evaluator.capture.add_guard(guard)
    if is_error:
        error = _instance(evaluator, message, cls)
        raise ObservedError(error.python_type(), exception=error)
    effects, line = evaluator.capture.side_effects, frames[-1].line
    if place is None:
        up = ConstantVariable(level - len(frames))
        effects.call(warn_above, [up, message, cls, source], line)
    else:
        where = [_globals(place), ConstantVariable(place.code.co_filename)]
        where.append(ConstantVariable(place.line))
        effects.call(warn_at, [*where, message, cls, source], line)
    return NONE


def _is_called_by_torch(frame: Evaluator) -> bool:
    """Return whether a frame is that of a module's forward method, which PyTorch's code calls."""
    first = frame.code.co_varnames[:1]
    owner = frame.locals.get(first[0]) if first else None
    if frame.parent is None or owner is None or frame.code.co_name != "forward":
        return False
    return issubclass(owner.python_type(), torch.nn.Module)


def _is_recorded_within_reach(evaluator: Evaluator) -> bool:
    """Return whether warnings go to a list that the captured frame was given or can name."""
    log = getattr(_WARNINGS._showwarnmsg_impl, "__self__", None)
    if not isinstance(log, list):
        return False
    frame = evaluator.capture.frame
    cells = [cell.cell_contents for cell in frame.function.__closure__ or () if _is_full(cell)]
    places = (frame.values.values(), frame.globals.values(), cells)
    return any(value is log for values in places for value in values)


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (reading it raises)
    except ValueError:
        return False
    return True


def _category(
    evaluator: Evaluator, message: VariableTracker, category: VariableTracker
) -> type[Warning]:
    if issubclass(message.python_type(), Warning):
        return message.python_type()
    kind = UserWarning if is_none(category) else getattr(category, "value", MISSING)
    if not (isinstance(kind, type) and issubclass(kind, Warning)):
        name = category.python_type().__name__ if not isinstance(kind, type) else kind.__name__
        shown = "type" if isinstance(kind, type) else name
        raise_observed(TypeError, f"category must be a Warning subclass, not {shown!r}")
    return kind


def _text(evaluator: Evaluator, message: VariableTracker) -> str:
    return str(operations.format_value(evaluator, message, "s", None).as_constant())


def _instance(
    evaluator: Evaluator, message: VariableTracker, category: VariableTracker
) -> VariableTracker:
    is_made = issubclass(message.python_type(), Warning)
    return message if is_made else evaluator.call(category, [message])


def _frames(evaluator: Evaluator | None) -> Iterator[Evaluator]:
    """Yield the frames that are being evaluated, innermost first, without stand-ins for C code."""
    while evaluator is not None:
        if evaluator.parent is None or not is_stand_in(evaluator.code.co_filename):
            yield evaluator
        evaluator = evaluator.parent


def _module(frame: Evaluator) -> str:
    return str(frame.namespace.get("__name__") or "<string>")


def _globals(frame: Evaluator) -> VariableTracker:
    capture = frame.capture
    return capture.wrap(frame.namespace, capture.reference(frame.namespace))


def _has_other_filters(evaluator: Evaluator) -> bool:
    """Return whether captured code has changed the filters, or the functions that show warnings."""
    effects, module = evaluator.capture.side_effects, evaluator.capture.wrap(warnings, None)
    if effects.load_global(vars(warnings), "filters") is None:
        filters = evaluator.capture.known_object(_WARNINGS.filters)
        return filters is not None and effects.changes(filters)
    values = [module.get_attribute(evaluator, name) for name in _REPLACED]
    return any(value.source is None or effects.changes(value) for value in values)


def _decide(
    evaluator: Evaluator,
    place: Evaluator,
    message: VariableTracker,
    category: VariableTracker,
    source: VariableTracker,
) -> VariableTracker:
    """Apply the filters as the captured code has changed them."""
    registries = evaluator.capture.warned
    shown = registries.setdefault(id(place.namespace), DictVariable(()))
    parts = [place.code.co_filename, place.line, _module(place)]
    where = [ConstantVariable(part) for part in parts]
    body = evaluator.capture.wrap(warning.warn_explicit, None)
    instance = _instance(evaluator, message, category)
    return evaluator.call(body, [instance, category, *where, shown, source])


@models(_WARNINGS._filters_mutated)
def filters_mutated(evaluator: Evaluator) -> None:
    """Let warnings that were shown already be shown again"""
    evaluator.capture.warned.clear()
    line = list(_frames(evaluator))[-1].line
    evaluator.capture.side_effects.call(_WARNINGS._filters_mutated, [], line)


@models(_WARNINGS._showwarnmsg_impl)
def show_message(evaluator: Evaluator, message: VariableTracker) -> None:
    """Show a warning in a file, or on `sys.stderr`"""
    line = list(_frames(evaluator))[-1].line
    evaluator.capture.side_effects.call(_WARNINGS._showwarnmsg_impl, [message], line)
