"""Guards as text, to be kept beside what was compiled and asked again in another process.

    guards  ->  {"format": 1, "torch": "2.13.0", "guards": [{"TensorMatch": {...}}, ...],
                 "references": {...}}

It is JSON: numbers, strings, and small tagged records. Classes, functions and modules are written
by their qualified names; nothing is pickled, and reading runs no code but the import of modules.
What has no portable name (a local function, an arbitrary object) cannot be written.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from minitorch2.bytecode.guards.guard import Guard
from minitorch2.bytecode.guards.tensors import TensorMetadata
from minitorch2.bytecode.guards.values import ConstantMatch, Held, hold
from minitorch2.bytecode.sources import ReferenceSource, Source
from minitorch2.errors import MinitorchError
from minitorch2.graph.node import SourceLine

FORMAT = 1

Plain = Any
"""What JSON can hold."""


class NotPortableError(MinitorchError):
    """A guard looks at something that has no name in another process, or the text is of another
    version of PyTorch, whose dispatch keys mean something else."""


@dataclass(frozen=True)
class PortableGuards:
    """Guards read back from text, ready for `compile_guards`.

    Attributes:
        guards: as they were written.
        references: the objects behind the names of `ReferenceSource`.
    """

    guards: tuple[Guard, ...]
    references: dict[str, object]


def write_guards(guards: Iterable[Guard], references: Mapping[str, object] | None = None) -> str:
    """The text of guards.

    Args:
        references: the objects behind the names of `ReferenceSource`.

    Raises:
        NotPortableError: a guard cannot be asked in another process.
    """
    guards = tuple(guards)
    roots = {source.root() for guard in guards for source in guard.sources()}
    names = {root.name for root in roots if isinstance(root, ReferenceSource)}
    used = {name: _encode((references or {})[name]) for name in sorted(names)}
    content = {
        "format": FORMAT,
        "torch": torch.__version__,
        "guards": [_encode(guard) for guard in guards],
        "references": used,
    }
    return json.dumps(content, indent=1)


def read_guards(text: str) -> PortableGuards:
    """The guards of a text.

    Raises:
        NotPortableError: it is of another format or version of PyTorch, or names something that is
            not there.
    """
    content = json.loads(text)
    wrote, here = (content["format"], content["torch"]), (FORMAT, torch.__version__)
    if wrote != here:
        raise _refused(f"the guards are of format and PyTorch {wrote}, here is {here}")
    guards = tuple(_decode(guard) for guard in content["guards"])
    return PortableGuards(guards, {n: _decode(v) for n, v in content["references"].items()})


def _refused(cause: str) -> NotPortableError:
    return NotPortableError(cause, code="not-portable")


# Writing ------------------------------------------------------------------------------------------


def _encode(value: object) -> Plain:
    if value is None or type(value) in (bool, int, str):
        return value
    for kind, (write, _) in _VALUES.items():
        if type(value) is kind:
            return {kind.__name__: write(value)}
    if isinstance(value, Held):
        return {"Held": _encode(value.get())}
    if isinstance(value, Guard | Source | TensorMetadata | SourceLine):
        return {type(value).__name__: _encode_fields(value)}
    if _is_namespace(value):
        return {"globals": value["__name__"]}  # type: ignore[index]
    return {"object": name_of(value)}


def _encode_fields(value: Any) -> dict[str, Plain]:
    if isinstance(value, ConstantMatch):
        return {"source": _encode(value.source), "value": _encode(value.value)}
    return {f.name: _encode(getattr(value, f.name)) for f in fields(value) if f.init}


_VALUES: dict[type, tuple[Callable[[Any], Plain], Callable[[Any], object]]] = {
    float: (float.hex, float.fromhex),
    complex: (lambda z: [z.real.hex(), z.imag.hex()], lambda z: complex(*map(float.fromhex, z))),
    bytes: (bytes.hex, bytes.fromhex),
    tuple: (lambda t: [_encode(x) for x in t], lambda t: tuple(map(_decode, t))),
    frozenset: (lambda s: sorted(map(_encode, s), key=repr), lambda s: frozenset(map(_decode, s))),
    torch.Size: (list, torch.Size),
    torch.dtype: (lambda d: str(d).removeprefix("torch."), lambda name: getattr(torch, name)),
    torch.layout: (lambda d: str(d).removeprefix("torch."), lambda name: getattr(torch, name)),
    torch.device: (str, torch.device),
    type(...): (lambda _: None, lambda _: ...),
}
"""For each type of plain values: how it is written, and how it is read."""


def _is_namespace(value: object) -> bool:
    """Whether a dict is the globals of a module."""
    if type(value) is not dict:
        return False
    module = _imported(str(value.get("__name__")))
    return module is not None and module.__dict__ is value


def name_of(value: object) -> str:
    """The name by which another process finds an object: ``"torch.nn.functional:relu"``.

    Raises:
        NotPortableError: no name leads to it.
    """
    if isinstance(value, ModuleType):
        names = [f"{value.__name__}:"]
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        module = value.__module__ or "builtins"
        names = [f"{module}:{value.__qualname__}", f"{module}:{value.__name__}"]
    else:
        raise _refused(f"a guard compares with an object of {type(value).__qualname__}")
    found = next((name for name in names if _find(name) is value), None)
    if found is None:
        raise _refused(f"{names[0]} is not the name of {value!r}")
    return found


# Reading ------------------------------------------------------------------------------------------


def _decode(plain: Plain) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((tag, content),) = plain.items()
    for kind, (_, read) in _VALUES.items():
        if tag == kind.__name__:
            return read(content)
    match tag:
        case "Held":
            return hold(_decode(content))
        case "globals":
            return _found(content + ":").__dict__
        case "object":
            return _found(content)
        case _:
            return _decode_record(tag, content)


def _decode_record(tag: str, content: dict[str, Plain]) -> Any:
    cls = _classes().get(tag)
    if cls is None:
        raise _refused(f"there is no {tag}")
    values = {name: _decode(value) for name, value in content.items()}
    if cls is ConstantMatch:
        value = values["value"]
        return ConstantMatch(values["source"], type(value), repr(value), value)
    return cls(**values)


def _classes() -> dict[str, type]:
    """What records may stand for, by name."""
    found: dict[str, type] = {"TensorMetadata": TensorMetadata, "SourceLine": SourceLine}
    pending: list[type] = [Guard, Source]
    while pending:
        cls = pending.pop()
        found[cls.__name__] = cls
        pending += cls.__subclasses__()
    return found


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _find(name: str) -> object:
    module, _, path = name.partition(":")
    found: object = _imported(module)
    for part in path.split(".") if path else ():
        found = getattr(found, part, None)
    return found


def _found(name: str) -> Any:
    value = _find(name)
    if value is None:
        raise _refused(f"there is no {name} here")
    return value
