"""Exception objects that the captured code makes, raises and catches.

They are instances like any other: a class may have its own constructor, attributes and methods.
`BaseException` adds `args`, the chain of causes and contexts, and the traceback. The traceback does
not exist while capturing: it is only known to be there.
"""

from __future__ import annotations

import functools
import sys
from types import TracebackType
from typing import Any

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_lookup, is_of_trusted
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, literal
from minitorch2.bytecode.trackers.python_values.containers import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable


class ExceptionVariable(ObjectVariable):
    """An exception made by the captured code.

    Args:
        kind: the exception's class.
        arguments: trackers of its ``args``.
    """

    def __init__(self, kind: type[BaseException], arguments: Arguments) -> None:
        super().__init__(kind)
        self.arguments = list(arguments)
        self.context: VariableTracker | None = None
        self.raised = False

    def was_raised(self, context: VariableTracker | None) -> None:
        """Remember the exception that was being handled when this one was raised."""
        self.raised = True
        if context is not None and context is not self:
            self.context = context

    # Attributes ---------------------------------------------------------------------------------

    def _data_descriptor(
        self, evaluator: Evaluator, found_in: type, name: str, raw: Any
    ) -> VariableTracker:
        if not is_of_trusted(found_in):
            return super()._data_descriptor(evaluator, found_in, name, raw)
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        known = self._chain(evaluator, name)
        return self._own_field(name) if known is None else known

    def _chain(self, evaluator: Evaluator, name: str) -> VariableTracker | None:
        """Return a field that every exception has; None for any other name."""
        if name == "args":
            return TupleVariable(self.arguments)
        if name == "__context__":
            return self.context or NONE
        if name == "__cause__":
            return NONE
        if name == "__suppress_context__":
            effects = evaluator.capture.side_effects
            return ConstantVariable(effects.load_attribute(self, "__cause__") is not None)
        if name == "__traceback__":
            return TracebackVariable() if self.raised else NONE
        return None

    def _own_field(self, name: str) -> VariableTracker:
        """Return a field that C code makes of the arguments, such as ``OSError.errno``."""
        if issubclass(self.cls, StopIteration) and name == "value":
            return self.arguments[0] if self.arguments else NONE
        return literal(getattr(self._real(), name))

    def _real(self) -> BaseException:
        if not all(argument.is_constant() for argument in self.arguments):
            unsupported("exception-class", f"a field of a {self.cls.__name__}")
        values = [argument.as_constant() for argument in self.arguments]
        make: Any = self.cls
        if not _has_plain_constructor(self.cls):
            make = functools.partial(self.cls.__new__, self.cls)
        made: BaseException = make(*values)
        return made

    def plain_set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if name == "args":
            self.arguments = operations.iterate(evaluator, value)
        elif name != "__traceback__":
            super().plain_set_attribute(evaluator, name, value)

    # Methods ------------------------------------------------------------------------------------

    def call_builtin(
        self, evaluator: Evaluator, method: Any, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        name = method.__name__
        if method.__objclass__ is not object and is_of_trusted(method.__objclass__):
            if name == "__init__" and not kwargs:
                self.arguments = list(args)
                return NONE
            if name == "with_traceback":
                return self
            if name == "add_note":
                return self._add_note(evaluator, args[0])
            if name in ("__str__", "__repr__"):
                return self._text(evaluator, method)
        return super().call_builtin(evaluator, method, args, kwargs)

    def _add_note(self, evaluator: Evaluator, note: VariableTracker) -> VariableTracker:
        effects = evaluator.capture.side_effects
        notes = effects.load_attribute(self, "__notes__")
        if not isinstance(notes, ListVariable):
            notes = ListVariable([])
            effects.store_attribute(self, "__notes__", notes)
        notes.py_append(evaluator, note)
        return NONE

    def _text(self, evaluator: Evaluator, method: Any) -> VariableTracker:
        if all(argument.is_constant() for argument in self.arguments):
            return ConstantVariable(method(self._real()))
        conversion, shown = method.__name__.strip("_")[0], TupleVariable(self.arguments)
        if conversion == "s" and len(self.arguments) == 1:
            return operations.format_value(evaluator, self.arguments[0], "s", None)
        text = operations.format_value(evaluator, shown, "r", None).as_constant()
        if len(self.arguments) == 1:
            text = text.removesuffix(",)") + ")"
        return ConstantVariable(text if conversion == "s" else f"{self.cls.__name__}{text}")

    # Rebuilding ---------------------------------------------------------------------------------

    def reconstruct(self, residual: Residual) -> str:
        cls = residual.reference(self.cls)
        arguments = ", ".join(residual.name_for(argument) for argument in self.arguments)
        if _has_plain_constructor(self.cls):
            made = f"{cls}({arguments})"
        else:
            base = next(c for c in self.cls.__mro__ if is_of_trusted(c))
            parts = ", ".join(filter(None, [cls, arguments]))
            made = f"{residual.reference(base)}.__new__({parts})"
        if self.context is None:
            return made
        name = residual.bind(made, "error")
        residual.emit(f"{name}.__context__ = {residual.name_for(self.context)}")
        return name


def _has_plain_constructor(cls: type) -> bool:
    """Return whether calling the class does the same as its base in the standard library."""
    return all(is_of_trusted(class_lookup(cls, n)[0]) for n in ("__init__", "__new__"))


class TracebackVariable(VariableTracker):
    """The traceback of an exception raised while capturing; only its existence is known."""

    def python_type(self) -> type:
        return TracebackType


class HandledBefore(VariableTracker):
    """The exception that was being handled when the captured frame was called, or None.

    Args:
        part: the index in `sys.exc_info`: its class, the exception, or its traceback.
    """

    def __init__(self, part: int = 1) -> None:
        super().__init__()
        self.part = part

    def truth(self, evaluator: Evaluator) -> bool:
        return unsupported("unknown-truth", "the caller decides whether an exception is handled")

    def reconstruct(self, residual: Residual) -> str:
        return f"{residual.reference(sys.exc_info)}()[{self.part}]"


def make_exception(
    evaluator: Evaluator, kind: type[BaseException], arguments: Arguments
) -> ExceptionVariable:
    """``kind.__new__(kind, *arguments)``"""
    if issubclass(kind, BaseExceptionGroup):
        unsupported("exception-class", "construction of an exception group")
    if kind is OSError and len(arguments) > 1:
        kind = type(OSError(*(argument.as_constant() for argument in arguments)))
    made = ExceptionVariable(kind, arguments)
    evaluator.capture.side_effects.new_object(made)
    return made


def exception_of(evaluator: Evaluator, error: ObservedError) -> VariableTracker:
    """Return the exception object of the user's program; this frame or one below raises it."""
    if error.exception is None:
        values = error.values or [literal(argument) for argument in error.arguments]
        error.exception = make_exception(evaluator, error.kind, values)
    if not error.is_noted and isinstance(error.exception, ExceptionVariable):
        error.exception.was_raised(_handled(evaluator))
    error.is_noted = True
    return error.exception


def read_attribute(evaluator: Evaluator, owner: VariableTracker, name: str) -> VariableTracker:
    """``owner.name``; an AttributeError tells name and owner, unless it does so already."""
    try:
        return owner.get_attribute(evaluator, name)
    except ObservedError as error:
        if issubclass(error.kind, AttributeError):
            made, effects = exception_of(evaluator, error), evaluator.capture.side_effects
            told = [effects.load_attribute(made, field) for field in ("name", "obj")]
            if isinstance(made, ExceptionVariable) and told == [None, None]:
                keyword_fields(evaluator, made, {"name": ConstantVariable(name), "obj": owner})
        raise


def _handled(evaluator: Evaluator | None) -> VariableTracker | None:
    """Return the exception that this frame or one of its callers handles at present."""
    while evaluator is not None:
        if evaluator.handled:
            return evaluator.handled[-1]
        evaluator = evaluator.parent
    return None


def exception_info(evaluator: Evaluator) -> list[VariableTracker]:
    """Return class, exception and traceback, as `sys.exc_info` gives them."""
    exception = _handled(evaluator)
    if exception is None:
        return [HandledBefore(part) for part in range(3)]
    cls = exception.python_type()
    kind = evaluator.capture.wrap(cls, evaluator.capture.reference(cls))
    return [kind, exception, TracebackVariable()]


def keyword_fields(evaluator: Evaluator, made: VariableTracker, kwargs: Keywords) -> None:
    """``AttributeError("...", name=..., obj=...)``: the keywords are fields."""
    for name, value in kwargs.items():
        if not hasattr(made.python_type(), name):
            raise_observed(TypeError, f"{name!r} is an invalid keyword argument")
        evaluator.capture.side_effects.store_attribute(made, name, value)
