"""Exceptions that the user's program raises while it is evaluated symbolically.

Two kinds of Python exception fly through the evaluator and must not be mixed up. `UnsupportedError`
says that *we* cannot model something, and ends the graph. `ObservedError` says that *the user's
program* raises; the user's own ``try`` catches it, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from minitorch2.bytecode.trackers.base import VariableTracker


class ObservedError(Exception):
    """The user's program raises.

    Args:
        kind: class of the exception, for messages and for ``except`` clauses.
        arguments: constant arguments of the exception, when it was raised by a folded operation.
        values: its arguments, when they are not constants.
        exception: the tracker of the exception object, when the program made it itself.
    """

    def __init__(
        self,
        kind: type[BaseException],
        arguments: tuple[object, ...] = (),
        exception: VariableTracker | None = None,
        values: tuple[VariableTracker, ...] | None = None,
    ) -> None:
        super().__init__(kind, arguments)
        self.kind = kind
        self.arguments = arguments
        self.exception = exception
        self.values = values
        self.is_noted = False
        """True if the exception has noted already the context in which it was raised."""


class UninitializedError(Exception):
    """A lazy module is called for the first time: when it has parameters, capture begins anew."""

    def __init__(self, initialize: Callable[[], bool]) -> None:
        """Take what makes the parameters; it returns False if Python has to make the call."""
        super().__init__()
        self.initialize = initialize


def raise_observed(kind: type[BaseException], *arguments: object) -> NoReturn:
    """Raise ``kind(*arguments)`` in the user's program, from a tracker."""
    raise ObservedError(kind, arguments)


def raise_as_observed(error: BaseException) -> NoReturn:
    """Raise in the user's program the error that a folded constant operation really raised."""
    raise ObservedError(type(error), error.args) from error
