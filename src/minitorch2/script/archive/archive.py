"""Save a scripted module, and load one: torch.jit's own files, without torch.jit.

A file holds the code as text and the values as a restricted pickle. Both ways need neither the
Python source of the model nor torch.jit (TorchScript overview, "Saving Programs").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

import torch

from minitorch2.errors import ArchiveError
from minitorch2.script.archive.annotation_text import annotation_text, class_name_of
from minitorch2.script.archive.container import Contents, File, read_container, write_container
from minitorch2.script.archive.literals import literal_text
from minitorch2.script.archive.pickle_subset import Instance, Member, TypedContainer
from minitorch2.script.archive.print_code import References, print_code
from minitorch2.script.archive.read_code import CodeLibrary
from minitorch2.script.frontend.compile import CompiledFunction
from minitorch2.script.ir.dtype_numbers import numbered
from minitorch2.script.ir.types import (
    ClassType,
    DictType,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    type_of,
)
from minitorch2.script.modules.freezing import module_type_of_graph
from minitorch2.script.modules.function import CODE_PRINTERS, ScriptFunction
from minitorch2.script.modules.module import ModuleType
from minitorch2.script.modules.script_module import ScriptModule


def save(
    module: ScriptModule | ScriptFunction,
    file: File,
    extra_files: Mapping[str, str | bytes] | None = None,
) -> None:
    """Write a module to a path or to an open file; `torch.jit.load` reads it as well.

    Args:
        module: what is saved, with all of its sub-modules. A function becomes the `forward` of one.
        file: a path, or a file that is open for writing bytes.
        extra_files: further contents of the file by name.

    Raises:
        ArchiveError: a value, or a call of Python code, cannot be held by a file.
    """
    if isinstance(module, ScriptFunction):
        type_ = module_type_of_graph(
            None, CompiledFunction("forward", module.schema, module.graph.copy())
        )
        module = ScriptModule(type_)
    references = References()
    root = _Values().instance(module, module._type)
    code = print_library(module._type, references)
    extra = {
        name: data.encode() if isinstance(data, str) else data
        for name, data in (extra_files or {}).items()
    }
    constants = tuple(numbered(value) for value in references.constants)
    write_container(Contents(root, code, constants, extra), file)


def load(
    file: File,
    device: torch.device | str | None = None,
    extra_files: dict[str, Any] | None = None,
) -> ScriptModule:
    """Read a module that this package or torch.jit has saved.

    Args:
        file: a path, or a file that is open for reading bytes.
        device: where tensors are put; None puts them where they were saved.
        extra_files: names of further contents; their values are filled in, as bytes.

    Raises:
        ArchiveError: the file is damaged, or names what the format does not admit.
        ScriptError: its code is not in the language.
    """
    place = None if device is None else torch.device(device)
    contents = read_container(file, place)
    for name in extra_files or {}:
        if extra_files is not None and name in contents.extra_files:
            extra_files[name] = contents.extra_files[name]
    library = CodeLibrary(contents.code, contents.constants, contents.version)
    return _Loader(library).module(contents.root)


class _Values:
    """Makes data of a module: each module and object once, containers with their types."""

    def __init__(self) -> None:
        self._made: dict[int, Instance] = {}

    def instance(self, module: Any, type_: ModuleType) -> Instance:
        """Return the attributes of a module, or of another object, as data."""
        if id(module) not in self._made:
            made = self._made[id(module)] = Instance(class_name_of(type_.name), {})
            for name, slot in type_.slots.items():
                made.state[name] = self.value(getattr(module, name), slot.type)
            for name in type_.modules:
                made.state[name] = self.instance(getattr(module, name), type_.modules[name])
        return self._made[id(module)]

    def value(self, value: Any, type_: Type) -> Any:
        """Return a value as data, its containers with the types that they have."""
        if isinstance(type_, OptionalType):
            return None if value is None else self.value(value, type_.element)
        match type_of(value) if isinstance(type_, UnionType) else type_:
            case ListType(element):
                items = [self.value(item, element) for item in value]
                return TypedContainer(items, annotation_text(type_), value)
            case DictType(_, element):
                pairs = {k: self.value(v, element) for k, v in value.items()}
                return TypedContainer(pairs, annotation_text(type_), value)
            case TupleType(elements):
                return tuple(map(self.value, value, elements))
            case ClassType(_, ModuleType() as owner):
                return self.instance(value, owner)
            case EnumType(name):
                return Member(class_name_of(name), value.value)
        return numbered(value)


def print_library(type_: ModuleType, references: References) -> dict[str, str]:
    """Return the texts of a module type, and of all that they refer to, by their files' paths."""
    files: dict[str, list[str]] = defaultdict(list)
    printed: set[str] = set()
    references.types[class_name_of(type_.name)] = type_.class_type
    while True:
        named = {**references.types, **references.functions, **references.texts}
        waiting = [name for name in named if name not in printed]
        if not waiting:
            return {path: "".join(texts) for path, texts in files.items()}
        for name in waiting:
            printed.add(name)
            path = name.rpartition(".")[0].replace(".", "/")
            files[path].append(_definition(name, named[name], references))


