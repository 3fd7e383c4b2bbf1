"""Small Python programs, run compiled and in CPython; everything that can be observed must agree.

A family of programs is a table. `expressions` makes a program of each line of text; `case` adds a
function to a table. What is compared: the result or the exception, the arguments afterwards, which
objects are the same object, what iterators still hold, and the number of graphs and breaks.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import inspect
import itertools
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import config, stages

Program = Callable[..., Any]

X = torch.arange(4.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with its arguments and what capture shall make of it.

    Attributes:
        arguments: makes the arguments anew for each run.
        graphs: how many graphs; None if any number will do, or one at most when nothing breaks.
        breaks: how many graph breaks; None likewise.
        code: the reason of the first break.
        watched: objects to compare afterwards, such as a module's globals by name.
    """

    program: Program
    arguments: Callable[[], tuple[Any, ...]]
    graphs: int | None
    breaks: int | None
    code: str | None
    watched: tuple[str, ...]

    def run(self) -> None:
        """Compare compiled runs with CPython's."""
        expected = self._observe(self.program)
        compiled = minitorch2.compile(self.program, backend="eager")
        with config.patch(suppress_errors=False), stages.collect() as log:
            actual = self._observe(compiled)
        assert actual == expected, difference(actual, expected)
        self._check_counts(log)
        with stages.collect() as again:
            repeated = self._observe(compiled)
        assert repeated == expected, f"the second run: {difference(repeated, expected)}"
        if self.breaks == 0:
            assert not again.counts["frames"], "the second run compiled something"

    def _check_counts(self, log: stages.StageLog) -> None:
        """Assert how much was captured; what is whole is at most one graph."""
        breaks = [text.splitlines()[1].strip() for text in log.texts("graph_break")]
        graphs = log.counts["graphs"]
        if self.breaks is not None:
            assert not log.counts["frames_as_is"], f"a frame was not captured; {breaks}"
            assert log.counts["graph_breaks"] == self.breaks, "; ".join(breaks)
        if self.graphs is not None:
            assert graphs == self.graphs, f"{graphs} graphs"
        elif self.breaks == 0:
            assert graphs <= 1, f"{graphs} graphs"
        if self.code is not None:
            assert f"[{self.code}]" in breaks[0], breaks[0]

    def _observe(self, function: Program) -> Any:
        torch.manual_seed(0)
        namespace = self.program.__globals__
        saved = {name: namespace.get(name, _ABSENT) for name in self.watched}
        namespace.update({k: copy.deepcopy(v) for k, v in saved.items() if v is not _ABSENT})
        arguments = self.arguments()
        try:
            outcome: Any = function(*arguments)
        except Exception as error:
            outcome = ("raised", type(error), error.args, vars(error), _chain(error))
        watched = {name: namespace.get(name, _ABSENT) for name in self.watched}
        for name, value in saved.items():
            namespace.pop(name, None) if value is _ABSENT else namespace.update({name: value})
        return snapshot((outcome, arguments, watched))


_ABSENT = types.SimpleNamespace(absent=True)


def _chain(error: BaseException) -> list[Any]:
    linked = (error.__cause__, error.__context__)
    shown: list[Any] = [None if e is None else (type(e), e.args) for e in linked]
    return [*shown, error.__suppress_context__]


def case(
    table: list[Any],
    *arguments: Any,
    graphs: int | None = None,
    breaks: int | None = 0,
    code: str | None = None,
    watched: tuple[str, ...] = (),
) -> Callable[[Program], Program]:
    """Add a function to a table; one lambda as argument makes the arguments anew for each run."""
    if len(arguments) == 1 and isinstance(arguments[0], types.FunctionType):
        make = arguments[0]
    else:
        given = arguments or (X,)
        make = lambda: copy.deepcopy(given)  # noqa: E731

    def add(program: Program) -> Program:
        one = Case(program, make, graphs, breaks, code, watched)
        table.append(pytest.param(one, id=program.__name__))
        return program

    return add


def expressions(table: list[Any], text: str, namespace: dict[str, Any], **given: Any) -> None:
    """Make a program of each line: ``def program(x, **given): return x + 1, <line>``.

    A line ``expression  # breaks=1`` says what is expected; ``breaks=any`` allows any number.
    """
    for line in filter(None, map(str.strip, text.splitlines())):
        expression, _, options = line.partition("  # ")
        expected = dict(part.split("=") for part in options.split())
        source = f"def program({', '.join(['x', *given])}):\n    return x + 1, {expression}\n"
        scope = {"__name__": __name__, **namespace}
        exec(compile(source, f"<{expression}>", "exec"), scope)
        breaks = None if expected.get("breaks") == "any" else int(expected.get("breaks", 0))
        graphs = int(expected["graphs"]) if "graphs" in expected else None
        arguments = (X, *given.values())
        one = Case(
            scope["program"],
            lambda arguments=arguments: copy.deepcopy(arguments),  # type: ignore[misc]
            graphs,
            breaks,
            expected.get("code"),
            (),
        )
        table.append(pytest.param(one, id=expression))


