"""An `nn.Module` to a module type: parameters, buffers, sub-modules, constants, attributes.

Methods are compiled when something calls them, beginning with `forward`.
"""

from __future__ import annotations

import builtins
import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, Final, Literal

import torch
from torch import nn

from minitorch2.script.frontend.annotations import (
    ForeignTypeError,
    UnknownTypeError,
    comment_types,
    type_from_object,
)
from minitorch2.script.frontend.compile import (
    CompiledFunction,
    compile_tree,
    defaults_of,
    definition_of,
    headers_of,
    schema_of_header,
    type_by_default,
)
from minitorch2.script.frontend.decorators import contexts_of, undecorated, within_contexts
from minitorch2.script.frontend.known_arguments import Known
from minitorch2.script.frontend.python_calls import script_mark
from minitorch2.script.frontend.resolver import resolver_of
from minitorch2.script.ir.qualified_names import qualified_name, unique_name
from minitorch2.script.ir.types import (
    ANY,
    NONE,
    TENSOR,
    ClassType,
    EnumType,
    OptionalType,
    Type,
    UnionType,
    is_subtype_of,
    is_undeclared,
    type_of,
    walk_types,
)
from minitorch2.script.modules.attribute import Attribute
from minitorch2.script.modules.hooks import NO_HOOKS, Hooks, hooks_of
from minitorch2.script.modules.module import Container, Methods, ModuleType, Slot
from minitorch2.script.modules.module_value import make_module_type
from minitorch2.script.operators.schema import NO_DEFAULT, FunctionSchema
from minitorch2.script.syntax.errors import ScriptError

_OF_EVERY_MODULE: Final = frozenset(vars(nn.Module()))
_CONTAINERS: Final[tuple[tuple[type, Container], ...]] = (
    (nn.Sequential, "sequential"),
    (nn.ModuleList, "list"),
    (nn.ModuleDict, "dict"),
    (nn.ParameterList, "list"),
    (nn.ParameterDict, "dict"),
)
_KNOWN: Final[dict[type, list[tuple[Any, ModuleType]]]] = {}
"""Module types that exist, by the Python class of their modules, with what they depend on."""
_VERSION: Final = "__overload"
_TYPED: Final = "__typed"
"""Stands between the name of a method and the number of its overload."""


def module_type_of(module: nn.Module) -> ModuleType:
    """Return the type of a module; modules that differ in values only have the same one.

    Raises:
        ScriptError: it has hooks that no graph can call.
    """
    return _Reader(module).type()


def new_module_type(module: nn.Module) -> ModuleType:
    """Return a type for this module alone, so that its methods can be replaced."""
    return _Reader(module).new_type()


