"""A call -> a folder.

    call.json ::= {"format", "function", "args", "kwargs", "steps", "objects"}
    step      ::= {"define": [file, first line, last line]}   run this part of a file
               |  {"bind": [file, name, plain]}               the value of a name of the file
    object    ::= ... of `plain`, and
                  {"tensor": [name, class, requires_grad]}  |  {"list" | "dict" | ...: [...]}
               |  {"instance": [class, parts of its base, state]}
               |  {"module": name}  |  {"logger": name}
               |  {"name": "package.module.name"}           an object of an installed package
               |  {"defined": [file, name]}                 a class or a plain function of a file
               |  {"function": [file, name, cells, defaults, defaults of keywords]}
               |  {"class": [file, name, cells]}             made of them by a function of the file
               |  {"attribute": [object, name]}             a method, a member of an Enum

Names that a class or a decorated function needs while it is defined are defined before it. Names
that functions read when they run are bound after all of them are there.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from textwrap import indent
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from minitorch2.bytecode.dispatch import original_of
from minitorch2.bytecode.frames.skip_files import SITE_PACKAGES, is_skipped_file
from minitorch2.bytecode.observe.replay import texts
from minitorch2.bytecode.observe.replay.plain import (
    CONSTANTS,
    FILLED,
    FORMAT,
    SIMPLE,
    Plain,
    ReplayError,
)
from minitorch2.foundation.generated_code import TWIN
from minitorch2.graph.names import qualified_name
from minitorch2.native.cpython.library import slot_names

_FIX = "call a function of tensors, constants, modules and plain objects that makes it itself"
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass
class _File:
    """One of the program's files: lines of text, and its names."""

    name: str
    scope: dict[str, Any]
    lines: list[str] = field(default_factory=lambda: ["from __future__ import annotations"])
    taken: set[str] = field(default_factory=set)

    def add(self, text: str) -> Plain:
        """Append a text; return the step that runs it."""
        self.lines += ["", ""]
        first = len(self.lines) + 1
        self.lines += text.splitlines()
        return {"define": [self.name, first, len(self.lines)]}

    def new_name(self, wanted: str, thing: object) -> str:
        """Return a name for a definition: its own, unless another object has that name here."""
        name, number = wanted, 0
        while name in self.taken or _original(self.scope.get(name, thing)) is not thing:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name


