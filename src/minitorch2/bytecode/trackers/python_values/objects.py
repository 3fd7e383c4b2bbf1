"""Instances of user-defined classes, from outside or constructed by the captured code.

Attributes are looked up as CPython does, one at a time, and guarded when they are read; writes are
side effects. An instance of a class derived from dict, list or tuple has a `container` tracker for
that part. PyTorch 2 paper, sections 3.5 (*UserDefinedObjectVariable*) and 3.7 (class construction).
"""

from __future__ import annotations

import types
from collections.abc import Hashable
from typing import Any

from minitorch2.bytecode.guards import AttributeGuard, KeyMatch
from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource, Source, TypeSource
from minitorch2.bytecode.polyfills import EXCEPTION_TEXTS
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import (
    DATA_MEMBERS,
    MISSING,
    allocator,
    bind,
    class_attribute,
    class_attribute_source,
    class_function,
    class_lookup,
    class_tracker,
    guard_absent,
    inherits,
    is_made_here,
    is_of_trusted,
)
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import ObservedError, raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    OPERATORS,
    ConstantVariable,
    refuse_attribute,
)
from minitorch2.bytecode.trackers.python_values.instance_dict import (
    AttributeEntries,
    InstanceDictVariable,
)
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.object_methods import OBJECT_METHODS
from minitorch2.bytecode.trackers.python_values.records import field_index
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable, TupleVariable
from minitorch2.bytecode.trackers.python_values.user_key import UserKey


