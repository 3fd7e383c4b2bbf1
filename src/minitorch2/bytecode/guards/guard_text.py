"""Prints the checks of guards as conditions in Python.

    CLASS, KEYS ["a", "b"]   -->   type(x) is dict; [*x] == ["a", "b"]

People read these conditions, and they are evaluated wherever the machine has no instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minitorch2.bytecode.guards.guard import Check
from minitorch2.bytecode.guards.shapes import ShapeCondition
from minitorch2.bytecode.guards.values import Held, the
from minitorch2.graph.scope import Scope
from minitorch2.graph.symbols import print_naming
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.dispatch import dispatch_keys

Name = Callable[[object], str]
"""Gives an object a name that only the guard function reads. A check names so the object that it
compares with, and the builtins it calls, which the user's module may have redefined."""


class Constants:
    """The objects that a text names; each has a literal, or else a name of its own in `scope`."""

    def __init__(self, scope: Scope) -> None:
        self.named: dict[str, object] = {}
        self._scope = scope
        self._names: dict[int, str] = {}

    def name(self, value: object) -> str:
        """Return the literal or the name of an object."""
        if type(value) in (int, str, bytes, bool, type(None)) or value is Ellipsis:
            return repr(value)
        if id(value) not in self._names:
            hint = getattr(value, "__name__", type(value).__name__)
            self._names[id(value)] = self._scope.fresh(f"_{hint}_{len(self._names)}")
            self.named[self._names[id(value)]] = value
        return self._names[id(value)]


def print_reading(check: Check, paths: Sequence[str], name: Name) -> str:
    """Return the expression of a property's present value, given one for each of the values."""
    x = paths[0] if paths else ""
    match check.op:
        case Op.CLASS:
            return f"{name(type)}({x})"
        case Op.RUNS:
            return f"{x}.__code__"
        case Op.LENGTH:
            return f"{name(len)}({x})"
        case Op.KEYS:
            return f"[*{x}]"
        case Op.CONTAINS:
            return f"({name(check.of)} in {x})"
        case Op.EMPTY:
            return f"{x}[{check.of!r}]"
        case Op.SAME:
            return f"({x} is {paths[1]})"
        case Op.DISTINCT:
            of = "{}.untyped_storage()._cdata" if check.of == "storages" else f"{name(id)}({{}})"
            return f"{name(len)}({{{', '.join(map(of.format, paths))}}})"
        case Op.STATE:
            return f"{name(check.of)}()"
        case Op.PYTHON:
            function, *arguments = check.of
            return f"{name(function)}({', '.join([*paths, *map(name, arguments)])})"
        case Op.WORDS:
            return _print_metadata(check.of, x, name)
        case Op.CONTIGUOUS:
            return f"{x}.is_contiguous()"
        case Op.AGREE:
            return _print_sizes(check.of, paths)
    return x


def print_condition(check: Check, paths: Sequence[str], name: Name) -> str:
    """Return the expression that is true if a check holds."""
    condition = _print_comparison(check, paths, name)
    return f"{name(check.unless.is_unchanged)}() or {condition}" if check.unless else condition


def _print_comparison(check: Check, paths: Sequence[str], name: Name) -> str:
    now, known = print_reading(check, paths, name), check.known
    match check.op:
        case Op.IS | Op.CLASS | Op.RUNS:
            return _print_identical(now, known, name)
        case Op.EQUAL:
            return f"{name(type)}({now}) is {name(type(known))} and {now} == {name(known)}"
        case Op.EMPTY:
            return f"not {now}"
        case Op.AGREE:
            symbols = (symbol for symbol, _ in check.of.symbols)
            return print_naming(check.of.condition, dict(zip(symbols, paths, strict=True)), name)
    if isinstance(known, bool):
        return now if known else f"not {now}"
    return f"{now} == {name(known)}"


def _print_identical(now: str, known: object, name: Name) -> str:
    if not isinstance(known, Held):
        return f"{now} is {name(known)}"
    if known.is_weak:
        return f"{name(id)}({now}) == {known.identity}"
    return f"{now} is {name(known.get())}"


def _print_metadata(of: str | int, path: str, name: Name) -> str:
    if isinstance(of, int):
        return f"{path}.shape[{of}]"
    if of == "dispatch_keys":
        return f"{name(dispatch_keys)}({path}).raw_repr()"
    return f"{path}.stride()" if of == "stride" else f"{path}.{of}"


def _print_sizes(guard: ShapeCondition, paths: Sequence[str]) -> str:
    """Return the expression of a text that names the guard's sizes and their values."""
    sources = (str(source).replace("{", "{{").replace("}", "}}") for source in guard.sources())
    shown = ", ".join(f"{source} = {{}}" for source in sources)
    return f"{shown!r}.format({', '.join(paths)})"


def show(check: Check, value: Any) -> str:
    """Return the text of a property's value for people."""
    is_object = check.op in (Op.IS, Op.RUNS, Op.EQUAL)
    value = tuple(value) if isinstance(value, torch.Size) else value  # as sizes are kept
    try:
        text = repr(the(value)) if is_object else str(the(value))
    except Exception:  # noqa: BLE001 (the program's own `__repr__` may raise anything)
        text = object.__repr__(the(value))
    limit = 80 if check.op in (Op.IS, Op.RUNS) else 300  # a set of a library may hold thousands
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
