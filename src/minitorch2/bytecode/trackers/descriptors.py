"""Reads of class attributes through an instance or the class, as descriptors define them.

``function --> bound method``, ``property --> its getter's result``, ``staticmethod --> function``,
``classmethod --> method bound to the class``, any other descriptor: its ``__get__`` is inlined.
"""

from __future__ import annotations

import builtins
import collections
import functools
import types
from collections.abc import Hashable
from typing import Any, Final

from torch.distributions.utils import lazy_property

from minitorch2.bytecode.guards import AttributeGuard, Guard, id_match
from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource, Source, TypeSource
from minitorch2.bytecode.guards.values import is_permanent
from minitorch2.bytecode.polyfills import POLYFILLS
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable, attribute_of
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.foundation.module_names import package_of
from minitorch2.native.cpython.library import CachedFunction
from minitorch2.native.torch_internals.modes import no_torch_function

_COLLECTIONS: Any = collections
MISSING: Final = object()
"""No such attribute."""

BUILTIN_METHODS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
)
FREE_FUNCTIONS = (no_torch_function,)
"""Functions written in C that classes hold, but that are not methods of them."""
DATA_MEMBERS = (types.MemberDescriptorType, types.GetSetDescriptorType)
OWN_FOR_CLASS: Final[Any] = (types.MemberDescriptorType, _COLLECTIONS._tuplegetter)
"""Descriptors written in C that a class gives as they are."""

TRUSTED_MODULES: Final = words(
    "torch builtins math operator itertools functools collections enum abc typing types dataclasses"
    " copy contextlib numbers inspect sys os numpy re string reprlib _thread"
)
"""Top-level packages whose modules and classes are taken as they are: what their functions refer to
needs no guards. Only that a function is not replaced by another one is guarded."""


def is_trusted(module: object) -> bool:
    """Return whether a module belongs to a package that programs do not change."""
    return package_of(module) in TRUSTED_MODULES


def is_of_trusted(definition: Any) -> bool:
    """Return whether a class or function is of a trusted module, and not only without a module."""
    if definition.__module__ == "builtins" and not is_permanent(definition):
        return vars(builtins).get(definition.__name__) is definition
    return is_trusted(definition.__module__)


def class_lookup(cls: type, name: str, after: type | None = None) -> tuple[type, Any]:
    """Return the class in the method resolution order that defines `name`, and the raw attribute.

    Args:
        after: begin behind this class, as `super` does.
    """
    order = cls.__mro__
    if after is not None:
        order = order[order.index(after) + 1 :]
    for base in order:
        if name in base.__dict__:
            return base, base.__dict__[name]
    return cls, MISSING


def shared_attribute(cls: type, name: str) -> Any:
    """Return the attribute that instances get from their class; MISSING if there is none.

    Attributes of the metaclass, such as ``__call__`` and ``mro``, are the class's alone.
    """
    return MISSING if class_lookup(cls, name)[1] is MISSING else getattr(cls, name)


def class_attribute(
    evaluator: Evaluator, cls: type, name: str, after: type | None = None
) -> tuple[type, Any]:
    """Return `class_lookup`'s result; a tracker for an attribute that captured code assigned."""
    effects = evaluator.capture.side_effects
    written = effects.written_classes(name)
    if not written:
        return class_lookup(cls, name, after)
    order = cls.__mro__ if after is None else cls.__mro__[cls.__mro__.index(after) + 1 :]
    for base in order:
        pending = effects.load_attribute(written[base], name) if base in written else None
        if isinstance(pending, VariableTracker):
            return base, pending
        if pending is None and name in base.__dict__:
            return base, base.__dict__[name]
    return cls, MISSING


def inherits(cls: type, name: str) -> bool:
    """Return whether a class leaves a method as `object` defines it."""
    return class_lookup(cls, name)[0] is object


def allocator(cls: type) -> type:
    """Return the class written in C whose ``__new__`` makes the instances."""
    return next(c for c in cls.__mro__ if type(c.__dict__.get("__new__")) is type(len))


def is_made_here(evaluator: Evaluator, cls: type) -> bool:
    """Return whether the captured code makes the class, so that it needs no guards."""
    return evaluator.capture.references.stands_for(cls) is not None


def class_attribute_source(
    evaluator: Evaluator, cls: type, name: str, value: object, part: str | None = None
) -> Source:
    """Return the source of an object that a class holds, or of a part of it."""
    if is_made_here(evaluator, cls):
        return evaluator.capture.reference(value)
    place: Source = ItemSource(AttributeSource(evaluator.capture.reference(cls), "__dict__"), name)
    place = AttributeSource(place, part) if part else place
    return _trusted(evaluator, cls, name, value, place) or place