class Writer:
    """Collects the definitions and values that a call needs."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.objects: list[Plain] = []
        self.steps: list[Plain] = []
        self._files: dict[int, _File] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        self._bound: set[tuple[str, str]] = set()
        self._late: list[Callable[[], None]] = []

    @property
    def files(self) -> dict[str, str]:
        """The text of each file."""
        return {file.name: "\n".join(file.lines) + "\n" for file in self._files.values()}

    def finish(self) -> None:
        """Bind the names that functions read when they run."""
        while self._late:
            self._late.pop(0)()

    def value(self, value: Any) -> Plain:
        """Return a value as JSON.

        Raises:
            ReplayError: it has no such form.
        """
        if type(value) in CONSTANTS:
            return value
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.objects)
            self._kept.append(value)  # so that its id stays its own
            self.objects.append(None)
            self.objects[self._numbers[id(value)]] = self._object(value)
        return {"at": self._numbers[id(value)]}

    def _values(self, values: Iterable[Any]) -> list[Plain]:
        return [self.value(value) for value in values]

    def _object(self, value: Any) -> Plain:
        kind = type(value)
        if kind in _TENSORS:
            return {"tensor": [self._tensor(value), kind.__name__, value.requires_grad]}
        if kind in SIMPLE:
            return {kind.__name__: self._values(SIMPLE[kind][0](value))}
        if kind in FILLED:
            return {kind.__name__: self._values(_parts(value))}
        if isinstance(value, np.ndarray | np.generic):
            return {"numpy": [self.value(torch.from_numpy(np.asarray(value))), kind is np.ndarray]}
        if isinstance(value, Enum):
            return {"attribute": [self.value(kind), value.name]}
        if isinstance(value, logging.Logger):
            return {"logger": value.name}
        if isinstance(value, ModuleType):
            return {"module": value.__name__}
        if isinstance(value, MethodType):
            return {"attribute": [self.value(value.__self__), value.__func__.__name__]}
        if isinstance(value, BuiltinMethodType) and isinstance(value.__self__, torch.Tensor):
            return {"attribute": [self.value(value.__self__), value.__name__]}
        if isinstance(value, type | FunctionType | BuiltinFunctionType) or hasattr(
            value, "__wrapped__"
        ):
            return self._definition(value)
        return self._instance(value)

    def _tensor(self, value: torch.Tensor) -> str:
        name = f"tensor{len(self.tensors)}"
        self.tensors[name] = value.detach()
        return name

    # Instances -----------------------------------------------------------------------------------

    def _instance(self, value: Any) -> Plain:
        """Write an object by its class and its attributes."""
        kind = type(value)
        if TWIN in vars(kind):  # of a compiled module
            kind = kind.__mro__[1]
        name = _installed_name(value)
        if name is not None:  # such as an operator
            return {"name": name}
        try:
            if isinstance(value, torch.Tensor):
                raise TypeError("a tensor of a class of its own")
            object.__reduce_ex__(value, 2)  # refuses objects whose state only C code knows
        except TypeError as error:
            cause = f"a {kind.__qualname__} cannot be kept in a folder: {error}"
            raise ReplayError(cause, fix=_FIX) from error
        state = dict(getattr(value, "__dict__", {}))
        slots: Iterable[str] = slot_names(kind)
        state |= {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)}
        bases = (*FILLED, tuple)
        items = list(_parts(value)) if isinstance(value, bases) else None
        return {"instance": [self.value(kind), self.value(items), self.value(state)]}

    # Functions and classes -----------------------------------------------------------------------

    def _definition(self, value: Any) -> Plain:
        value = _original(value)
        name = _installed_name(value)
        if name is not None:
            return {"name": name}
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, FunctionType) and not _is_library(value):
            return self.function(value)
        wrapped = inspect.unwrap(value)
        if isinstance(wrapped, FunctionType) and not _is_library(wrapped):
            return self._decorated(value, wrapped)
        cause = f"{getattr(value, '__qualname__', value)!r} cannot be kept in a folder"
        raise ReplayError(cause, fix=_FIX)

    def function(self, function: FunctionType) -> Plain:
        """Write the text of a function without its decorators, and of all that it names."""
        method = self._method(function)
        if method is not None:
            return method
        file, cells = self._file_of(function), _cells_of(function)
        definition = texts.definition_of(function)
        texts.without_defaults(definition)
        wanted = function.__name__ if function.__name__.isidentifier() else "function"
        name = file.new_name(wanted, function)
        text = _text(definition, name)
        self._need(file, text, cells)
        if cells:
            name = self._define_maker(file, text, name, cells)
        else:
            self._define(file, text)
        given = self._values(cells.values())
        defaults = self.value(function.__defaults__), self.value(function.__kwdefaults__)
        return {"function": [file.name, name, given, *defaults]}

    def _method(self, function: FunctionType) -> Plain | None:
        """Write a function that a class of the program defines; None for other functions."""
        owner, _, name = function.__qualname__.rpartition(".")
        value: Any = function.__globals__.get(owner.partition(".")[0])
        for part in owner.split(".")[1:]:
            value = getattr(value, part, None)
        if isinstance(value, type) and inspect.getattr_static(value, name, None) is function:
            return {"attribute": [self.value(value), name]}
        return None

    def _decorated(self, value: Any, wrapped: FunctionType) -> Plain:
        """Write a function decorated by an installed package: the text names the decorator."""
        file, cells = self._file_of(wrapped), _cells_of(wrapped)
        name = file.new_name(wrapped.__name__, value)
        definition = texts.definition_of(wrapped)
        text = ast.unparse(_renamed(definition, name))
        self._need(file, text, cells)
        if cells:
            maker = self._define_maker(file, text, name, cells)
            return {"class": [file.name, maker, self._values(cells.values())]}
        self._define(file, text)
        return {"defined": [file.name, name]}

    def _class(self, kind: type) -> Plain:
        if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
            return {"namedtuple": [kind.__name__, self.value(list(kind._fields))]}
        module = inspect.getmodule(kind)
        methods = [member for member in map(_function_in, vars(kind).values()) if member]
        scope = methods[0].__globals__ if methods else vars(module) if module else {}
        file = self._file(scope)
        cells: dict[str, Any] = {}
        for method in methods:
            cells |= {n: cell for n, cell in _cells_of(method).items() if n != "__class__"}
        text = ast.unparse(texts.definition_of(kind))
        self._need(file, text, cells, {base.__name__: base for base in kind.__mro__[1:]})
        name = file.new_name(kind.__name__, kind)
        if not cells and name == kind.__name__:
            self._define(file, text)
            return {"defined": [file.name, name]}
        maker = self._define_maker(file, text, kind.__name__, cells)
        return {"class": [file.name, maker, self._values(cells.values())]}

    def _define(self, file: _File, text: str) -> None:
        self.steps.append(file.add(text))

    def _define_maker(self, file: _File, text: str, name: str, cells: Mapping[str, Any]) -> str:
        """Define a function that makes a closure of given cells; return its name."""
        maker = file.new_name(f"make_{name}", None)
        body = indent(f"{text}\nreturn {name}", "    ")
        self._define(file, f"def {maker}({', '.join(cells)}):\n{body}")
        return maker

    def _need(
        self,
        file: _File,
        text: str,
        cells: Mapping[str, Any],
        bases: Mapping[str, Any] | None = None,
    ) -> None:
        """Bind the names that a text reads: now those that defining it reads, the others late."""
        early, late = texts.names_read(text)
        known = {**(bases or {}), **file.scope}
        for name in sorted((early | late) - cells.keys()):
            if name not in known:
                if name in early and not hasattr(builtins, name):
                    raise ReplayError(f"{name} is not known where {text.splitlines()[0]} stands")
                continue
            if name in early:
                self._bind(file, name, known[name])
            else:
                self._late.append(partial(self._bind, file, name, known[name]))

    def _bind(self, file: _File, name: str, value: object) -> None:
        if (file.name, name) not in self._bound:
            self._bound.add((file.name, name))
            self.steps.append({"bind": [file.name, name, self.value(value)]})

    def _file_of(self, function: FunctionType) -> _File:
        return self._file(function.__globals__)

    def _file(self, scope: dict[str, Any]) -> _File:
        number = len(self._files)
        name = f"program{number or ''}.py"
        return self._files.setdefault(id(scope), _File(name, scope))


def _original(value: Any) -> Any:
    """Return the user's function behind a compiled one."""
    return original_of(value) if isinstance(value, FunctionType) else value