# Comparing ----------------------------------------------------------------------------------------

_ATOMS = (int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented))


def snapshot(value: Any) -> Any:
    """A value as nested tuples: equal snapshots mean that no program could tell the values apart.

    The first meeting of an object gives it a number, later ones show the number: so aliasing shows.
    """
    return _Snapshot().of(value)


class _Snapshot:
    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.alive: list[Any] = []

    def of(self, value: Any) -> Any:
        if isinstance(value, float) and value != value:
            return "nan"
        if isinstance(value, _ATOMS) and not isinstance(value, enum.Enum):
            return type(value).__name__, repr(value)
        if isinstance(value, type | types.ModuleType | enum.Enum | types.BuiltinFunctionType):
            return "object", _name(value)
        if id(value) in self.numbers:
            return "again", self.numbers[id(value)]
        if _is_constant(value):
            return _name(type(value)), self.parts(value)  # identity of such is CPython's choice
        self.numbers[id(value)] = len(self.numbers)
        self.alive.append(value)
        return self.numbers[id(value)], _kind(value), self.parts(value)

    def parts(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return str(value.dtype), tuple(value.shape), value.requires_grad, str(value.tolist())
        if isinstance(value, OrderedDict | dict | Mapping):
            entries = tuple((self.of(k), self.of(v)) for k, v in list(value.items()))
            return entries, self.attributes(value)
        if isinstance(value, list | tuple | deque):
            return tuple(self.of(v) for v in value), self.attributes(value)
        if isinstance(value, Set):
            return tuple(sorted((self.of(v) for v in value), key=str)), self.attributes(value)
        if isinstance(value, Iterator):
            return self.rest(value)
        if isinstance(value, types.FunctionType):
            cells = [self.cell(c) for c in value.__closure__ or ()]
            defaults = self.of((value.__defaults__, value.__kwdefaults__))
            shown = value.__name__, value.__qualname__, value.__doc__, value.__module__
            return shown, cells, defaults, self.of(value.__dict__)
        if isinstance(value, types.MethodType):
            return self.of(value.__func__), self.of(value.__self__)
        if isinstance(value, BaseException):
            return self.of(value.args), self.of(value.__dict__), self.of(value.__cause__)
        return self.attributes(value) or (repr(value) if _has_text(value) else None)

    def cell(self, cell: Any) -> Any:
        try:
            return self.of(cell.cell_contents)
        except ValueError:
            return "empty"

    def rest(self, iterator: Any) -> Any:
        taken = []
        try:
            for item in itertools.islice(iterator, 30):
                taken.append(self.of(item))
        except Exception as error:
            taken.append((type(error).__name__, str(error)))
        return tuple(taken)

    def attributes(self, value: Any) -> Any:
        names = [n for c in type(value).__mro__ for n in _slots(c)]
        slots = [(n, self.of(getattr(value, n))) for n in names if hasattr(value, n)]
        own = getattr(value, "__dict__", None)
        return tuple(slots), self.of(dict(own)) if own else ()


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_constant, value))
    return isinstance(value, (*_ATOMS, type, enum.Enum, slice, range))


def difference(actual: Any, expected: Any) -> str:
    """The first place where two snapshots differ."""
    if isinstance(actual, tuple) and isinstance(expected, tuple) and len(actual) == len(expected):
        pairs = zip(actual, expected, strict=True)
        return next((difference(a, b) for a, b in pairs if a != b), "")
    return f"compiled: {str(actual)[:600]}\nCPython:  {str(expected)[:600]}"


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    private = [
        f"_{cls.__name__.lstrip('_')}{n}" if n.startswith("__") and not n.endswith("__") else n
        for n in names
    ]
    return tuple(n for n in private if n not in ("__dict__", "__weakref__"))


def _kind(value: Any) -> str:
    return "iterator" if isinstance(value, Iterator) else _name(type(value))


def _name(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


def _has_text(value: Any) -> bool:
    return not inspect.isroutine(value) and type(value).__repr__ is not object.__repr__