def inherited_source(
    evaluator: Evaluator, cls: type, found_in: type, name: str, value: object
) -> Source:
    """Return the source of a class attribute that is a function, or not a descriptor.

    It is loaded through the instance's own class, so that an override defined later is noticed.
    """
    if is_made_here(evaluator, found_in):
        return evaluator.capture.reference(value)
    is_first = class_lookup(cls, name)[0] is found_in and not is_made_here(evaluator, cls)
    holder = cls if is_first else found_in
    place = AttributeSource(evaluator.capture.reference(holder), name)
    return _trusted(evaluator, holder, name, value, place) or place


def _trusted(
    evaluator: Evaluator, cls: type, name: str, value: object, place: Source
) -> Source | None:
    """Return the private name of an attribute of a trusted class; None for other classes.

    A class that Python code made may still get another function: one guard checks that. Nothing of
    the function itself (its defaults, say) is guarded.
    """
    if not is_of_trusted(cls):
        return None
    if isinstance(value, types.FunctionType) and not cls.__flags__ & _IMMUTABLE:
        evaluator.capture.add_guard(id_match(place, value, evaluator.source_line()))
    return evaluator.capture.reference(value, f"{cls.__name__}_{name}")


_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def guard_absent(evaluator: Evaluator, owner: object, name: str) -> Guard:
    """Guard that an object has no attribute of this name.

    Args:
        owner: the object, or the source that loads it.
    """
    place = owner if isinstance(owner, Source) else evaluator.capture.reference(owner)
    guard = AttributeGuard(place, name, False, user_line=evaluator.source_line())
    return evaluator.capture.add_guard(guard)


def class_function(
    evaluator: Evaluator, cls: type, name: str, raw: Any, part: str | None = None
) -> VariableTracker:
    """Return the tracker of a function that a class holds, directly or inside a descriptor."""
    value = getattr(raw, part) if part else raw
    source = class_attribute_source(evaluator, cls, name, value, part)
    return evaluator.capture.wrap(value, source)


def class_tracker(evaluator: Evaluator, cls: type) -> VariableTracker:
    """Return the tracker of a class."""
    if (made := evaluator.capture.references.stands_for(cls)) is not None:
        return made
    return evaluator.capture.wrap(cls, evaluator.capture.reference(cls))


def bind(
    evaluator: Evaluator,
    owner: VariableTracker | None,
    cls: type,
    found_in: type,
    name: str,
    raw: Any,
) -> VariableTracker:
    """Return the result of reading the raw class attribute.

    Args:
        owner: the instance; None when it is read through the class itself.
        cls: the class of the instance.
        found_in: the class that holds the attribute.
    """
    if isinstance(raw, VariableTracker):
        is_method = issubclass(raw.python_type(), types.FunctionType) and owner is not None
        return BoundMethodVariable(raw, owner) if is_method and owner is not None else raw
    if isinstance(raw, staticmethod):
        static = raw.__func__
        source = inherited_source(evaluator, cls, found_in, name, static)
        return evaluator.capture.wrap(static, source)
    if isinstance(raw, types.FunctionType | CachedFunction):
        source = inherited_source(evaluator, cls, found_in, name, raw)
        function = evaluator.capture.wrap(raw, source)
        return function if owner is None else BoundMethodVariable(function, owner)
    if isinstance(raw, types.MethodType):
        return evaluator.capture.wrap(raw, class_attribute_source(evaluator, found_in, name, raw))
    if isinstance(raw, classmethod):
        function = class_function(evaluator, found_in, name, raw, "__func__")
        return BoundMethodVariable(function, class_tracker(evaluator, cls))
    if isinstance(raw, property) and owner is not None:
        getter = class_function(evaluator, found_in, name, raw, "fget")
        return getter.call(evaluator, [owner], {})
    if isinstance(raw, property):
        place = class_attribute_source(evaluator, found_in, name, raw)
        return evaluator.capture.wrap(raw, place)
    if isinstance(raw, functools.cached_property) and owner is not None:
        value = class_function(evaluator, found_in, name, raw, "func").call(evaluator, [owner], {})
        evaluator.capture.side_effects.store_attribute(owner, name, value, raw=True)
        return value
    if any(raw is each for each in FREE_FUNCTIONS):
        return evaluator.capture.wrap(raw, evaluator.capture.reference(raw))
    if isinstance(raw, BUILTIN_METHODS):
        if (body := POLYFILLS.get(raw)) is not None:
            function = evaluator.capture.wrap(body, evaluator.capture.reference(body))
            return function if owner is None else BoundMethodVariable(function, owner)
        return BuiltinMethodVariable(raw, name, owner, class_tracker(evaluator, cls))
    if owner is None and isinstance(raw, lazy_property):
        return KnownObjectVariable(getattr(cls, name))  # a property, with the documentation
    if hasattr(type(raw), "__get__"):
        source = class_attribute_source(evaluator, found_in, name, raw)
        descriptor = evaluator.capture.wrap(raw, source)
        if owner is None and isinstance(raw, types.GetSetDescriptorType):
            return descriptor
        return _python_descriptor(evaluator, owner, cls, descriptor, name)
    source = inherited_source(evaluator, cls, found_in, name, raw)
    if owner is not None and owner.source is not None and not isinstance(raw, _CONSTANT):
        # Residual code may load it: by the object, so that it does not keep the class alive.
        source = AttributeSource(TypeSource(owner.source), name)
    return evaluator.capture.wrap(raw, source)


