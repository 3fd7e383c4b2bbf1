"""Classes of users as types of the language: attributes from `__init__`, methods on demand.

An object is one of its Python class, so Python and graphs share it. `prim::CreateObject` makes it,
`prim::SetAttr` and `prim::GetAttr` write and read its attributes, `prim::CallMethod` calls a method
(TorchScript reference, "TorchScript Classes").
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

from minitorch2.script.frontend.annotations import CLASS_READERS, UnknownTypeError, type_from_object
from minitorch2.script.frontend.emission import Arguments, Emission, SugaredValue
from minitorch2.script.frontend.python_values import (
    ClassValue,
    bind,
    converted,
    register_sugar,
    to_sugared_value,
)
from minitorch2.script.ir.python_constants import is_of_library
from minitorch2.script.ir.qualified_names import qualified_name, unique_name
from minitorch2.script.ir.types import OBJECT_TYPES, Type, erase_facts
from minitorch2.script.modules.from_nn_module import (
    MethodCompiler,
    class_hints,
    properties_of,
)
from minitorch2.script.modules.module import Methods, ModuleType, Slot
from minitorch2.script.modules.module_value import MethodValue, ModuleValue
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import NOWHERE, SourceRange

_KNOWN: Final[WeakKeyDictionary[type, ObjectType]] = WeakKeyDictionary()


@dataclass(eq=False)
class ObjectType(ModuleType):
    """A class whose objects are values like lists, and not modules: code makes and passes them on.

    Attributes:
        is_declared: its user has scripted it; others are compiled where a script names them.
        is_open: its `__init__` is being compiled, which may give it further attributes.
    """

    is_module: ClassVar[bool] = False
    is_declared: bool = False
    is_open: bool = False


class InstanceValue(ModuleValue):
    """An object of a user's class, as a value in the graph."""

    is_module = False

    def describe(self) -> str:
        return f"an object of class {self.type.name.rpartition('.')[2]}"

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        if name in self.type.static and name not in self.type.slots:
            owner = ObjectClassValue(self.type.python_class, emission.constants)
            return owner.attr(emission, name, where)
        return super().attr(emission, name, where)

    def set_attr(
        self, emission: Emission, name: str, value: SugaredValue, where: SourceRange
    ) -> None:
        assert isinstance(self.type, ObjectType)
        if self.type.is_open and name not in self.type.slots:
            given = erase_facts(value.as_value(emission, where).type)
            self.type.slots[name] = Slot("attribute", given)
        super().set_attr(emission, name, value, where)

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        return self.attr(emission, "__call__", where).call(emission, arguments, where)

    def get_item(self, emission: Emission, index: SugaredValue, where: SourceRange) -> SugaredValue:
        found = self.attr(emission, "__getitem__", where)
        return found.call(emission, Arguments([index]), where)

    def length(self, emission: Emission, where: SourceRange) -> SugaredValue:
        return self.attr(emission, "__len__", where).call(emission, Arguments(), where)


class ObjectClassValue(ClassValue):
    """A user's class: a call makes an object."""

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        type_ = object_type_of(self.object, where)
        made = create_object(emission, type_, where)
        if dataclasses.is_dataclass(self.object):
            self._set_fields(emission, type_, made, arguments, where)
        elif type_.methods.has("__init__", type_.methods):
            MethodValue(made, "__init__").call(emission, arguments, where)
        elif arguments.all():
            raise self.refuse("takes no arguments", where, code="script-wrong-arguments")
        return made

    def _set_fields(
        self,
        emission: Emission,
        type_: ObjectType,
        made: InstanceValue,
        arguments: Arguments,
        where: SourceRange,
    ) -> None:
        """Do what the `__init__` of a dataclass does, which has no source."""
        given, _ = bind(self.object, arguments, where)
        for field in dataclasses.fields(self.object):
            default = field.default
            if field.name not in given and field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            value = given.get(field.name) or to_sugared_value(default, where)
            wanted = type_.slots[field.name].type
            stored = converted(emission, value.as_value(emission, where), wanted, where)
            made.set_attr(emission, field.name, to_sugared_value(stored, where), where)
        if type_.methods.has("__post_init__", type_.methods):
            MethodValue(made, "__post_init__").call(emission, Arguments(), where)


def create_object(emission: Emission, type_: ObjectType, where: SourceRange) -> InstanceValue:
    """Insert the making of an object that has no attributes yet."""
    node = emission.node("prim::CreateObject", (), (type_.class_type,), where)
    return InstanceValue(type_, lambda *_: node.output)


