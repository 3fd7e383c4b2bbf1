"""A call as a folder: enough to capture it again elsewhere, for a report of a bug.

    folder ::= program.py    the text of the function and of the functions and classes it names
               tensors.pt    tensors, loadable with `weights_only=True`
               call.json     the function's name, its arguments and the constants it reads

Code is kept as text and data as data: nothing is pickled. Replaying runs the text, so read what
others send before replaying it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import linecache
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from minitorch2 import syntax_tree
from minitorch2.errors import MinitorchError

_CONSTANTS = (bool, int, float, str, type(None))
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_SEQUENCES = {"list": list, "tuple": tuple}


class ReplayError(MinitorchError):
    """A call holds what a folder cannot: say which value, and what can be done."""

    default_code = "replay"


@dataclass
class _Writer:
    """Collects what a call needs."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)

    def value(self, value: object) -> Any:
        """A value as JSON: constants as they are, all else as ``{kind: content}``.

        Raises:
            ReplayError: a value of a class that has no such form.
        """
        if type(value) in _CONSTANTS:
            return value
        if isinstance(value, torch.Tensor) and type(value) in _TENSORS:
            return {"tensor": self._tensor(value), "requires_grad": value.requires_grad}
        for name, kind in _SEQUENCES.items():
            if type(value) is kind:
                return {name: [self.value(item) for item in value]}
        if type(value) is dict:
            return {"dict": [[self.value(k), self.value(v)] for k, v in value.items()]}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        raise ReplayError(
            f"a {type(value).__name__} cannot be kept in a folder",
            fix="call a function of tensors and constants that makes the object itself",
        )

    def _tensor(self, value: torch.Tensor) -> str:
        known = next((name for name, kept in self.tensors.items() if kept is value), None)
        name = known or f"tensor{len(self.tensors)}"
        self.tensors[name] = value
        return name

    def function(self, function: FunctionType) -> None:
        """The text of a function, and of all that it names."""
        self._text(function.__name__, function)
        for name in _names(function):
            if name in function.__globals__:
                self._global(name, function.__globals__[name])
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._global(name, cell.cell_contents)

    def _global(self, name: str, value: object) -> None:
        if name in self.texts or name in self.imports or name in self.constants:
            return
        if isinstance(value, ModuleType):
            self.imports[name] = value.__name__
        elif isinstance(value, FunctionType) and not _is_library(value):
            self.texts[name] = ""  # a function may name itself
            self.function(value)
        elif isinstance(value, FunctionType | type) or callable(value):
            self.imports[name] = f"{value.__module__}:{getattr(value, '__qualname__', name)}"
        else:
            self.constants[name] = self.value(value)

    def _text(self, name: str, function: FunctionType) -> None:
        (definition,) = syntax_tree.parse(textwrap.dedent(inspect.getsource(function))).body
        if not isinstance(definition, ast.FunctionDef):
            raise ReplayError(f"{name} has no text of its own", fix="write it with def")
        definition.decorator_list = []
        self.texts[name] = ast.unparse(definition)


def _names(function: FunctionType) -> Iterator[str]:
    """The globals that a function and the functions inside it may read."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        yield from code.co_names
        codes += [each for each in code.co_consts if isinstance(each, type(code))]


def _is_library(function: FunctionType) -> bool:
    """Whether a function comes with an installed package, so that its name is enough."""
    return "site-packages" in function.__code__.co_filename


def save_call(
    function: Callable[..., Any], folder: str | Path, *args: object, **kwargs: object
) -> Path:
    """Keep a call of a Python function in a folder that `replay` captures again.

    Raises:
        ReplayError: an argument, or a global that the function reads, is neither a tensor nor a
            constant nor a list, tuple or dict of them.
    """
    if not isinstance(function, FunctionType):
        raise ReplayError(f"{function!r} is no Python function", fix="wrap it in a function")
    original = inspect.unwrap(function)
    assert isinstance(original, FunctionType)
    writer = _Writer()
    call = {
        "function": original.__name__,
        "args": [writer.value(value) for value in args],
        "kwargs": {name: writer.value(value) for name, value in kwargs.items()},
    }
    writer.function(original)
    call |= {"imports": writer.imports, "constants": writer.constants}
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    text = "\n\n\n".join(writer.texts.values()) + "\n"
    (path / "program.py").write_text(text, encoding="utf-8")
    (path / "call.json").write_text(json.dumps(call, indent=1), encoding="utf-8")
    tensors = {name: value.detach() for name, value in writer.tensors.items()}
    torch.save(tensors, path / "tensors.pt")
    return path


@dataclass(frozen=True)
class SavedCall:
    """A call that was read from a folder."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def load_call(folder: str | Path) -> SavedCall:
    """The function and the arguments of a folder. Runs the folder's `program.py`."""
    path = Path(folder)
    call = json.loads((path / "call.json").read_text(encoding="utf-8"))
    read = _Reader(torch.load(path / "tensors.pt", weights_only=True))
    file = str(path / "program.py")
    text = (path / "program.py").read_text(encoding="utf-8")
    linecache.checkcache(file)
    scope: dict[str, Any] = {"__name__": "replayed", "__file__": file}
    scope |= {name: _imported(target) for name, target in call["imports"].items()}
    scope |= {name: read.value(value) for name, value in call["constants"].items()}
    exec(compile(text, file, "exec"), scope)
    args = tuple(read.value(value) for value in call["args"])
    kwargs = {name: read.value(value) for name, value in call["kwargs"].items()}
    return SavedCall(scope[call["function"]], args, kwargs)


class _Reader:
    """Values from JSON; one tensor that was passed twice is one tensor again."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self._tensors = tensors

    def value(self, saved: Any) -> Any:
        """The value that `_Writer.value` wrote."""
        if not isinstance(saved, dict):
            return saved
        if "tensor" in saved:
            return self._tensors[saved["tensor"]].requires_grad_(saved["requires_grad"])
        if "dtype" in saved:
            return getattr(torch, saved["dtype"])
        if "dict" in saved:
            return {self.value(key): self.value(value) for key, value in saved["dict"]}
        ((kind, items),) = saved.items()
        return _SEQUENCES[kind](self.value(item) for item in items)


def _imported(target: str) -> Any:
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in filter(None, path.split(".")):
        found = getattr(found, name)
    return found