def _python_descriptor(
    evaluator: Evaluator,
    owner: VariableTracker | None,
    cls: type,
    descriptor: VariableTracker,
    name: str,
) -> VariableTracker:
    _, getter = class_lookup(descriptor.python_type(), "__get__")
    if not isinstance(getter, types.FunctionType):
        if owner is None and isinstance(getattr(descriptor, "value", None), OWN_FOR_CLASS):
            return descriptor
        is_class = isinstance(getattr(descriptor, "value", None), type)
        if owner is None and (is_class or descriptor.python_type() is property):
            return descriptor
        unsupported(
            "descriptor", f"attribute {name!r} of a {cls.__name__} is a built-in descriptor"
        )
    from_owner = owner or evaluator.capture.wrap(None, evaluator.capture.reference(None))
    args = [from_owner, class_tracker(evaluator, cls)]
    return descriptor.call_method(evaluator, "__get__", args, {})


_CONSTANT = (str, bool, bytes, type, types.NoneType, types.FunctionType)
"""Class attributes that residual code never loads."""


class BuiltinMethodVariable(VariableTracker):
    """A method written in C, found on a class: bound to `owner`, or not yet."""

    def __init__(
        self, value: Any, name: str, owner: VariableTracker | None, cls: VariableTracker
    ) -> None:
        super().__init__()
        self.value, self.name, self.owner, self.cls = value, name, owner, cls

    def __repr__(self) -> str:
        return f"BuiltinMethodVariable({self.value}, owner={self.owner})"

    def python_type(self) -> type:
        return type(self.value)

    def hash_key(self) -> Hashable:
        if self.owner is not None:
            unsupported("hash", f"the built-in method {self.name} as a key")
        return ("object", id(self.value))

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if self.owner is None and isinstance(value := getattr(self.value, name, None), str):
            return evaluator.capture.wrap(value, evaluator.capture.reference(value))
        if self.owner is None and name in ("__objclass__", "__class__") and value is not None:
            return class_tracker(evaluator, value)
        return super().get_attribute(evaluator, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in ("__eq__", "__ne__") and self.owner is None:
            same = self.value is getattr(args[0], "value", None)
            return evaluator.capture.wrap(name == "__eq__" if same else NotImplemented, None)
        if name in ("__str__", "__repr__", "__format__") and self.owner is None:
            return evaluator.capture.wrap(repr(self.value), None)
        return super().call_method(evaluator, name, args, kwargs)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if isinstance(self.value, types.BuiltinFunctionType | types.ClassMethodDescriptorType):
            class_method: Any = getattr(self.cls, "call_class_method")  # noqa: B009
            return class_method(evaluator, self.name, args, kwargs)  # type: ignore[no-any-return]
        if self.owner is None and not args:
            raise_observed(TypeError, f"unbound method {self.name}() needs an argument")
        owner, rest = (args[0], args[1:]) if self.owner is None else (self.owner, args)
        builtin = getattr(owner, "call_builtin", None)
        if builtin is not None:
            return builtin(evaluator, self.value, rest, kwargs)  # type: ignore[no-any-return]
        return owner.call_method(evaluator, self.name, rest, kwargs)

    def reconstruct(self, residual: Residual) -> str:
        if self.owner is None:
            return attribute_of(residual, self.cls, self.name)
        if class_lookup(self.owner.python_type(), self.name)[1] is self.value:
            return attribute_of(residual, self.owner, self.name)
        return f"{residual.reference(self.value)}.__get__({residual.name_for(self.owner)})"