class _Reader:
    """Reads one module."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.python_class = type(module)
        self.slots: dict[str, Slot] = {}
        self.constants: dict[str, Any] = {}
        self.static: dict[str, Any] = {}
        self.refused: dict[str, str] = {}
        self.hints = class_hints(self.python_class)

    def type(self) -> ModuleType:
        """Return the module's type: one that is known already, or a new one."""
        hooks = hooks_of(self.module)
        self._read()
        modules = self._modules()
        own = {name: f for name, f in vars(self.module).items() if isinstance(f, MethodType)}
        key = (
            self.slots,
            {name: (type(value), value) for name, value in self.constants.items()},
            {name: id(value) for name, value in self.static.items()},
            {name: id(type_) for name, type_ in modules.items()},
            {name: id(method.__func__) for name, method in own.items()},
            [(name, id(hook)) for table in hooks for name, hook in table.items()],
            len(hooks.before),
        )
        known = _KNOWN.setdefault(self.python_class, [])
        for other, type_ in known:
            if _equal(other, key):
                return type_
        made = self._make(modules, hooks)
        known.append((key, made))
        return made

    def new_type(self) -> ModuleType:
        """Return a new type; whoever asks for it has called the module's hooks."""
        self._read()
        return self._make(self._modules())

    def _modules(self) -> dict[str, ModuleType]:
        children = self.module._modules.items()
        return {name: module_type_of(child) for name, child in children if child is not None}

    def _make(self, modules: dict[str, ModuleType], hooks: Hooks = NO_HOOKS) -> ModuleType:
        compiler = MethodCompiler(self.module, {**hooks.before, **hooks.behind})
        made = make_module_type(
            unique_name(qualified_name(self.python_class)),
            Methods(compiler, compiler.versions, compiler.typed, compiler.has, compiler.parameters),
            slots=self.slots,
            constants=self.constants,
            modules=modules,
            static=self.static,
            refused=self.refused,
            marked=_marked(self.module),
            container=next((k for cls, k in _CONTAINERS if isinstance(self.module, cls)), ""),
            properties=frozenset(properties_of(self.python_class)),
            python_class=self.python_class,
            hooks_before=tuple(hooks.before),
            hooks_behind=tuple(hooks.behind),
        )
        compiler.type = made
        return made

    def _read(self) -> None:
        for name, parameter in self.module._parameters.items():
            self._tensor(name, parameter, "parameter")
        for name, buffer in self.module._buffers.items():
            self._tensor(name, buffer, "buffer")
        for name, child in self.module._modules.items():
            if child is None:
                self.static[name] = None
        self.slots["training"] = Slot("attribute", type_of(True))
        constants = {*getattr(self.module, "__constants__", ()), *_finals(self.hints)}
        for name, value in self._attributes():
            self._attribute(name, value, is_constant=name in constants)

    def _tensor(
        self, name: str, tensor: torch.Tensor | None, kind: Literal["parameter", "buffer"]
    ) -> None:
        """Give a parameter or buffer its place; one that is None keeps what it was annotated as."""
        hinted = self._hinted(name)
        if tensor is not None:
            type_ = hinted if isinstance(hinted, OptionalType) and kind == "buffer" else TENSOR
            self.slots[name] = Slot(kind, type_)
        elif isinstance(hinted, OptionalType) and kind == "buffer":
            self.slots[name] = Slot(kind, hinted)
        else:
            self.static[name] = None

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """Iterate over further attributes: the module's own, then those of its classes."""
        own = vars(self.module)
        for name, value in own.items():
            is_own_method = isinstance(value, MethodType) and value.__self__ is self.module
            if name not in _OF_EVERY_MODULE and not is_own_method:
                yield name, value
        for base in self.python_class.__mro__:
            if base is nn.Module:
                return
            for name, value in vars(base).items():
                if isinstance(value, staticmethod):
                    yield name, value.__func__
                is_plain = not (
                    name.startswith("__") or callable(value) or hasattr(value, "__get__")
                )
                if is_plain and name not in own and name not in self.slots:
                    yield name, value

    def _attribute(self, name: str, value: Any, *, is_constant: bool) -> None:
        if isinstance(value, Attribute):
            self.slots[name] = Slot("attribute", type_from_object(value.type))
        elif is_constant:
            self.constants[name] = tuple(value) if isinstance(value, list) else value
        elif value is None and self._hinted(name) is None:
            self.static[name] = None
        elif isinstance(value, Enum) and not isinstance(self._hinted(name), EnumType):
            self.static[name] = value  # branches on it are decided while methods are compiled
        elif callable(value) and not isinstance(value, nn.Module) and not _is_scripted(value):
            self.static[name] = value
        else:
            self._slot(name, value)

    def _slot(self, name: str, value: Any) -> None:
        hinted, found = self._hinted(name), type_of(value)
        if is_undeclared(found):
            found = ANY  # what the code reads of it are constants
        if isinstance(hinted, UnionType) or hinted == ANY:
            hinted = None  # the value says more
        if hinted is None and isinstance(value, list | dict) and not value:
            self.refused[name] = "the type of an empty container is not known: annotate it"
        elif hinted is None and found == ANY:
            self.static[name] = value  # what the code reads of it are constants
        elif hinted is None and any(inner == ANY for inner in walk_types(found)):
            self.refused[name] = (
                f"a value of type {type(value).__name__} is no value of the language"
            )
        elif hinted is not None and value is None and not is_subtype_of(NONE, hinted):
            self.refused[name] = f"its annotation says {hinted}, and its value is None"
        else:
            self.slots[name] = Slot("attribute", found if hinted is None else hinted)

    def _hinted(self, name: str) -> Type | None:
        try:
            return type_from_object(self.hints[name]) if name in self.hints else None
        except UnknownTypeError:
            return None


def _is_scripted(value: Any) -> bool:
    """Tell whether a value is an object of a class that its user has scripted."""
    found = type_of(value)
    return isinstance(found, ClassType) and not is_undeclared(found)


def _equal(first: Any, second: Any) -> bool:
    """Compare keys; constants that cannot be compared, such as tensors, are different."""
    try:
        return bool(first == second)
    except (RuntimeError, ValueError):
        return False


def class_hints(python_class: type) -> dict[str, Any]:
    """Return the annotations of a class and its bases, but for those of `nn.Module`."""
    found: dict[str, Any] = {}
    for base in reversed(python_class.__mro__):
        if base in nn.Module.__mro__:
            continue
        try:
            found.update(typing.get_type_hints(base))
        except (NameError, TypeError, AttributeError):  # names that only type checkers know
            found.update(inspect.get_annotations(base))
    return found


def _finals(hints: dict[str, Any]) -> set[str]:
    return {
        name
        for name, hint in hints.items()
        if hint is typing.Final or typing.get_origin(hint) is typing.Final
    }


