"""Text of archives to module types and functions: what `print_code` and torch.jit write.

The text is the front end's language. Some more names are resolved here.
``torch.f`` is the operator ``aten::f``, ``ops.ns.f`` is ``ns::f``, ``CONSTANTS.c0`` is a value of
the archive, ``__torch__.a.B`` is a class or function of another text of the archive.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final, Literal

import torch

from minitorch2.errors import ArchiveError
from minitorch2.script.archive.container import NEWEST_VERSION
from minitorch2.script.archive.dtype_comparisons import compare_as_numbers
from minitorch2.script.archive.mode_classes import mode_class_named
from minitorch2.script.archive.upgrades import UPGRADES
from minitorch2.script.frontend.annotations import type_of_annotation
from minitorch2.script.frontend.compile import CompiledFunction, compile_tree
from minitorch2.script.frontend.emission import Arguments, Emission, SugaredValue
from minitorch2.script.frontend.python_values import to_sugared_value
from minitorch2.script.frontend.resolver import Resolver
from minitorch2.script.frontend.sugared import sugar
from minitorch2.script.ir.dtype_numbers import DTYPES_BY_NUMBER
from minitorch2.script.ir.graph import NOT_CONSTANT, Graph, Value
from minitorch2.script.ir.qualified_names import class_named, unique_name
from minitorch2.script.ir.types import (
    BOOL,
    NONE,
    NUMBER,
    OBJECT_TYPES,
    SCALAR_TYPE,
    EnumType,
    TupleType,
    Type,
    enum_type,
)
from minitorch2.script.modules.function import ScriptFunction
from minitorch2.script.modules.intrinsics import annotate, fork, wait
from minitorch2.script.modules.module import Methods, ModuleType, Slot
from minitorch2.script.modules.module_value import make_module_type
from minitorch2.script.modules.object_type import (
    ObjectType,
    create_object,
    loaded_class,
    make_object_type,
)
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.parser import parse_module
from minitorch2.script.syntax.source import SourceFile, SourceRange

_CONTAINERS: Final[dict[str, Literal["list", "dict", "sequential"]]] = {
    "__torch__.torch.nn.modules.container.ModuleList": "list",
    "__torch__.torch.nn.modules.container.Sequential": "sequential",
    "__torch__.torch.nn.modules.container.ModuleDict": "dict",
}
_TYPE_FORMS: Final = ("unchecked_cast", "uninitialized")


def read_code(text: str, constants: tuple[Any, ...] = ()) -> ScriptFunction:
    """Compile the text of one function, such as a script function's `.code`.

    Raises:
        ScriptError: the text is not in the language.
    """
    library = CodeLibrary({"__torch__": text}, constants)
    (name,) = library.definitions
    return library.function(name)


class CodeLibrary:
    """The texts of an archive; classes and functions are compiled when they are asked for.

    Args:
        texts: by path, such as ``"__torch__/torch/nn/modules/linear"``.
        constants: values of ``CONSTANTS.c0`` and so on.
        version: of the operators that the texts call.

    Attributes:
        definitions: trees of classes and functions, by their qualified names.
    """

    def __init__(
        self,
        texts: Mapping[str, str],
        constants: tuple[Any, ...],
        version: int = NEWEST_VERSION,
    ) -> None:
        self.version = version
        self.constants = constants
        self.definitions: dict[str, t.Def | t.ClassDef] = {}
        self._objects: dict[str, Any] = {}
        for path, text in texts.items():
            prefix = path.replace("/", ".")
            for definition in parse_module(SourceFile(text, f"{path}.py"), nests=True):
                if isinstance(definition, t.Def | t.ClassDef):
                    self.definitions[f"{prefix}.{definition.name}"] = definition
        self.resolver = Resolver(self._names())

    def _names(self) -> dict[str, Any]:
        forms = ("List", "Dict", "Tuple", "Optional", "Any", "Union", "Final")
        return {
            "torch": _Operators("aten", self.version),
            "ops": _Namespaces(self.version),
            "CONSTANTS": _Constants(self.constants),
            "__torch__": _Place(self, "__torch__"),
            "inf": math.inf,
            "nan": math.nan,
            "Tensor": torch.Tensor,
            "number": NUMBER,
            "NoneType": NONE,
            "Device": torch.device,
            "Generator": torch.Generator,
            "Future": torch.futures.Future,
            "annotate": annotate,
            "fork": fork,
            "wait": wait,
            **{form: getattr(typing, form) for form in forms},
        }

    def find(self, name: str) -> Any:
        """Return the module type, function or type of named tuples of a qualified name."""
        if name not in self._objects:
            if name not in self.definitions:
                raise ArchiveError(f"the code of the archive names {name}, which it does not have")
            self._make(name, self.definitions[name])
        return self._objects[name]

    def _make(self, name: str, definition: t.Def | t.ClassDef) -> None:
        if isinstance(definition, t.Def):
            self._objects[name] = ScriptFunction(self._compiled(definition, name, None))
            return
        base = definition.bases[0] if definition.bases else None
        kind = base.id if isinstance(base, t.Name) else ""
        if kind == "NamedTuple":
            self._objects[name] = self._named_tuple(definition, name)
        elif kind == "Enum":
            self._objects[name] = _enumeration(definition, name)
        elif kind == "Module":
            self._module(definition, name)
        elif not definition.bases:
            self._object_class(definition, name)
        else:
            raise ArchiveError(f"{name} is a class of a kind that no file has")

    def enumeration(self, name: str) -> type[Enum]:
        """Return the enumeration of a qualified name."""
        found = self.find(name)
        if not isinstance(found, EnumType) or found.python_class is None:
            raise ArchiveError(f"{name} is no enumeration")
        return found.python_class

    def module_type(self, name: str) -> ModuleType:
        """Return the module type of a qualified name."""
        found = self.find(name)
        if not isinstance(found, ModuleType):
            raise ArchiveError(f"{name} is no class of modules")
        return found

    def function(self, name: str) -> ScriptFunction:
        """Return the compiled function of a qualified name."""
        found = self.find(name)
        if not isinstance(found, ScriptFunction):
            raise ArchiveError(f"{name} is no function")
        return found

    def _named_tuple(self, definition: t.ClassDef, name: str) -> TupleType:
        fields = {key: self._type(a) for key, a in _annotations(definition).items()}
        return TupleType(tuple(fields.values()), tuple(fields), name)

    def _object_class(self, definition: t.ClassDef, name: str) -> None:
        methods = self._methods(definition, name)
        made = make_object_type(unique_name(name), methods, loaded_class(name, [*methods], methods))
        OBJECT_TYPES[made.python_class] = made.class_type
        self._objects[name] = made
        for key, annotation in _annotations(definition).items():
            made.slots[key] = Slot("attribute", self._type(annotation))

    def _methods(self, definition: t.ClassDef, name: str) -> Methods:
        """Return all methods that the archive has of a class; each is compiled when it is read."""
        names = [each.name for each in definition.body if isinstance(each, t.Def)]
        return Methods(lambda method: self._method(definition, name, method), names=names)

    def _method(self, definition: t.ClassDef, name: str, method: str) -> CompiledFunction | None:
        """Compile a method of a class of the archive."""
        methods = {each.name: each for each in definition.body if isinstance(each, t.Def)}
        found, owner = methods.get(method), self._objects[name]
        return None if found is None else self._compiled(found, f"{name}.{method}", owner)

    def _module(self, definition: t.ClassDef, name: str) -> None:
        methods = self._methods(definition, name)
        container = _CONTAINERS.get(_unmangled(name), "")
        before, behind = (
            tuple(_listed(definition, key))
            for key in ("__forward_pre_hooks__", "__forward_hooks__")
        )
        hooks = {"hooks_before": before, "hooks_behind": behind}
        made = make_module_type(unique_name(name), methods, container=container, **hooks)
        self._objects[name] = made
        parameters, buffers = (_listed(definition, n) for n in ("__parameters__", "__buffers__"))
        for key, annotation in _annotations(definition).items():
            type_ = self._type(annotation)
            owner = getattr(type_, "owner", None)
            if isinstance(owner, ModuleType) and owner.is_module:
                made.modules[key] = owner
                continue
            kind: Any = "parameter" if key in parameters else "attribute"
            made.slots[key] = Slot("buffer" if key in buffers else kind, type_)
        made.constants.update(_final_values(definition))

    def _type(self, annotation: t.Expr) -> Type:
        return type_of_annotation(annotation, self.resolver)

    def _compiled(self, definition: t.Def, name: str, owner: ModuleType | None) -> CompiledFunction:
        types = _TypeArguments(self)
        tree = types.without_types(definition)
        self_type = None if owner is None else owner.class_type
        compiled = compile_tree(tree, types.resolver, self_type=self_type, name=name)
        compare_as_numbers(compiled.graph)
        return compiled


def _unmangled(name: str) -> str:
    return ".".join(part for part in name.split(".") if not part.startswith("___"))


def _annotations(definition: t.ClassDef) -> dict[str, t.Expr]:
    """Return the declared attributes of a class; constants are not attributes."""
    found: dict[str, t.Expr] = {}
    for statement in definition.body:
        match statement:
            case t.Assign((t.Name(name),), None, annotation) if annotation is not None:
                found[name] = annotation
            case t.Assign((t.Subscript(_, t.Constant(str() as name)),), annotation, None):
                if annotation is not None:
                    found[name] = annotation
    return found


def _enumeration(definition: t.ClassDef, name: str) -> Type:
    """Return the type of an enumeration of a file: the program's own, if it has the same members.

    So a program that has the class calls what it loads with members of it.
    """
    make: Any = Enum
    members, known = _members(definition), class_named(name)
    if known is None or not issubclass(known, Enum) or members != {m.name: m.value for m in known}:
        known = make(name.rpartition(".")[2], members)
    return enum_type(known, name)


def _members(definition: t.ClassDef) -> dict[str, Any]:
    """Return the values of an enumeration's members, by name."""
    return {
        statement.targets[0].id: _evaluated(statement.value)
        for statement in definition.body
        if isinstance(statement, t.Assign)
        and isinstance(statement.targets[0], t.Name)
        and statement.value is not None
    }