def script_class(python_class: type) -> type:
    """Compile a class with all of its methods, and return it as it is.

    Raises:
        ScriptError: it inherits from another class, or a method is not in the language.
    """
    if (reason := _why_not(python_class)) is not None:
        name = python_class.__qualname__
        raise ScriptError(f"the class {name} {reason}", None, code="script-class")
    type_ = object_type_of(python_class)
    type_.is_declared = True
    for name, value in vars(python_class).items():
        if isinstance(value, FunctionType | property) and type_.methods.has(name, type_.methods):
            _ = type_.methods[name]
    return python_class


def object_type_of(python_class: type, where: SourceRange = NOWHERE) -> ObjectType:
    """Return the type of a user's class, with the attributes that its `__init__` sets.

    Raises:
        ScriptError: its `__init__` is not in the language; the message names the line.
    """
    if python_class not in _KNOWN:
        made = _KNOWN[python_class] = _new_type(python_class)
        OBJECT_TYPES[python_class] = made.class_type
        try:
            _read_attributes(made, where)
        except ScriptError:
            del _KNOWN[python_class], OBJECT_TYPES[python_class]
            raise
    return _KNOWN[python_class]


def _new_type(python_class: type) -> ObjectType:
    compiler = MethodCompiler(python_class)
    methods = Methods(
        compiler, compiler.versions, compiler.typed, compiler.has, compiler.parameters
    )
    made = make_object_type(unique_name(qualified_name(python_class)), methods, python_class)
    made.static.update(_static(python_class))
    made.properties = frozenset(properties_of(python_class, object))
    compiler.type = made
    return made


def make_object_type(name: str, methods: Methods, python_class: type) -> ObjectType:
    """Return a type of objects without attributes."""
    made = ObjectType(name, {}, {}, {}, methods, python_class=python_class)
    made.sugar = lambda value: InstanceValue(made, lambda *_: value)
    return made


def loaded_class(name: str, method_names: Sequence[str], methods: Methods) -> type:
    """Return a Python class for objects of a file, whose methods run the graphs of the file."""

    def method_of(method: str) -> Callable[..., Any]:
        def call(receiver: Any, *args: Any, **kwargs: Any) -> Any:
            found = methods[method]
            return found.call(receiver, *found.bind(args, kwargs))

        return call

    return type(name.rpartition(".")[2], (), {each: method_of(each) for each in method_names})


def _static(python_class: type) -> dict[str, Any]:
    """Return the static methods and the constants of a class."""
    found = dict[str, Any]()
    for name, value in vars(python_class).items():
        if isinstance(value, staticmethod):
            found[name] = value.__func__
        elif not (name.startswith("__") or callable(value) or hasattr(value, "__get__")):
            found[name] = value
    return found


def _read_attributes(type_: ObjectType, where: SourceRange) -> None:
    """Find the attributes: annotations of the class, then what `__init__` sets."""
    for name, hint in class_hints(type_.python_class).items():
        try:
            type_.slots[name] = Slot("attribute", type_from_object(hint))
        except UnknownTypeError as error:
            message = (
                f"the attribute {name} of {type_.name} has a type that is none of the language"
            )
            raise ScriptError(message, where, code="script-unknown-type") from error
    is_given = dataclasses.is_dataclass(type_.python_class)
    if is_given or not type_.methods.has("__init__", type_.methods):
        return
    type_.is_open = True
    try:
        _ = type_.methods["__init__"]
    finally:
        type_.is_open = False


def _why_not(python_class: type) -> str | None:
    """Say why the language has no objects of a class; None if it has them."""
    if python_class.__bases__ != (object,) or type(python_class) is not type:
        return f"inherits from {python_class.__bases__[0].__qualname__}, and has to be plain"
    if "__new__" in vars(python_class):
        return "has a method __new__, which graphs do not call"
    return None


def _is_plain(given: Any) -> bool:
    """Tell whether an object is a class that scripts compile where they name it."""
    if not isinstance(given, type) or _why_not(given) is not None:
        return False
    if given in _KNOWN and _KNOWN[given].is_declared:
        return True
    has_code = isinstance(vars(given).get("__init__"), FunctionType)
    return has_code and not is_of_library(given) and not hasattr(given, "__enter__")


def _type_of_class(given: type) -> Type | None:
    """Return the type of a user's class; None if the language has none for it."""
    if not _is_plain(given):
        return None
    try:
        return object_type_of(given).class_type
    except ScriptError:
        return None


register_sugar(_is_plain, ObjectClassValue)
CLASS_READERS.append(_type_of_class)
