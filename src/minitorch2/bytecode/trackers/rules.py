"""Application of a rule: a Python function that does on trackers the work of a real function.

Rules raise the user's error with a plain message. If all operands are constants, CPython gives its
own error: the real function is called on copies, and its exception is raised.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import ObservedError, raise_as_observed

Rule = Callable[..., VariableTracker | None]
K = TypeVar("K")
F = TypeVar("F")


def registers(table: dict[K, F]) -> Callable[..., Callable[[F], F]]:
    """Return ``register(*keys)``, a decorator that enters a function in a table."""

    def register(*keys: K) -> Callable[[F], F]:
        def enter(function: F) -> F:
            table.update(dict.fromkeys(keys, function))
            return function

        return enter

    return register


def apply_rule(
    rule: Rule,
    real: Callable[..., object],
    evaluator: Evaluator,
    args: Arguments,
    kwargs: Keywords,
    owner: Sequence[VariableTracker] = (),
) -> VariableTracker | None:
    """``rule(evaluator, *args, **kwargs)``, with the errors of ``real(*owner, *args, **kwargs)``.

    Raises: ObservedError: the real function's error, also when the arguments do not fit the rule.
    """
    try:
        return rule(evaluator, *args, **kwargs)
    except ObservedError as error:
        if error.exception is None:
            raise_real(real, [*owner, *args], kwargs)
        raise
    except TypeError as error:
        if _accepts(rule, evaluator, args, kwargs):
            raise
        raise_real(real, [*owner, *args], kwargs)
        name = getattr(real, "__qualname__", str(real))
        unsupported("builtin", f"{name} with arguments that its model does not take: {error}")


def raise_real(
    real: Callable[..., object], args: Arguments, kwargs: Keywords | None = None
) -> None:
    """Raise the error of the real function; nothing happens if an operand is not constant."""
    named = dict(kwargs or {})
    if not all(operand.is_constant() for operand in (*args, *named.values())):
        return
    constants = [arg.as_constant() for arg in args]
    try:
        real(*constants, **{name: value.as_constant() for name, value in named.items()})
    except Exception as error:  # noqa: BLE001 (whatever the real function raises)
        raise_as_observed(error)


def _accepts(rule: Rule, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> bool:
    try:
        inspect.signature(rule).bind(evaluator, *args, **kwargs)
    except TypeError:
        return False
    return True