def _listed(definition: t.ClassDef, name: str) -> list[Any]:
    for statement in definition.body:
        match statement:
            case t.Assign((t.Name(found),), t.ListLiteral(items), _) if found == name:
                return [item.value for item in items if isinstance(item, t.Constant)]
    return []


def _final_values(definition: t.ClassDef) -> dict[str, Any]:
    """Return the constants of a class: ``p : Final[float] = 0.5``."""
    body = [each for each in definition.body if isinstance(each, t.Assign) and each.type]
    return _members(replace(definition, body=tuple(body)))


def _evaluated(value: t.Expr) -> Any:
    match value:
        case t.Constant(constant):
            return constant
        case t.Unary("-", operand):
            return -_evaluated(operand)
        case t.Name("inf" | "nan" as name):
            return float(name)
        case t.TupleLiteral(items):
            return tuple(map(_evaluated, items))
        case t.ListLiteral(items):
            return list(map(_evaluated, items))
    raise ArchiveError(f"{value.range.text()} is no constant")


class _TypeArguments:
    """Replaces ``unchecked_cast(T, x)`` by a call of a name that knows the type.

    Restores calls on another thread, for which files write a function without parameters:
    ``def task(): return f(x)``, ``fork(task)``  -->  ``fork(f, x)``.
    """

    def __init__(self, library: CodeLibrary) -> None:
        self.library = library
        self.tasks: dict[str, t.Call] = {}
        self.names: dict[str, Any] = {}
        self.resolver = Resolver(self.names, *library.resolver.tables)

    def without_types(self, tree: Any) -> Any:
        """Return a tree whose expressions contain no types; annotations of names stay."""
        if isinstance(tree, tuple):
            return tuple(self.without_types(each) for each in tree if not self._is_task(each))
        if not dataclasses.is_dataclass(tree) or isinstance(tree, SourceRange):
            return tree
        match tree:
            case t.Call(t.Name("fork") as function, (t.Name(name),), ()) if name in self.tasks:
                task = self.tasks[name]
                tree = replace(task, function=function, arguments=(task.function, *task.arguments))
            case t.Call(t.Name(name), (annotation, *rest), ()) if name in _TYPE_FORMS:
                form = _Cast(self.library._type(annotation), made=name == "uninitialized")
                key = f"{name}<{len(self.names)}>"
                self.names[key] = form
                function = t.Name(key, range=tree.range)
                return replace(tree, function=function, arguments=self.without_types(tuple(rest)))
        parts = {
            f.name: self.without_types(getattr(tree, f.name)) for f in dataclasses.fields(tree)
        }
        return replace(tree, **parts)

    def _is_task(self, tree: Any) -> bool:
        """Keep the call of a function within a function, and tell whether this is one."""
        match tree:
            case t.Def(name, (), body=(*steps, t.Return(t.Call() as call))) if all(
                map(_names_a_path, steps)
            ):
                self.tasks[name] = _read_by_path(call, steps)
            case t.Def():
                fix = "fork a function that does what it does"
                what = "a function within a function that is more than one call"
                raise ArchiveError(what, fix=fix, user_line=tree.range)
        return isinstance(tree, t.Def)


