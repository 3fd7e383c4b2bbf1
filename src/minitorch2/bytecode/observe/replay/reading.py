"""A folder -> a call that can be made."""

from __future__ import annotations
import __future__

import importlib
import itertools
import json
import linecache
import logging
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from minitorch2.bytecode.observe.replay.plain import FORMAT, SIMPLE_NAMES, Plain, ReplayError, found
from minitorch2.native.cpython.library import slot_names

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class SavedCall:
    """A call that was read from a folder."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def load_call(folder: str | Path) -> SavedCall:
    """Return the function and the arguments of a folder. Runs the folder's program.

    Raises:
        ReplayError: the folder is of another format, or names an object that is not installed.
    """
    path = Path(folder)
    call = json.loads((path / "call.json").read_text(encoding="utf-8"))
    if call.get("format") != FORMAT:
        raise ReplayError(f"{path} is of another format than {FORMAT}", fix="save it again")
    reader = Reader(path, call["objects"])
    for step in call["steps"]:
        reader.step(step)
    args = tuple(map(reader.value, call["args"]))
    kwargs = {name: reader.value(value) for name, value in call["kwargs"].items()}
    return SavedCall(reader.value(call["function"]), args, kwargs)


class Reader:
    """Makes the objects of a call, each once."""

    def __init__(self, folder: Path, objects: list[Plain]) -> None:
        self._folder = folder
        self._objects = objects
        self._made: dict[int, Any] = {}
        self._tensors = torch.load(folder / "tensors.pt", weights_only=True)
        self._scopes: dict[str, dict[str, Any]] = {}

    def step(self, step: Plain) -> None:
        """Define or bind something."""
        ((kind, content),) = step.items()
        if kind == "define":
            self._define(*content)
        else:
            file, name, value = content
            self._scope(file)[name] = self.value(value)

    def _scope(self, file: str) -> dict[str, Any]:
        """Return the names of a file, which is its own module: dataclasses look for theirs."""
        if file not in self._scopes:
            module = ModuleType(f"replayed_{next(_NUMBERS)}")
            module.__file__ = str(self._folder / file)
            linecache.checkcache(module.__file__)
            sys.modules[module.__name__] = module
            self._scopes[file] = vars(module)
        return self._scopes[file]

    def _define(self, file: str, first: int, last: int) -> None:
        scope = self._scope(file)
        lines = Path(scope["__file__"]).read_text(encoding="utf-8").splitlines()[first - 1 : last]
        text = "\n" * (first - 1) + "\n".join(lines)
        flags = __future__.annotations.compiler_flag
        exec(compile(text, scope["__file__"], "exec", flags, dont_inherit=True), scope)

    def value(self, plain: Plain) -> Any:
        """Return the value that was written as this JSON."""
        if not isinstance(plain, dict):
            return plain
        number = plain["at"]
        if number not in self._made:
            ((kind, content),) = self._objects[number].items()
            self._made[number] = self._make(number, kind, content)
        return self._made[number]

    def _make(self, number: int, kind: str, content: Any) -> Any:
        if kind in SIMPLE_NAMES:
            return SIMPLE_NAMES[kind](*map(self.value, content))
        return _MAKERS[kind](self, number, content)

    def _tensor(self, number: int, content: Any) -> Any:
        name, kind, requires_grad = content
        tensor = self._tensors[name]
        if kind != "Tensor":
            tensor = getattr(torch.nn, kind)(tensor)
        return tensor.requires_grad_(requires_grad)

    def _numpy(self, number: int, content: Any) -> Any:
        tensor, is_array = content
        array = self.value(tensor).numpy()
        return array if is_array else array[()]

    def _list(self, number: int, content: Any) -> Any:
        made = self._made[number] = []
        made.extend(map(self.value, content))
        return made

    def _dict(self, number: int, content: Any) -> Any:
        made = self._made[number] = {}
        made.update(map(self.value, content))
        return made

    def _ordered_dict(self, number: int, content: Any) -> Any:
        made = self._made[number] = OrderedDict()
        made.update(map(self.value, content))
        return made

    def _instance(self, number: int, content: Any) -> Any:
        """Return an object as it was, without calling its `__init__`."""
        kind = self.value(content[0])
        base = next((base for base in kind.__mro__ if base in _FILLERS), object)
        items = self.value(content[1]) if base is tuple else ()
        made = self._made[number] = base.__new__(kind, *([items] if base is tuple else []))
        if base in _FILLERS and base is not tuple:
            _FILLERS[base](made, self.value(content[1]))
        slots = set(slot_names(kind))
        for name, value in self.value(content[2]).items():
            if name in slots:
                object.__setattr__(made, name, value)
            else:
                made.__dict__[name] = value
        return made

    def _module(self, number: int, content: str) -> Any:
        return importlib.import_module(content)

    def _logger(self, number: int, content: str) -> Any:
        return logging.getLogger(content)

    def _name(self, number: int, content: str) -> Any:
        return found(content)

    def _defined(self, number: int, content: Any) -> Any:
        file, name = content
        return self._scope(file)[name]

    def _attribute(self, number: int, content: Any) -> Any:
        owner, name = content
        return getattr(self.value(owner), name)

    def _namedtuple(self, number: int, content: Any) -> Any:
        name, fields = content
        return namedtuple(name, self.value(fields))

    def _class(self, number: int, content: Any) -> Any:
        file, maker, cells = content
        return self._scope(file)[maker](*map(self.value, cells))

    def _function(self, number: int, content: Any) -> Any:
        file, name, cells, defaults, kwdefaults = content
        made = self._scope(file)[name]
        if cells:
            parameters = made.__code__.co_varnames
            made = self._made[number] = made(*[None] * len(cells))  # it may close over itself
            values = dict(zip(parameters, cells, strict=False))
            for free, cell in zip(made.__code__.co_freevars, made.__closure__, strict=True):
                cell.cell_contents = self.value(values[free])
        self._made[number] = made
        made.__defaults__, made.__kwdefaults__ = self.value(defaults), self.value(kwdefaults)
        return made


_FILLERS: Final[dict[type, Callable[..., Any]]] = {
    OrderedDict: OrderedDict.update,
    dict: dict.update,
    list: list.extend,
    tuple: tuple,
}
_MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "tensor": Reader._tensor, "numpy": Reader._numpy, "list": Reader._list, "dict": Reader._dict,
    "OrderedDict": Reader._ordered_dict, "instance": Reader._instance, "name": Reader._name,
    "defined": Reader._defined, "attribute": Reader._attribute, "function": Reader._function,
    "class": Reader._class, "module": Reader._module, "logger": Reader._logger,
    "namedtuple": Reader._namedtuple,
}  # fmt: skip