class ObjectVariable(VariableTracker):
    """An instance of `cls`.

    Args:
        cls: its class.
        value: the real object; MISSING for one that the captured code constructs.
        container: the dict, list or tuple that it also is.
        capture: the attempt that it is evaluated in; needed if it is a key.
    """

    def __init__(
        self,
        cls: type,
        value: object = MISSING,
        container: VariableTracker | None = None,
        capture: Capture | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.cls = cls
        self.value = value
        self.container = container
        self.capture = capture
        if isinstance(container, ModeledVariable):
            container.whole = self
        self._dict: VariableTracker | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cls.__name__}, source={self.source})"

    def python_type(self) -> type:
        return self.cls

    def hash_key(self) -> Hashable:
        if not inherits(self.cls, "__hash__"):
            return self._user_key()
        self.is_key = True
        return ("object", id(self if self.value is MISSING else self.value))

    def _user_key(self) -> Hashable:
        found_in, method = class_lookup(self.cls, "__hash__")
        if method is None:
            raise_observed(TypeError, f"unhashable type: {self.cls.__name__!r}")
        if self.capture is None or not isinstance(method, types.FunctionType):
            unsupported("hash", f"a {self.cls.__name__} is hashed as a {found_in.__name__}")
        return UserKey(self, self.capture)

    def instance_dict(self) -> dict[str, object]:
        """Return the real object's own attributes as they were when capture began."""
        if self.value is MISSING:
            return {}
        try:
            found = object.__getattribute__(self.value, "__dict__")
        except AttributeError:
            return {}
        return found if isinstance(found, dict) else {}

    # Attributes ---------------------------------------------------------------------------------

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        found_in, override = class_lookup(self.cls, "__getattribute__")
        if isinstance(override, types.FunctionType) and not is_of_trusted(found_in):
            function = class_function(evaluator, found_in, "__getattribute__", override)
            try:
                return function.call(evaluator, [self, ConstantVariable(name)], {})
            except ObservedError as error:
                return self._ask_getattr(evaluator, name, error)
        return self.generic_attribute(evaluator, name)

    def generic_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """``object.__getattribute__``, and then ``__getattr__`` if the class has one."""
        try:
            return self.plain_attribute(evaluator, name)
        except ObservedError as error:
            return self._ask_getattr(evaluator, name, error)

    def _ask_getattr(
        self, evaluator: Evaluator, name: str, error: ObservedError
    ) -> VariableTracker:
        _, fallback = class_lookup(self.cls, "__getattr__")
        if error.kind is not AttributeError or fallback is MISSING:
            raise error
        return self.missing_attribute(evaluator, name)

    def missing_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """Call the class's ``__getattr__``."""
        found_in, raw = class_lookup(self.cls, "__getattr__")
        function = class_function(evaluator, found_in, "__getattr__", raw)
        return function.call(evaluator, [self, ConstantVariable(name)], {})

    def plain_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """``object.__getattribute__(self, name)``."""
        if name == "__class__":
            return class_tracker(evaluator, self.cls)
        if name == "__dict__":
            return self._attributes(evaluator)
        found_in, raw = class_attribute(evaluator, self.cls, name)
        if raw is not MISSING and (isinstance(raw, property) or hasattr(type(raw), "__set__")):
            return self._data_descriptor(evaluator, found_in, name, raw)
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        if pending is None and name in self.instance_dict():
            return self._own_attribute(evaluator, name)
        if raw is MISSING:
            return self._absent(evaluator, name, is_known=pending is None)
        if self.source is not None and pending is None and not name.startswith("__"):
            self._guard_not_shadowed(evaluator, name)
        return bind(evaluator, self, self.cls, found_in, name, raw)

    def attribute_source(self, name: str) -> Source:
        """Return the source of an attribute of the real object, which runs no user code."""
        assert self.source is not None
        if inherits(self.cls, "__getattribute__"):
            return AttributeSource(self.source, name)
        return ItemSource(AttributeSource(self.source, "__dict__"), name)

    def _own_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        value = self.instance_dict()[name]
        source = self.source or evaluator.capture.reference(self.value)
        self.source = source
        return evaluator.capture.wrap(value, self.attribute_source(name))

    def _data_descriptor(
        self, evaluator: Evaluator, found_in: type, name: str, raw: Any
    ) -> VariableTracker:
        if self.container is not None and (index := field_index(raw)) is not None:
            return operations.get_item(evaluator, self.container, ConstantVariable(index))
        if not isinstance(raw, DATA_MEMBERS):
            return bind(evaluator, self, self.cls, found_in, name, raw)
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        if self.value is MISSING or pending is not None:
            return self._raise_empty(raw, name)
        try:
            value = raw.__get__(self.value)
        except AttributeError:
            return self._absent(evaluator, name)
        if isinstance(self.value, types.CodeType):
            return evaluator.capture.wrap(value, evaluator.capture.reference(value))
        assert self.source is not None
        return evaluator.capture.wrap(value, AttributeSource(self.source, name))

    def _guard_not_shadowed(self, evaluator: Evaluator, name: str) -> None:
        if self.value is not MISSING and self.source is not None and self.has_dict():
            attributes = AttributeSource(self.source, "__dict__")
            guard = KeyMatch(attributes, name, False, user_line=evaluator.source_line())
            self.guards |= {evaluator.capture.add_guard(guard)}

    def shadows_fallback(self, name: str) -> bool:
        """Return whether an attribute set later could hide the result of ``__getattr__``."""
        return True

    def has_dict(self) -> bool:
        """Return whether the real object has attributes of its own."""
        return hasattr(self.value, "__dict__")

    def _absent(self, evaluator: Evaluator, name: str, *, is_known: bool = True) -> VariableTracker:
        if self.source is not None and self.value is not MISSING and is_known:
            if not hasattr(self.cls, "__getattr__"):
                self._guard_absent(evaluator, name)
            elif self.shadows_fallback(name):
                self._guard_not_shadowed(evaluator, name)
        elif not (_is_fixed(evaluator, self.cls) or hasattr(self.cls, name)):
            guard_absent(evaluator, self.cls, name)
        return self._raise_absent(name)

    def _guard_absent(self, evaluator: Evaluator, name: str) -> None:
        """Guard that neither the object nor its class has the attribute."""
        assert self.source is not None
        place = self.source
        has_own_lookup = class_lookup(self.cls, "__getattribute__")[0] is not object
        if has_own_lookup and self.has_dict() and not hasattr(self.cls, name):
            # `hasattr` would run the class's own `__getattribute__`: slow, and inlined already.
            self._guard_not_shadowed(evaluator, name)
            place = TypeSource(self.source)
        self.guards |= {guard_absent(evaluator, place, name)}

    def _raise_absent(self, name: str) -> VariableTracker:
        message = f"{self.cls.__name__!r} object has no attribute {name!r}"
        return raise_observed(AttributeError, message)

    def _attributes(self, evaluator: Evaluator) -> VariableTracker:
        """``self.__dict__``."""
        if self._dict is None:
            initial: dict[str, VariableTracker] = {}
            if not self.cls.__dictoffset__ and not isinstance(self.value, type):
                self._raise_absent("__dict__")
            if self.value is not MISSING:
                source = self.source or evaluator.capture.reference(self.value)
                own = AttributeSource(source, "__dict__")
                known = evaluator.capture.wrap(self.instance_dict(), own)
                assert isinstance(known, DictVariable)
                initial = {key.as_constant(): value for key, value in known.entries.values()}
            effects = evaluator.capture.side_effects
            self._dict = InstanceDictVariable(AttributeEntries(self, effects, initial))
        return self._dict

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        found_in, setter = class_lookup(self.cls, "__setattr__")
        if not is_of_trusted(found_in):
            function = class_function(evaluator, found_in, "__setattr__", setter)
            function.call(evaluator, [self, ConstantVariable(name), value], {})
        else:
            self.plain_set_attribute(evaluator, name, value)

    def plain_set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        """``object.__setattr__(self, name, value)``."""
        if name == "__class__":
            self._change_class(value)
            return
        found_in, raw = class_lookup(self.cls, name)
        if isinstance(raw, property):
            self._call_property(evaluator, name, "fset", [value])
            return
        if field_index(raw) is not None:
            raise_observed(AttributeError, "can't set attribute")
        if hasattr(type(raw), "__set__") and not isinstance(raw, DATA_MEMBERS):
            self._set_through_descriptor(evaluator, found_in, name, raw, value)
            return
        if not self.cls.__dictoffset__ and not isinstance(raw, DATA_MEMBERS):
            refuse_attribute(self.cls, name)
        raw_write = not is_of_trusted(class_lookup(self.cls, "__setattr__")[0])
        evaluator.capture.side_effects.store_attribute(self, name, value, raw=raw_write)

    def _raise_empty(self, raw: Any, name: str) -> VariableTracker:
        """Raise CPython's error for an empty slot."""
        new: Any = allocator(self.cls).__new__
        try:
            raw.__get__(new(self.cls))
        except (AttributeError, TypeError) as error:
            if isinstance(error, AttributeError):
                raise_as_observed(error)
        return self._raise_absent(name)

    def _change_class(self, value: VariableTracker) -> None:
        """``self.__class__ = value``, for an object that the captured code makes.

        Raises:
            ObservedError: instances of the two classes are laid out differently.
        """
        cls = getattr(value, "value", None)
        if not isinstance(cls, type) or self.value is not MISSING or self.container is not None:
            unsupported("attribute-write", f"write to __class__ of {self}")
        new: Any = allocator(self.cls).__new__
        try:
            new(self.cls).__class__ = cls
        except TypeError as error:
            raise_as_observed(error)
        self.cls = cls

    def _set_through_descriptor(
        self, evaluator: Evaluator, found_in: type, name: str, raw: Any, value: VariableTracker
    ) -> None:
        if not isinstance(class_lookup(type(raw), "__set__")[1], types.FunctionType):
            unsupported("descriptor", f"write through the built-in descriptor {name!r}")
        source = class_attribute_source(evaluator, found_in, name, raw)
        descriptor = evaluator.capture.wrap(raw, source)
        descriptor.call_method(evaluator, "__set__", [self, value], {})

    def _call_property(self, evaluator: Evaluator, name: str, part: str, args: Arguments) -> None:
        """Call the setter of a property, which is its ``fset``, or the deleter, its ``fdel``."""
        found_in, raw = class_lookup(self.cls, name)
        if getattr(raw, part) is None:
            what = f"property {name!r} of {self.cls.__qualname__!r} object has no"
            raise_observed(AttributeError, f"{what} {'setter' if part == 'fset' else 'deleter'}")
        function = class_function(evaluator, found_in, name, raw, part)
        function.call(evaluator, [self, *args], {})

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        found_in, deleter = class_lookup(self.cls, "__delattr__")
        if not is_of_trusted(found_in):
            function = class_function(evaluator, found_in, "__delattr__", deleter)
            function.call(evaluator, [self, ConstantVariable(name)], {})
        else:
            self.plain_delete_attribute(evaluator, name)

    def plain_delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        """``object.__delattr__(self, name)``."""
        found_in, raw = class_lookup(self.cls, name)
        if isinstance(raw, property):
            self._call_property(evaluator, name, "fdel", [])
            return
        if isinstance(class_lookup(type(raw), "__delete__")[1], types.FunctionType):
            source = class_attribute_source(evaluator, found_in, name, raw)
            descriptor = evaluator.capture.wrap(raw, source)
            descriptor.call_method(evaluator, "__delete__", [self], {})
            return
        effects = evaluator.capture.side_effects
        pending = effects.load_attribute(self, name)
        in_slot = isinstance(raw, DATA_MEMBERS)
        existed = hasattr(self.value, name) if in_slot else name in self.instance_dict()
        if not isinstance(pending, VariableTracker) and (pending is not None or not existed):
            self._absent(evaluator, name)
        if pending is None:
            self.plain_attribute(evaluator, name)
        elif existed and self.source is not None:
            guard = AttributeGuard(self.source, name, True, user_line=evaluator.source_line())
            self.guards |= {evaluator.capture.add_guard(guard)}
        custom = isinstance(class_lookup(self.cls, "__delattr__")[1], types.FunctionType)
        effects.delete_attribute(self, name, existed=existed, raw=custom)

    # Behaviour ----------------------------------------------------------------------------------

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        found_in, raw = class_lookup(self.cls, "__call__")
        if raw is MISSING:
            raise_observed(TypeError, f"{self.cls.__name__!r} object is not callable")
        method = bind(evaluator, self, self.cls, found_in, "__call__", raw)
        return method.call(evaluator, args, kwargs)

    def truth(self, evaluator: Evaluator) -> bool:
        for name in ("__bool__", "__len__"):
            if class_lookup(self.cls, name)[1] is not MISSING:
                return operations.truth(evaluator, self.call_method(evaluator, name, [], {}))
        return True

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        return operations.iterate(evaluator, self)

    def call_builtin(
        self, evaluator: Evaluator, method: Any, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Call a method written in C that some base class gives to the object."""
        name = method.__name__
        model = OBJECT_METHODS.get(name)
        if method.__objclass__ is object and model is not None:
            return model(self, evaluator, *args, **kwargs) or NONE
        if self.container is not None:
            if isinstance(self.container, SequenceVariable | DictVariable) and name == "__init__":
                return self._fill(evaluator, args, kwargs)
            result = self._call_container(evaluator, name, args, kwargs)
            return self if result is self.container else result
        if name == "__init__":
            return NONE
        if (text := EXCEPTION_TEXTS.get(method)) is not None:
            body = evaluator.capture.wrap(text, evaluator.capture.reference(text))
            return body.call(evaluator, [self, *args], kwargs)
        if name == "__iter__" and hasattr(method.__objclass__, "__next__"):
            return self  # as all iterators written in C do
        return unsupported("builtin-method", f"method {name!r} of a {self.cls.__name__}")

    def _call_container(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Call a method of the container part; subscripting an absent key asks ``__missing__``."""
        assert self.container is not None
        if name in OPERATORS:
            args = [getattr(arg, "container", None) or arg for arg in args]
        try:
            return self.container.call_method(evaluator, name, args, kwargs)
        except ObservedError as error:
            asks = name == "__getitem__" and error.kind is KeyError
            if not asks or class_lookup(self.cls, "__missing__")[1] is MISSING:
                raise
        return self.call_method(evaluator, "__missing__", args, {})

    def _fill(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        """``dict.__init__`` or ``list.__init__``."""
        assert self.container is not None
        if not isinstance(self.container, TupleVariable) and (args or kwargs):
            name = "update" if isinstance(self.container, DictVariable) else "extend"
            self.container.call_method(evaluator, name, args, kwargs)
        return NONE

    # Rebuilding ---------------------------------------------------------------------------------

    def name_as_key(self, residual: Residual) -> str:
        if self.capture is not None and not inherits(self.cls, "__hash__"):
            self.capture.side_effects.complete(self, residual)
        return residual.name_for(self)

    def rebuild(self, residual: Residual) -> str:
        cls = residual.reference(self.cls)
        if self.value is not MISSING:
            return residual.reference(self.value)
        if hasattr(self.cls, "STAYS_INSIDE"):
            unsupported("reconstruct", f"a {self.cls.__name__} that the captured code makes")
        if isinstance(self.container, TupleVariable):
            return f"tuple.__new__({cls}, [{self.container.names(residual)}])"
        return f"{residual.reference(allocator(self.cls))}.__new__({cls})"

    def mutation(self, residual: Residual, name: str) -> list[str]:
        """Return statements that write the container part, past the class's own methods."""
        base = _container_base(self.cls, residual)
        if isinstance(self.container, DictVariable):
            pairs = [
                (key.name_as_key(residual), residual.name_for(value))
                for key, value in self.container.entries.values()
            ]
            clear = [] if self.source is None else [f"{base}.clear({name})"]
            return clear + [f"{base}.__setitem__({name}, {k}, {v})" for k, v in pairs]
        assert isinstance(self.container, SequenceVariable)
        return [f"{base}.__setitem__({name}, slice(None), [{self.container.names(residual)}])"]


def _is_fixed(evaluator: Evaluator, cls: type) -> bool:
    """Return whether nobody gives a class attributes later."""
    return is_made_here(evaluator, cls) or is_of_trusted(cls)


def _container_base(cls: type, residual: Residual) -> str:
    """Return the built-in class that an instance's container part belongs to."""
    builtin = next(c for c in cls.__mro__ if is_of_trusted(c) and c is not object)
    return residual.reference(builtin)