def _names_a_path(step: t.Stmt) -> bool:
    """Tell whether a statement only gives a dotted name another name: ``_0 = a.b``."""
    match step:
        case t.Assign((t.Name(),), value, _):
            while isinstance(value, t.Attribute):
                value = value.value
            return isinstance(value, t.Name)
    return False


def _read_by_path(call: t.Call, steps: Sequence[t.Stmt]) -> t.Call:
    """Return a call without names of its own: ``_0 = a.b; return _0(x)``  -->  ``a.b(x)``."""
    paths: dict[str, t.Expr] = {}
    for step in steps:
        match step:
            case t.Assign((t.Name(name),), value, _):
                paths[name] = _with_paths(value, paths)
    result: t.Call = _with_paths(call, paths)
    return result


def _with_paths(tree: Any, paths: Mapping[str, t.Expr]) -> Any:
    """Return a tree with paths in the place of names."""
    if isinstance(tree, tuple):
        return tuple(_with_paths(each, paths) for each in tree)
    if isinstance(tree, t.Name):
        return paths.get(tree.id, tree)
    if not isinstance(tree, t.Tree):
        return tree
    parts = {f.name: _with_paths(getattr(tree, f.name), paths) for f in dataclasses.fields(tree)}
    return replace(tree, **parts)