def _parts(value: Any) -> Iterable[Any]:
    """Return the elements of a list or a tuple, or the pairs of a dict."""
    return dict(value).items() if isinstance(value, dict) else value


def _text(definition: texts.Definition, name: str) -> str:
    if isinstance(definition, ast.Lambda):
        return f"{name} = {ast.unparse(definition)}"
    definition.decorator_list = []
    return ast.unparse(_renamed(definition, name))


def _renamed(definition: texts.Definition, name: str) -> texts.Definition:
    if not isinstance(definition, ast.Lambda):
        definition.name = name
    return definition


def _cells_of(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a closure closes over, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells}


def _function_in(member: Any) -> FunctionType | None:
    """Return the function in a member of a class."""
    if isinstance(member, property):
        member = member.fget
    member = inspect.unwrap(getattr(member, "__func__", member))
    return member if isinstance(member, FunctionType) and not _is_library(member) else None


def _is_library(thing: FunctionType | type) -> bool:
    """Return whether a function or class comes with Python or an installed package."""
    try:
        file = inspect.getfile(thing)
    except (TypeError, OSError):  # of C code
        return True
    return "site-packages" in file or file.startswith(SITE_PACKAGES) or is_skipped_file(file)


def _installed_name(value: Any) -> str | None:
    """Return the name by which another machine finds an object of an installed package."""
    if isinstance(value, FunctionType | type) and not _is_library(value):
        return None
    return qualified_name(value) if callable(value) else None


def save_call(
    function: Callable[..., Any], folder: str | Path, *args: object, **kwargs: object
) -> Path:
    """Keep a call of a function, a method, a module or a callable object in a folder.

    The folder holds all that the call needs: your functions, classes and lambdas as text, tensors
    as data, objects by their classes and attributes. Objects of packages are saved by name.
    `replay` captures the call again.

    Raises:
        ReplayError: the call needs an object that cannot be saved: state of C code or of the
            system, a tensor of a class of its own, a function without a text.
    """
    writer = Writer()
    if isinstance(function, FunctionType):
        function = inspect.unwrap(original_of(function))
    call = {
        "format": FORMAT,
        "function": writer.value(function),
        "args": [writer.value(value) for value in args],
        "kwargs": {name: writer.value(value) for name, value in kwargs.items()},
    }
    writer.finish()
    call |= {"steps": writer.steps, "objects": writer.objects}
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    for name, text in writer.files.items():
        (path / name).write_text(text, encoding="utf-8")
    (path / "call.json").write_text(json.dumps(call, indent=1), encoding="utf-8")
    torch.save(writer.tensors, path / "tensors.pt")
    return path
