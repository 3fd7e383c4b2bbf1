"""The surroundings of a traced function: globals, closures, and all that they hold.

A trace holds operators only. If the function changes a list, a dict, an attribute or a global, the
change would happen once, while the trace is recorded. So what the function reaches is compared
before and after (PyTorch 2 paper, section 2.1).
"""

from __future__ import annotations

import dis
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import torch

from minitorch2.script.ir.python_constants import is_of_library

MOST_DEPTH: Final = 4
"""Containers in containers: further ones are not compared."""
MOST_ITEMS: Final = 10_000
"""Larger containers are compared by their lengths alone."""
PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
FIXED: Final = (ModuleType, FunctionType, BuiltinFunctionType, type)
"""Objects of these classes do not change while a program runs."""

Reached = dict[str, Any]


def reached(function: Callable[..., Any]) -> Reached:
    """Return what a function reaches: a name such as ``STATE['a'][0]`` and a key of what is there.

    A key is the value of a number or a string, the length of a container and the identity of
    another object. Objects are kept with it, so that no identity is used again.
    """
    found: Reached = {}
    seen: dict[int, Any] = {}
    for name, value in roots(function):
        _visit(name, value, found, seen, 0)
    found[""] = seen  # keeps the objects alive
    return found


def functions_of(original: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the function, or of a module the distinct methods `forward` of users' classes."""
    if not isinstance(original, torch.nn.Module):
        return [original]
    classes = dict.fromkeys(type(module) for module in original.modules())
    return [each.forward for each in classes if not is_of_library(each)]


def generator_states() -> tuple[Any, ...]:
    """Return the states of the random numbers that are not PyTorch's: Python's and NumPy's."""
    numbers = sys.modules.get("numpy.random")
    if numbers is None:
        return (random.getstate(),)
    state: Any = numbers.get_state(legacy=True)
    return random.getstate(), state[1].tobytes(), state[2:]


def reached_tensors(found: Reached) -> dict[int, str]:
    """Return the names of the tensors among what a function reaches, by their ids."""
    kept = found[""]
    tensors = {i for i, value in kept.items() if isinstance(value, torch.Tensor)}
    return {k[1]: n for n, k in found.items() if n and k[0] == "object" and k[1] in tensors}


def changes(before: Reached, after: Reached) -> Iterator[str]:
    """Yield the names of what has changed, shortest first."""
    names = [n for n in {**before, **after} if n and before.get(n) != after.get(n)]
    yield from sorted(names, key=lambda name: (len(name), name))


def has_state(found: Reached) -> bool:
    """Return whether anything that a function reaches may change: more than modules and code."""
    kept, names = found[""], [name for name in found if name]
    fixed = {i for i, value in kept.items() if isinstance(value, FIXED)}
    return any(found[name][0] != "object" or found[name][1] not in fixed for name in names)


def first_line(function: Callable[..., Any]) -> str | None:
    """Return the file and line where a function begins; None if it has no code."""
    code = next(codes_of(function), None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def line_with(function: Callable[..., Any], name: str) -> str | None:
    """Return the file and the last line of a function that mentions the first part of a name."""
    first = name.replace("[", ".").split(".")[0]
    attribute = name.split(".")[-1].split("[")[0]
    found = None
    for code in codes_of(function):
        line = code.co_firstlineno
        for instruction in dis.get_instructions(code):
            line = instruction.starts_line or line
            if instruction.argval in (first, attribute):
                found = f"{code.co_filename}:{line}"
    return found


def codes_of(function: Callable[..., Any]) -> Iterator[CodeType]:
    """Yield the code of a function and of functions inside of it."""
    plain = _plain_function(function)
    if plain is None:
        return
    todo = [plain.__code__]
    while todo:
        code = todo.pop()
        yield code
        todo += [c for c in code.co_consts if isinstance(c, CodeType)]


def _plain_function(function: Any) -> FunctionType | None:
    if isinstance(function, torch.nn.Module):
        function = type(function).forward
    function = inspect.unwrap(function)
    if isinstance(function, MethodType):
        function = function.__func__
    return function if isinstance(function, FunctionType) else None


def roots(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a function's code refers to."""
    plain = _plain_function(function)
    if isinstance(function, torch.nn.Module):
        yield "self", function
    elif getattr(function, "__self__", None) is not None:
        yield "self", function.__self__  # type: ignore[attr-defined]
    if plain is None:
        return
    for cell, name in zip(plain.__closure__ or (), plain.__code__.co_freevars):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    names = {name for code in codes_of(plain) for name in code.co_names}
    for name in sorted(names & plain.__globals__.keys()):
        yield name, plain.__globals__[name]
    for place, value in enumerate(plain.__defaults__ or ()):
        yield f"default {place}", value


def _visit(name: str, value: Any, found: Reached, seen: dict[int, Any], depth: int) -> None:
    if isinstance(value, PLAIN):
        found[name] = "value", repr(value)
        return
    if isinstance(value, list | dict | set | tuple):
        found[name] = "container", id(value), len(value)
    else:
        found[name] = "object", id(value)
    if id(value) in seen or depth > MOST_DEPTH:
        return
    seen[id(value)] = value
    for part, inner in _parts(value, depth):
        _visit(f"{name}{part}", inner, found, seen, depth + 1)


def _parts(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple) and len(value) <= MOST_ITEMS:
        yield from ((f"[{i}]", item) for i, item in enumerate(list(value)))
    elif isinstance(value, dict) and len(value) <= MOST_ITEMS:
        yield from ((f"[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, torch.nn.Module):
        yield from _parts_of_module(value)
    elif isinstance(value, FunctionType) and not is_of_library(value):
        yield from ((f".{name}", item) for name, item in roots(value) if item is not value)
    elif not is_of_library(type(value)) and not isinstance(value, ModuleType | type):
        yield from (
            (f".{name}", item) for name, item in list(getattr(value, "__dict__", {}).items())
        )


def _parts_of_module(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield what a module holds; the fields of `torch.nn.Module` appear as its attributes."""
    for name, item in list(vars(module).items()):
        if name in ("_parameters", "_buffers", "_modules"):
            yield from ((f".{key}", inner) for key, inner in list(item.items()))
        elif not name.startswith("_") or name not in _MODULE_FIELDS:
            yield f".{name}", item


_MODULE_FIELDS: Final = frozenset(vars(torch.nn.Module()))
