"""Context variables: `contextvars.ContextVar` and the tokens that restore them.

The value of a variable is guarded like a global's. Residual code sets a value that is still there
at the end; a value that is reset before leaves no trace.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Any, Final

from minitorch2.bytecode.guards import id_match
from minitorch2.bytecode.guards.sources import AppliedSource
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE, literal
from minitorch2.bytecode.trackers.side_effects import Effect

UNSET: Final = object()
"""The value that stands for a variable without one."""


def present_value(variable: contextvars.ContextVar[Any]) -> Any:
    """Return the value that a variable was set to in this context; UNSET if it was not set."""
    return variable.get(UNSET)


def default_of(variable: contextvars.ContextVar[Any]) -> Any:
    """Return the default that a variable was made with; UNSET if it has none."""
    try:
        return contextvars.Context().run(variable.get)
    except LookupError:
        return UNSET


class ContextVarVariable(KnownObjectVariable):
    """A `contextvars.ContextVar`.

    Args:
        capture: the attempt that it is evaluated in.
        value: the variable itself; one that the captured code makes never has a value.
        default: its value while it is not set.
    """

    def __init__(
        self,
        capture: Capture,
        value: contextvars.ContextVar[Any],
        default: VariableTracker | None,
        **options: Any,
    ) -> None:
        super().__init__(value, **options)
        self.capture, self.default = capture, default
        self._held: VariableTracker | None = None
        self._is_read = self.source is None
        self.set_by: TokenVariable | None = None
        self.resets: list[TokenVariable] = []

    def held(self) -> VariableTracker | None:
        """Return the value that it is set to now; None if it is not set."""
        if not self._is_read and self.source is not None:
            place = AppliedSource(self.source, self.capture.reference(present_value))
            value = present_value(self.value)
            if value is UNSET:
                self.capture.add_guard(id_match(place, UNSET, self.capture.line))
            else:
                self._held = self.capture.wrap(value, place)
            self._is_read = True
        return self._held

    def hold(self, value: VariableTracker | None, token: TokenVariable | None) -> None:
        """Set it, or restore the value it had when `token` was the last; None: at first."""
        self._held, self.set_by, self._is_read = value, token, True

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "name":
            return literal(self.value.name)
        if name in ("get", "set", "reset"):
            return GetAttrVariable(self, name)
        return super().get_attribute(evaluator, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name == "get" and len(args) < 2 and not kwargs:
            found = self.held() or (args[0] if args else self.default)
            if found is None:
                raise ObservedError(LookupError, values=(self,))
            return found
        if name == "set" and len(args) == 1 and not kwargs:
            return self._set(args[0])
        if name == "reset" and len(args) == 1 and not kwargs:
            return self._reset(args[0])
        return super().call_method(evaluator, name, args, kwargs)

    def _set(self, value: VariableTracker) -> VariableTracker:
        token = TokenVariable(self, value, self.held(), self.set_by)
        self.hold(value, token)
        self.capture.side_effects.change(("context", id(self)), ContextVarEffect(self))
        return token

    def _reset(self, token: VariableTracker) -> VariableTracker:
        if not isinstance(token, TokenVariable):
            unsupported("builtin-method", f"reset of a context variable by {token}")
        if token.variable is not self:
            raise_observed(ValueError, f"{token} was created by a different ContextVar")
        if token.is_used:
            raise_observed(RuntimeError, f"{token} has already been used once")
        token.is_used = True
        if token.source is not None:
            self._reset_outside(token)
        self.hold(token.before, token.set_before)
        return NONE

    def _reset_outside(self, token: TokenVariable) -> None:
        """Let residual code reset it by a token from outside, before it sets the final value."""
        if self.set_by is not None:
            unsupported("builtin-method", "reset of a context variable that is set inside as well")
        self.resets.append(token)
        self.capture.side_effects.change(("context", id(self)), ContextVarEffect(self))

    def rebuild(self, residual: Residual) -> str:
        default = "" if self.default is None else f", default={residual.name_for(self.default)}"
        return f"{residual.reference(contextvars.ContextVar)}({self.value.name!r}{default})"


class TokenVariable(VariableTracker):
    """The token that ``variable.set(...)`` returns.

    Args:
        value: the value that the variable was set to.
        before: the value of the variable before.
        set_before: the token of the change before, if the captured code made one.
    """

    def __init__(
        self,
        variable: ContextVarVariable,
        value: VariableTracker,
        before: VariableTracker | None,
        set_before: TokenVariable | None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.variable, self.value = variable, value
        self.before, self.set_before = before, set_before
        self.is_used = False

    def python_type(self) -> type:
        return contextvars.Token

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "var":
            return self.variable
        if name == "old_value":
            return self.before or evaluator.capture.wrap(contextvars.Token.MISSING, None)
        return super().get_attribute(evaluator, name)

    def rebuild(self, residual: Residual) -> str:
        """Set the variable early, behind its reads; the sets before this one come first."""
        if self.is_used or self.variable.resets:
            unsupported("reconstruct", "a token of a context variable that was reset")
        for tracker in (self.set_before, self.before):
            if tracker is not None:
                residual.name_for(tracker)
        return f"{residual.name_for(self.variable)}.set({residual.name_for(self.value)})"


@dataclass
class ContextVarEffect(Effect):
    """``variable.set(value)``, for a value that was set and is there at the end."""

    variable: ContextVarVariable

    def owner(self) -> VariableTracker:
        return self.variable

    def value(self) -> VariableTracker | None:
        return self.variable.held() if self.variable.set_by is not None else None

    def prepare(self, residual: Residual) -> None:
        super().prepare(residual)
        for token in self.variable.resets:
            residual.name_for(token)

    def emit(self, residual: Residual) -> None:
        for reset in self.variable.resets:
            token_name = residual.name_for(reset)
            residual.emit(f"{residual.name_for(self.variable)}.reset({token_name})")
        value, token = self.value(), self.variable.set_by
        if value is not None and token is not None and not residual.is_named(token):
            residual.emit(f"{residual.name_for(self.variable)}.set({residual.name_for(value)})")


@constructs(contextvars.ContextVar)
def make_context_variable(
    evaluator: Evaluator, name: VariableTracker, *, default: VariableTracker | None = None
) -> VariableTracker:
    """``contextvars.ContextVar(name, default=default)``"""
    real = contextvars.ContextVar[Any](name.as_constant())
    made = ContextVarVariable(evaluator.capture, real, default)
    evaluator.capture.side_effects.new_object(made)
    return made