def _definition(name: str, object: Any, references: References) -> str:
    match object:
        case ClassType(_, ModuleType() as type_):
            return _class(type_, references)
        case TupleType():
            return _named_tuple(object, references)
        case EnumType():
            return _enumeration(object)
        case str():
            return object
        case ClassType():
            raise ArchiveError(f"objects of class {name} cannot be saved in an archive")
    return print_code(object.graph, object.schema, references=references, name=_last(name))


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _named_tuple(type_: TupleType, references: References) -> str:
    fields = zip(type_.names or (), type_.elements, strict=True)
    lines = [f"  {name} : {references.annotation(element)}" for name, element in fields]
    return "\n".join([f"class {_last(type_.name or '')}(NamedTuple):", *lines]) + "\n"


def _enumeration(type_: EnumType) -> str:
    values = {member.name: literal_text(member.value) for member in type_.python_class or ()}
    if None in values.values():
        raise ArchiveError(
            f"the values of the members of {type_.name} cannot be saved in an archive"
        )
    lines = [f"  {name} = {text}" for name, text in values.items()]
    return "\n".join([f"class {_last(type_.name)}(Enum):", *lines]) + "\n"


def _class(type_: ModuleType, references: References) -> str:
    """Return a type of modules or objects as a class, with the methods that are compiled."""
    lines = [f"class {_last(type_.name)}{'(Module)' * type_.is_module}:"]
    for kind in ("parameter", "buffer") if type_.is_module else ():
        names = [name for name, slot in type_.slots.items() if slot.kind == kind]
        lines.append(f"  __{kind}s__ = [{_quoted(names)}]")
    for key, hooks in (("pre_hooks", type_.hooks_before), ("hooks", type_.hooks_behind)):
        if names := [name for name in hooks if name in [*type_.methods]]:
            lines.append(f"  __forward_{key}__ = [{_quoted(names)}]")
    for name, slot in type_.slots.items():
        lines.append(_declaration(name, references.annotation(slot.type)))
    for name, module in type_.modules.items():
        lines.append(_declaration(name, references.annotation(module.class_type)))
    for name, value in type_.constants.items():
        text = literal_text(value)
        if text is not None:
            annotation = references.annotation(type_of(numbered(value)))
            lines.append(f"  {name} : Final[{annotation}] = {text}")
    methods = [
        print_code(
            method.graph,
            method.schema,
            references=references,
            is_method=True,
            self_type=class_name_of(type_.name),
            name=name,
        )
        for name, method in sorted(type_.methods.items(), key=lambda item: item[0] != "forward")
    ]
    body = "".join(f"  {line}\n" for text in methods for line in text.splitlines())
    return "\n".join(lines) + "\n" + body


def _quoted(names: list[str]) -> str:
    return "".join(f'"{name}", ' for name in names)


def _declaration(name: str, annotation: str) -> str:
    if name.isidentifier():
        return f"  {name} : {annotation}"
    return f'  __annotations__["{name}"] = {annotation}'


class _Loader:
    """Makes modules and objects of data, each once."""

    def __init__(self, library: CodeLibrary) -> None:
        self.library = library
        self._made: dict[int, ScriptModule] = {}
        self._objects: dict[int, Any] = {}

    def module(self, data: Instance) -> ScriptModule:
        """Return the module that data describe."""
        if id(data) in self._made:
            return self._made[id(data)]
        type_ = self.library.module_type(data.class_name)
        made = self._made[id(data)] = ScriptModule(type_)
        for name, value in data.state.items():
            self._set(made, name, value)
        return made

    def _set(self, module: ScriptModule, name: str, value: Any) -> None:
        if isinstance(value, Instance) and self.library.module_type(value.class_name).is_module:
            module._modules[name] = self.module(value)
            return
        value = self._value(value)
        slot = module._type.slots.get(name)
        kind = "attribute" if slot is None else slot.kind
        if kind == "parameter" and isinstance(value, torch.Tensor):
            # The very tensor, since other names and lists may hold it, becomes the parameter.
            value.__class__ = torch.nn.Parameter
            module.register_parameter(name, cast(torch.nn.Parameter, value))
        elif kind == "buffer":
            module._buffers[name] = value
        else:
            object.__setattr__(module, name, value)

    def _value(self, data: Any) -> Any:
        """Return a value with objects in the place of their data, containers as they are."""
        match data:
            case Instance():
                return self._object(data)
            case Member():
                return self.library.enumeration(data.class_name)(data.value)
            case list():
                data[:] = map(self._value, data)
            case dict():
                data.update({key: self._value(part) for key, part in data.items()})
            case tuple():
                return tuple(map(self._value, data))
        return data

    def _object(self, data: Instance) -> Any:
        if id(data) not in self._objects:
            type_ = self.library.module_type(data.class_name)
            made: Any = object.__new__(type_.python_class)
            self._objects[id(data)] = made
            for name, value in data.state.items():
                setattr(made, name, self._value(value))
        return self._objects[id(data)]


def _code(function: ScriptFunction) -> str:
    name = _last(function.name)
    return print_code(function.graph, function.schema, is_method=function.is_method, name=name)


CODE_PRINTERS.append(_code)