class _Cast(SugaredValue):
    """``unchecked_cast(T, x)`` or ``uninitialized(T)``."""

    def __init__(self, type: Type, *, made: bool) -> None:
        self.type = type
        self.made = made

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        kind = "prim::Uninitialized" if self.made else "prim::unchecked_cast"
        inputs = [value.as_value(emission, where) for value in arguments.positional]
        return sugar(emission.node(kind, inputs, (self.type,), where).output)


class _Operators(SugaredValue):
    """The operators of a namespace: ``torch.relu``, ``ops.prim.dtype``."""

    def __init__(self, namespace: str, version: int) -> None:
        self.namespace = namespace
        self.version = version

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        if (self.namespace, name) == ("aten", "device"):
            return to_sugared_value(torch.device, where)
        return _Operator(f"{self.namespace}::{name}", self.version)


class _Namespaces(SugaredValue):
    """``ops``."""

    def __init__(self, version: int) -> None:
        self.version = version

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        return _Operators(name, self.version)


class _Operator(SugaredValue):
    """One operator by its exact name."""

    def __init__(self, kind: str, version: int) -> None:
        self.kind = kind
        self.version = version

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        since, upgrade = UPGRADES.get(self.kind, (0, None))
        if self.version < since and upgrade is not None:
            upgraded = upgrade(emission, arguments, where)
            if upgraded is not None:
                return upgraded
        positional, named = arguments.values(emission, where)
        if self.kind == "aten::set_grad_enabled":
            emission.node("prim::SetGradEnabled", positional, (BOOL,), where)
            return to_sugared_value(None, where)
        if self.kind == "prim::RaiseException":
            return _raised(emission, positional, where)
        result = emission.emit(self.kind, positional, where, named)
        _restore_dtypes(result, emission.graph)
        return sugar(result)


def _raised(emission: Emission, values: list[Value], where: SourceRange) -> SugaredValue:
    """Insert an exception; text without a class means the one of assertions."""
    if len(values) == 1:
        values.append(emission.constant("builtins.AssertionError", where))
    emission.node("prim::RaiseException", values, (), where)
    return to_sugared_value(None, where)


def _restore_dtypes(result: Value, graph: Graph) -> None:
    """Make element types of the numbers that stand for them in files."""
    node = result.node
    operator = operator_of(node)
    for index, argument in enumerate(operator.schema.arguments if operator else ()):
        known = node.constant(index)
        is_number = known is not NOT_CONSTANT and type(known) is int
        if is_number and SCALAR_TYPE in (argument.type, *argument.type.contained()):
            with graph.inserting_before(node):
                node.replace_input(index, graph.constant(DTYPES_BY_NUMBER[known], range=node.range))


class _Constants(SugaredValue):
    """``CONSTANTS``."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        return sugar(emission.constant(self.values[int(name.removeprefix("c"))], where))


class _Place(SugaredValue):
    """A qualified name, or the beginning of one: ``__torch__.torch.nn``."""

    def __init__(self, library: CodeLibrary, name: str) -> None:
        self._library = library
        self._name = name

    def attr(self, emission: Emission, name: str, where: SourceRange) -> SugaredValue:
        if isinstance(self._library.definitions.get(self._name), t.ClassDef) and isinstance(
            found := self._library.find(self._name), EnumType
        ):
            return to_sugared_value(found.python_class, where).attr(emission, name, where)
        return self._below(name)

    def _below(self, name: str) -> _Place:
        return _Place(self._library, f"{self._name}.{name}")

    def __getattr__(self, name: str) -> Any:
        if name == "script_type":
            found = self._library.find(self._name)
            return found.class_type if isinstance(found, ModuleType) else found
        return self._below(name)

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        owner, _, name = self._name.rpartition(".")
        if name == "__new__" and (mode := mode_class_named(_unmangled(owner))) is not None:
            return mode
        if name == "__new__" and isinstance(made := self._library.find(owner), ObjectType):
            return create_object(emission, made, where)
        found = self._library.find(self._name)
        if isinstance(found, TupleType):
            values = [value.as_value(emission, where) for value in arguments.positional]
            node = emission.node("prim::TupleConstruct", values, (found,), where)
            return sugar(node.output)
        return to_sugared_value(found, where).call(emission, arguments, where)
