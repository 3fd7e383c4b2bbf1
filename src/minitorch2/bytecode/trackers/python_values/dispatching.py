"""``functools.singledispatch``: which implementation a class has is asked for, and guarded."""

from __future__ import annotations

import functools
from typing import Final

from minitorch2.bytecode.guards.sources import AppliedSource
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable

DISPATCH: Final = functools.singledispatch(len).dispatch.__code__
"""The code that all functions ``dispatch`` of generic functions share."""


class DispatchVariable(KnownObjectVariable):
    """The function ``dispatch`` of a generic function: class to implementation."""

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if len(args) != 1 or kwargs:
            raise_observed(TypeError, "dispatch() takes 1 positional argument")
        if not isinstance(args[0], ClassVariable):
            unsupported("c-function", f"an implementation for {args[0]}")
        capture, cls = evaluator.capture, args[0].value
        place = AppliedSource(capture.references.source(cls), capture.reference(self.value))
        return capture.wrap(self.value(cls), place)
