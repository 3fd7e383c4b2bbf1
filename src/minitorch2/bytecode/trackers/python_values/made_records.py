"""Named tuples and data classes that the captured code makes.

The library writes their methods as text, or closes over its arguments. So its own functions make
the class that stands in while capturing, out of stand-ins for defaults and fields. The methods of
that class are adopted: they are evaluated like functions that the captured code makes.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
import types
from collections.abc import Callable
from typing import Any, Final

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import is_trusted
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.constant import NONE, is_none, literal
from minitorch2.bytecode.trackers.python_values.functions import NestedFunctionVariable
from minitorch2.bytecode.trackers.python_values.made_class import MadeClassVariable, Recipe
from minitorch2.bytecode.trackers.python_values.mapping import dict_of_names
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.python_values.stand_ins import stand_in
from minitorch2.native.cpython.library import caller_module, make_dataclass_of

_LIBRARY: Final[Any] = dataclasses


class FieldVariable(KnownObjectVariable):
    """A `dataclasses.Field` that the captured code makes."""

    def __init__(
        self, capture: Capture, value: object, options: dict[str, VariableTracker]
    ) -> None:
        super().__init__(value)
        self.capture, self.options = capture, options
        capture.references.stand_for(value, self)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if not hasattr(self.value, name) or callable(getattr(type(self.value), name, None)):
            return super().get_attribute(evaluator, name)
        return self.capture.wrap(getattr(self.value, name), None)

    def reconstruct(self, residual: Residual) -> str:
        options = residual.arguments([], self.options)
        return f"{residual.reference(dataclasses.field)}({options})"


@models(dataclasses.field)
def make_field(evaluator: Evaluator, **options: VariableTracker) -> VariableTracker:
    """``dataclasses.field(default=..., default_factory=..., ...)``"""
    capture = evaluator.capture
    real = {name: stand_in(capture.references, value) for name, value in options.items()}
    return FieldVariable(capture, _made(dataclasses.field, **real), options)


def _made(make: Callable[..., Any], *args: object, **options: object) -> Any:
    """Call a function of the library; raise its error in the user's program."""
    try:
        return make(*args, **options)
    except Exception as error:  # noqa: BLE001 (whatever the library raises)
        raise_as_observed(error)


@models(make_dataclass_of)
def make_dataclass(
    evaluator: Evaluator, cls: VariableTracker, *args: VariableTracker, **options: VariableTracker
) -> VariableTracker:
    """Model the decorator ``dataclass`` on a class that the captured code makes."""
    if not isinstance(cls, MadeClassVariable):
        unsupported("class-statement", f"the class {cls} is made a data class")
    positional = [arg.as_constant() for arg in args]
    named = {name: value.as_constant() for name, value in options.items()}
    value = _made(_LIBRARY._process_class, cls.value, *positional, **named)
    plain = cls.recipe

    def recipe(residual: Residual) -> str:
        process = residual.reference(_LIBRARY._process_class)
        given = ", ".join([*map(repr, positional), *(f"{k}={v!r}" for k, v in named.items())])
        return f"{process}({plain(residual)}, {given})"

    if value is cls.value:
        cls.recipe, made = recipe, cls
    else:
        made = MadeClassVariable(evaluator.capture, value, recipe)
    adopt_functions(evaluator.capture, value)
    return made


@models(collections.namedtuple)
def make_named_tuple(
    evaluator: Evaluator,
    typename: VariableTracker,
    field_names: VariableTracker,
    *,
    rename: VariableTracker = NONE,
    defaults: VariableTracker = NONE,
    module: VariableTracker | None = None,
) -> VariableTracker:
    """``collections.namedtuple(typename, field_names, ...)``"""
    capture = evaluator.capture
    if not field_names.is_constant():
        field_names = TupleVariable(operations.iterate(evaluator, field_names))
    values = None if is_none(defaults) else operations.iterate(evaluator, defaults)
    home = _calling_module(evaluator) if module is None else module
    options = {"rename": bool(rename.as_constant()), "module": home.as_constant()}
    name, fields = typename.as_constant(), field_names.as_constant()
    real = None if values is None else [stand_in(capture.references, v) for v in values]
    value = _made(collections.namedtuple, name, fields, defaults=real, **options)

    def recipe(residual: Residual) -> str:
        given = [repr(name), repr(fields), *(f"{k}={v!r}" for k, v in options.items())]
        if values is not None:
            given.append(f"defaults=[{', '.join(map(residual.name_for, values))}]")
        return f"{residual.reference(collections.namedtuple)}({', '.join(given)})"

    return _adopted_class(capture, value, recipe)


def _adopted_class(capture: Capture, value: type, recipe: Recipe) -> MadeClassVariable:
    made = MadeClassVariable(capture, value, recipe)
    adopt_functions(capture, value)
    return made


@models(caller_module)
def calling_module(evaluator: Evaluator, *depth: VariableTracker) -> VariableTracker:
    """Return the name of the module that calls a function of `typing`"""
    return _calling_module(evaluator)


@models(*filter(None, [getattr(sys, "_getframemodulename", None)]))  # since 3.12
def module_of_frame(evaluator: Evaluator, depth: VariableTracker | None = None) -> VariableTracker:
    """``sys._getframemodulename(depth)``"""
    frame = evaluator
    for _ in range(0 if depth is None else depth.as_constant()):
        if frame.parent is None:
            unsupported("c-function", "sys._getframemodulename of a frame that is not captured")
        frame = frame.parent
    return literal(frame.namespace.get("__name__"))


def _calling_module(evaluator: Evaluator) -> VariableTracker:
    frame = evaluator
    while frame.parent is not None and is_trusted(str(frame.namespace.get("__name__"))):
        frame = frame.parent
    return literal(frame.namespace.get("__name__", "__main__"))


def adopt_functions(capture: Capture, cls: type) -> None:
    """Let the functions that the library has put into a class be those of the captured code."""
    for held in cls.__dict__.values():
        function = held.__func__ if isinstance(held, staticmethod | classmethod) else held
        if not isinstance(function, types.FunctionType):
            continue
        if capture.references.stands_for(function) is None:
            capture.references.stand_for(function, _adopted(capture, function))


def _adopted(capture: Capture, function: types.FunctionType) -> NestedFunctionVariable:
    shown = function.__qualname__
    if function.__code__.co_qualname in REPR_GUARDS and "__wrapped__" in function.__dict__:
        function = function.__dict__["__wrapped__"]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    options = {name: capture.wrap(v, None) for name, v in (function.__kwdefaults__ or {}).items()}
    made = NestedFunctionVariable(
        function.__code__,
        function.__globals__,
        defaults=TupleVariable([capture.wrap(v, None) for v in function.__defaults__ or ()]),
        kwdefaults=dict_of_names(options),
        closure=[_cell(capture, name, cell) for name, cell in cells],
    )
    made.attributes["__name__"] = literal(function.__name__)
    made.attributes["__qualname__"] = literal(shown)
    return made


REPR_GUARDS: Final = (
    "_recursive_repr.<locals>.wrapper",
    "recursive_repr.<locals>.decorating_function.<locals>.wrapper",
)
"""Wrappers of ``__repr__`` that stop at objects that contain themselves, by `id`."""


def _cell(capture: Capture, name: str, cell: types.CellType) -> CellVariable:
    made = CellVariable(name, initial=lambda: capture.wrap(cell.cell_contents, None))
    made.begin(capture.side_effects)
    return made
