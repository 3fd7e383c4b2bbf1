"""Classes that the captured code makes: the statement ``class``, ``type(...)``, metaclasses.

While capturing, a class of the same form stands in (`stand_ins`), so that attributes are looked up
as in all other classes. If the class lives on, or an instance of it, residual code makes a new one
in each call, as the program does.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from enum import EnumType
from typing import Any

from torch.autograd.function import FunctionMeta

from minitorch2.bytecode.polyfills.classes import evaluate_body
from minitorch2.bytecode.trackers.base import Arguments, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_lookup, is_of_trusted
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.class_objects import calls_hook, new_class
from minitorch2.bytecode.trackers.python_values.classes import CLASS_METHODS, NEW, ClassVariable
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.python_values.dict_views import MappingProxyVariable
from minitorch2.bytecode.trackers.python_values.functions import NestedFunctionVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable, dict_of_names
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.stand_ins import stand_in
from minitorch2.bytecode.trackers.python_values.super_object import SuperVariable
from minitorch2.bytecode.trackers.side_effects import DELETED, Pending
from minitorch2.native.cpython.library import init_abstract_class

Recipe = Callable[["Residual"], str]


class MadeClassVariable(ClassVariable):
    """A class that the captured code makes.

    Args:
        value: the class that stands in for it.
        recipe: the expression by which residual code makes it.

    Attributes:
        written: the attributes that were assigned or deleted since.
    """

    def __init__(self, capture: Capture, value: type, recipe: Recipe) -> None:
        super().__init__(value)
        self.capture, self.recipe = capture, recipe
        self.written: dict[str, Pending] = {}
        capture.references.stand_for(value, self)

    def is_constant(self) -> bool:
        return False

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "__dict__":
            return MappingProxyVariable(dict_of_names(self._attributes()))
        return super().get_attribute(evaluator, name)

    def _attributes(self) -> dict[str, VariableTracker]:
        wrap = self.capture.wrap
        return {name: wrap(raw, None) for name, raw in self.value.__dict__.items()}

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        found_in, setter = class_lookup(type(self.value), "__setattr__")
        if isinstance(setter, types.FunctionType) and not is_of_trusted(found_in):
            unsupported("metaclass", f"{self.value.__name__} has a metaclass with __setattr__")
        real = stand_in(self.capture.references, value)
        try:
            type.__setattr__(self.value, name, real)
        except (AttributeError, TypeError) as error:
            raise_as_observed(error)
        self.written[name] = value

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        try:
            type.__delattr__(self.value, name)
        except (AttributeError, TypeError) as error:
            raise_as_observed(error)
        self.written[name] = DELETED

    def reconstruct(self, residual: Residual) -> str:
        made = residual.bind(self.recipe(residual), self.value.__name__)
        residual.set_name(self, made)
        for name, value in self.written.items():
            if isinstance(value, VariableTracker):
                residual.emit(f"type.__setattr__({made}, {name!r}, {residual.name_for(value)})")
            else:
                residual.emit(f"type.__delattr__({made}, {name!r})")
        return made


def make_class(
    evaluator: Evaluator,
    metaclass: VariableTracker,
    args: Arguments,
    options: dict[str, VariableTracker],
) -> VariableTracker:
    """``type.__new__(metaclass, name, bases, namespace, **options)``, with its hooks."""
    if len(args) != 3 or not isinstance(metaclass, ClassVariable):
        raise_observed(TypeError, f"type.__new__() takes exactly 3 arguments ({len(args)} given)")
    name, bases = args[0].as_constant(), args[1].items(evaluator)
    if not all(isinstance(base, ClassVariable) for base in bases):
        unsupported("class-statement", f"the class {name} with a base that is no known class")
    entries = _entries(args[2])
    cell = entries.pop("__classcell__", None)
    made = _made(evaluator, metaclass, name, bases, entries)
    if isinstance(cell, CellVariable):
        cell.store(evaluator.capture.side_effects, made)
    for key, value in entries.items():
        if calls_hook(value.python_type(), "__set_name__"):
            value.call_method(evaluator, "__set_name__", [made, ConstantVariable(key)], {})
    found_in, _ = class_lookup(made.value, "__init_subclass__", after=made.value)
    if not is_of_trusted(found_in) or found_in is object:
        around = SuperVariable(made.value, made, made.value, through_class=True)
        around.get_attribute(evaluator, "__init_subclass__").call(evaluator, [], options)
    return made


@models(EnumType.__new__)
def make_enum(
    evaluator: Evaluator,
    metaclass: VariableTracker,
    *args: VariableTracker,
    **options: VariableTracker,
) -> VariableTracker:
    """Make an enumeration at once: its members are constants.

    Python makes those whose own functions make or find members.
    """
    entries, bases = _entries(args[2]), [base.as_constant() for base in args[1].items(evaluator)]
    own = [key for key in _MAKING if key in entries or any(calls_hook(b, key) for b in bases)]
    if options or own:
        unsupported("class-statement", "an enumeration that makes its members itself")
    made = make_class(evaluator, metaclass, args, {})
    members: Any = made.as_constant()
    if not all(entries[name].is_constant() for name in members.__members__):
        unsupported("class-statement", "an enumeration of values that are not constant")
    return made


_MAKING = ("__new__", "__init__", "__init_subclass__", "_missing_")
"""What an enumeration may define that makes, or finds, members."""


def _entries(namespace: VariableTracker) -> dict[str, VariableTracker]:
    if isinstance(namespace, ObjectVariable) and namespace.container is not None:
        namespace = namespace.container
    if not isinstance(namespace, DictVariable):
        unsupported("class-statement", f"a class whose namespace is {namespace}")
    return {key.as_constant(): value for key, value in namespace.pairs()}


def _made(
    evaluator: Evaluator,
    metaclass: ClassVariable,
    name: str,
    bases: Sequence[VariableTracker],
    entries: dict[str, VariableTracker],
) -> MadeClassVariable:
    capture = evaluator.capture
    for key in ("__new__", "__init_subclass__", "__class_getitem__"):
        if isinstance(entries.get(key), NestedFunctionVariable):
            stand_in(capture.references, entries[key])
    real = {key: stand_in(capture.references, value) for key, value in entries.items()}
    parents = tuple(base.value for base in bases if isinstance(base, ClassVariable))
    try:
        value = new_class(metaclass.value, name, parents, real)
    except (TypeError, ValueError) as error:
        raise_as_observed(error)

    def recipe(residual: Residual) -> str:
        around = ", ".join(["", *map(residual.name_for, bases)]).removeprefix(", ")
        held = ", ".join(f"{key!r}: {residual.name_for(v)}" for key, v in entries.items())
        make = residual.reference(new_class, "new_class")
        kind = residual.name_for(metaclass)
        return f"{make}({kind}, {name!r}, ({around}{',' if bases else ''}), {{{held}}})"

    return MadeClassVariable(capture, value, recipe)


@models(init_abstract_class, FunctionMeta.__init__)
def init_class(evaluator: Evaluator, cls: VariableTracker, *made_of: VariableTracker) -> None:
    """Do nothing: `new_class` has done the work of the metaclass on a new class."""


@models(evaluate_body)
def body_of_class(
    evaluator: Evaluator, function: VariableTracker, namespace: VariableTracker
) -> VariableTracker:
    """Evaluate the body of a class, which fills the namespace."""
    if not isinstance(function, NestedFunctionVariable):
        unsupported("class-statement", f"a class with the body {function}")
    callee = function.callee(evaluator)
    return evaluator.evaluate_body(callee, namespace)


def _init_subclass(
    evaluator: Evaluator, cls: ClassVariable, **options: VariableTracker
) -> VariableTracker:
    """``object.__init_subclass__()``"""
    if options:
        takes = "__init_subclass__() takes no keyword arguments"
        raise_observed(TypeError, f"{cls.value.__name__}.{takes}")
    return NONE


CLASS_METHODS[type, "__prepare__"] = lambda evaluator, cls, *args, **options: dict_of_names({})
CLASS_METHODS[object, "__init_subclass__"] = _init_subclass
NEW[type] = make_class