class MethodCompiler:
    """Compiles methods of one module type, or of a class of other objects, by name.

    Args:
        module: the module, or the class.
        hooks: functions that are further methods, by name.
    """

    type: ModuleType

    def __init__(
        self, module: nn.Module | builtins.type, hooks: Mapping[str, FunctionType] | None = None
    ) -> None:
        self.module = module
        self._hooks = hooks or {}
        self._typed: list[tuple[str, dict[str, Type], Known]] = []

    def __call__(self, name: str) -> CompiledFunction | None:
        named, _, typed = name.partition(_TYPED)
        base, _, number = named.partition(_VERSION)
        function = self._function(base)
        if function is None or name in self.type.marked:
            return None
        plain = undecorated(function)
        headers = headers_of(plain)
        found = headers[int(number or 0)] if headers else definition_of(plain)
        _, types, known = self._typed[int(typed)] if typed else (base, None, None)
        return compile_tree(
            within_contexts(found, function),
            resolver_of(plain, {**_own_name(self.module), **contexts_of(function)}),
            self_type=self.type.class_type,
            name=f"{self.type.name}.{name}",
            defaults=defaults_of(plain),
            types=types,
            known=known,
        )

    def has(self, name: str, _: Methods) -> bool:
        """Tell whether the module has a method that can be compiled."""
        return self._function(name) is not None and name not in self.type.marked

    def _function(self, name: str) -> FunctionType | None:
        return self._hooks.get(name) or _function(self.module, name)

    def typed(
        self, name: str, given: Sequence[Type], named: Mapping[str, Type], known: Known
    ) -> str:
        """Return the name of a method's version for arguments; its own name if they fit it.

        Args:
            name: of the method.
            given: types of positional arguments, without the module.
            named: types of arguments with keywords.
            known: arguments that the version has no parameters for.
        """
        function = self._function(name)
        types = {} if function is None else _open_types(undecorated(function), given, named)
        if not types and not known:
            return name
        version = (name, types, known)
        if version not in self._typed:
            self._typed.append(version)
        return f"{name}{_TYPED}{self._typed.index(version)}"

    def parameters(self, name: str) -> list[inspect.Parameter]:
        """Return the parameters of a method in Python, without the module."""
        function = self._function(name)
        return [] if function is None else _parameters(undecorated(function))

    def versions(self, name: str) -> dict[str, FunctionSchema]:
        """Return the schemas of a method's overloads; the first one has the method's name."""
        function, found = self._function(name), dict[str, FunctionSchema]()
        for number, header in enumerate(() if function is None else headers_of(function)):
            assert function is not None
            own = {header.parameters[0].name: self.type.class_type}
            version = f"{name}{_VERSION}{number}" if number else name
            found[version] = schema_of_header(header, function, own)
        return found


def _function(module: nn.Module | type, name: str) -> FunctionType | None:
    """Return the Python function of a method; None if there is none."""
    found = inspect.getattr_static(module, name, None)
    if isinstance(found, MethodType):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    if not isinstance(found, FunctionType):
        return None
    is_ours = getattr(nn.Module, name, None) is not found
    return found if is_ours and (name != "__init__" or isinstance(module, type)) else None


def _own_name(owner: nn.Module | type) -> dict[str, type]:
    """Return the name of a class: while a decorator runs, no namespace has it yet."""
    return {owner.__name__: owner} if isinstance(owner, type) else {}


def _parameters(function: FunctionType) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())[1:]


def _open_types(
    function: FunctionType, given: Sequence[Type], named: Mapping[str, Type]
) -> dict[str, Type]:
    """Return types of arguments whose parameters have no annotation, and would not take them."""
    parameters = _parameters(function)
    types = {**dict(zip((each.name for each in parameters), given)), **named}
    found = dict[str, Type]()
    for each in parameters:
        given_type = types.get(each.name)
        if given_type is not None and not _takes(each, given_type):
            may_be_none = each.default is None and given_type != NONE
            found[each.name] = OptionalType(given_type) if may_be_none else given_type
    if found:
        comments, _ = comment_types(definition_of(function), resolver_of(function))
        return {name: type_ for name, type_ in found.items() if name not in comments}
    return found


def _takes(parameter: inspect.Parameter, given: Type) -> bool:
    """Tell whether a parameter has a type of its own, or the type that it has without one fits."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return True
    if parameter.annotation is not parameter.empty:
        return not _is_foreign(parameter.annotation)
    default = NO_DEFAULT if parameter.default is parameter.empty else parameter.default
    return is_subtype_of(given, type_by_default(default))


def _is_foreign(annotation: Any) -> bool:
    try:
        type_from_object(annotation)
    except ForeignTypeError:
        return True
    except (UnknownTypeError, ScriptError):  # a text, whose names the compiler resolves
        return False
    return False


def properties_of(python_class: type, root: type = nn.Module) -> Iterator[str]:
    """Iterate over the names of properties that are not those of a base class."""
    for base in python_class.__mro__[: python_class.__mro__.index(root)]:
        yield from (name for name, value in vars(base).items() if isinstance(value, property))


def _marked(module: nn.Module) -> dict[str, FunctionType]:
    """Return the methods that are marked as ignored or unused."""
    return {name: f for name, f, mark in _marks(module) if mark in ("ignore", "unused")}


def exported_methods(module: nn.Module) -> list[str]:
    """Return the names of methods that are compiled although nothing calls them."""
    return [name for name, _, mark in _marks(module) if mark == "export"]


def _marks(module: nn.Module) -> Iterator[tuple[str, FunctionType, str | None]]:
    """Iterate over the methods of a module, each with its mark."""
    for name in dir(type(module)):
        function = None if name.startswith("__") else _function(module, name)
        if function is not None:
            yield name, function, script_mark(function)
