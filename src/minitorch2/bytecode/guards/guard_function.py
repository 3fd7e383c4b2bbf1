"""One Python function out of a set of guards.

    {TENSOR_MATCH a, FUNCTION_MATCH torch}  -->  def guard(a, b):
                                                     if not (type(a) is _Tensor): return False
                                                     ...
                                                     return True

The function is straight-line. It takes the parameters of the guarded function, and reads that
function's globals and cells. It loads each access path once: ``a.b.c`` and ``a.b.d`` share a
temporary for ``a.b``, so guards along a chain of n objects cost O(n). A second function, made from
the same checks, is slow and says which guard fails first and why. Both are for reading and
explaining. Each call runs the same checks as a program of the guard machine, which `guard_program`
writes. PyTorch 2 paper, section 3.3.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from types import CellType, CodeType, FunctionType
from typing import cast

from minitorch2.bytecode.guards.class_version import ClassMatch
from minitorch2.bytecode.guards.guard import Check, Guard
from minitorch2.bytecode.guards.guard_program import GuardProgram, write_program
from minitorch2.bytecode.guards.guard_text import Constants, print_condition, print_reading, show
from minitorch2.bytecode.guards.sources import LocalSource, RootSource, Source, StepSource
from minitorch2.bytecode.guards.torch_state import SETTINGS, global_state_guards
from minitorch2.bytecode.guards.values import Held, IdMatch, TypeMatch, hold, keep
from minitorch2.bytecode.machine.continuation import variable_names
from minitorch2.foundation.generated_code import keep_source, new_file
from minitorch2.graph.scope import Scope
from minitorch2.native.cpython.guard_machine import PATH_ERRORS

GuardFunction = Callable[..., bool]


@dataclass(frozen=True)
class GuardFailure:
    """The first guard that does not hold.

    Attributes:
        guard: the guard.
        what: the property that changed, such as ``"sizes"``.
        expected: the property while capturing.
        actual: the property now, or the error that reading it gave.
        compile_id: the entry that has the guard, such as ``"0/1"``.
    """

    guard: Guard
    what: str
    expected: str
    actual: str
    compile_id: str = ""

    def __str__(self) -> str:
        where = f" (needed by {self.guard.user_line})" if self.guard.user_line else ""
        return f"{self.guard}: {self.what} was {self.expected}, now {self.actual}{where}"


_HOLDERS = (IdMatch, TypeMatch, ClassMatch)
TIMINGS = 20
"""The number of runs of a new guard that measure its cost; the fastest run counts."""


@dataclass(eq=False)
class CompiledGuards:
    """The guards of one compiled entry.

    Attributes:
        guards: the set, in the order in which they are checked.
        source: the text of `check`.
        references: the objects behind the names of `ReferenceSource`.
        microseconds: the time to check them, once `measure` has found out.
    """

    guards: tuple[Guard, ...]
    source: str
    _explanation: str
    _make: Callable[[str], FunctionType]
    _checks: tuple[tuple[Guard, Check], ...]
    _function: FunctionType
    references: Mapping[str, Held]
    microseconds: float = 0.0

    @property
    def check(self) -> GuardFunction:
        """In Python: takes the guarded function's arguments; true when the entry may be used."""
        return cast(GuardFunction, self._make(self.source))

    @cached_property
    def program(self) -> GuardProgram:
        """The same checks for the guard machine."""
        return write_program(self.guards, self._function.__code__, self.references)

    @cached_property
    def fast_check(self) -> GuardFunction:
        """The check before each call, run by the guard machine with the values of all parameters.

        It never holds once an object has died that it would load from its address.
        """
        if any(held.is_weak and held.get() is None for held in self.references.values()):
            return lambda *values: False
        return self.program.bind(self._function) or self.check

    def measure(self, check: GuardFunction, values: Sequence[object]) -> bool:
        """Check these values, with `check` or a function like it, and note the time.

        Returns whether the guards hold.
        """
        spent = []
        for _ in range(TIMINGS):
            start = perf_counter()
            holds = check(*values)
            spent.append(perf_counter() - start)
        self.microseconds = min(spent) * 1e6
        return holds

    def explain(self, *args: object, **kwargs: object) -> GuardFailure | None:
        """Return the first guard that fails for these arguments; None if all hold."""
        failed = self._make(self._explanation)(*args, **kwargs)
        if failed is None:
            return None
        guard, check = self._checks[failed[0]]
        actual = str(failed[1]) if failed[2] else show(check, failed[1])
        return GuardFailure(guard, check.what, show(check, check.known), actual)

    def with_settings_of_now(self) -> CompiledGuards:
        """Return the same guards with PyTorch's settings as they are now."""
        kept = [guard for guard in self.guards if not isinstance(guard, SETTINGS)]
        references = {name: held.get() for name, held in self.references.items()}
        return compile_guards([*kept, *global_state_guards()], self._function, references)

    def watched(self) -> list[object]:
        """Return the objects known only by their `id`: when one dies, the entry must be dropped."""
        held = [guard.held for guard in self.guards if isinstance(guard, _HOLDERS)]
        objects = [each.get() for each in (*held, *self.references.values()) if each.is_weak]
        return list({id(value): value for value in objects if value is not None}.values())

    def bind(self, function: FunctionType) -> CompiledGuards:
        """Return the guards with the globals, cells and defaults of another function object."""

        def make(source: str) -> FunctionType:
            return _rebind(self._make(source), function)

        bound = replace(self, _make=make, _function=function)
        bound.__dict__["program"] = self.program  # it is the same for all functions of one code
        return bound


def compile_guards(
    guards: Iterable[Guard], function: FunctionType, references: Mapping[str, object] | None = None
) -> CompiledGuards:
    """Compile guards into one function with the parameters of `function`.

    Args:
        guards: in order of discovery, so that a value's own guards come before those of its parts.
        function: whose parameters, globals and cells the guards' sources speak of.
        references: the objects behind the names of `ReferenceSource`.
    """
    unique = tuple(dict.fromkeys(guards))
    held = _held_references(unique, references or {})
    body = _Body(Scope(_root_names(unique), variable_names(function.__code__)))
    for guard in unique:
        body.add(guard)
    header = f"def guard({_parameters(function)}):"
    source, explanation = body.text(header, explains=False), body.text(header, explains=True)
    make = _factory(function, body.constants.named, held)
    checks = tuple(body.checks)
    return CompiledGuards(unique, source, explanation, make, checks, function, held)


class _Body:
    """Collects the lines of the function; a path is loaded where it is first needed."""

    def __init__(self, scope: Scope) -> None:
        self.constants = Constants(scope)
        self.name = self.constants.name
        self._scope = scope
        self._at, self._error = scope.fresh("_at"), scope.fresh("_error")
        self.checks: list[tuple[Guard, Check]] = []
        self._lines: list[str | tuple[str, str]] = []  # a load, or a condition and its reading
        self._temporaries: dict[Source, str] = {}

    def add(self, guard: Guard) -> None:
        paths = [self.path(source) for source in guard.sources()]
        for check in guard.checks():
            condition = print_condition(check, paths, self.name)
            self._lines.append((condition, print_reading(check, paths, self.name)))
            self.checks.append((guard, check))

    def path(self, source: Source) -> str:
        """Return the expression of a source, one temporary a step."""
        if source in self._temporaries:
            return self._temporaries[source]
        if isinstance(source, LocalSource):
            return source.name
        if isinstance(source, StepSource):
            text = source.step(self.path(source.of), self.name)
        else:
            text = source.expression(self.name)
        temporary = self._scope.fresh(f"__t{len(self._temporaries)}")
        self._lines.append(f"{temporary} = {text}")
        self._temporaries[source] = temporary
        return temporary

    def text(self, header: str, explains: bool) -> str:
        """Return the function: it says whether all checks hold, or explains the one that fails."""
        lines: list[str] = []
        number = 0
        for line in self._lines:
            if explains:
                lines.append(f"{self._at} = {number}")
            if isinstance(line, str):
                lines.append(line)
                continue
            condition, reading = line
            answer = f"{number}, {reading}, False" if explains else "False"
            lines.append(f"if not ({condition}): return {answer}")
            number += 1
        holds, fails = ("None", f"{self._at}, {self._error}, True") if explains else (True, False)
        body = [f"        {line}" for line in [*lines, f"return {holds}"]]
        caught = f"    except {self.name(PATH_ERRORS)} as {self._error}:"
        return "\n".join([header, "    try:", *body, caught, f"        return {fails}"])


def _root_names(guards: Iterable[Guard]) -> set[str]:
    """Return the user's variables that guards read."""
    roots = {root for guard in guards for source in guard.sources() for root in source.roots()}
    return {root.name for root in roots if isinstance(root, RootSource)}


def _held_references(guards: Iterable[Guard], references: Mapping[str, object]) -> dict[str, Held]:
    """Return the referenced objects that guards read.

    Classes may die, with the entry. Other objects may be kept alive by the reference alone.
    """
    names = _root_names(guards) & references.keys()
    values = {name: references[name] for name in names}
    return {
        name: hold(value) if isinstance(value, type) else keep(value)
        for name, value in values.items()
    }


def _parameters(function: FunctionType) -> str:
    """Return the parameter list of a function, without defaults: those are bound later."""
    code = function.__code__
    names = code.co_varnames
    end = code.co_argcount + code.co_kwonlyargcount
    plain = list(names[: code.co_argcount])
    if code.co_posonlyargcount:
        plain.insert(code.co_posonlyargcount, "/")
    rest = iter(names[end:])
    star = ["*" + next(rest)] if code.co_flags & inspect.CO_VARARGS else []
    if not star and code.co_kwonlyargcount:
        star = ["*"]
    double = ["**" + next(rest)] if code.co_flags & inspect.CO_VARKEYWORDS else []
    return ", ".join([*plain, *star, *names[code.co_argcount : end], *double])


def _factory(
    function: FunctionType, named: Mapping[str, object], references: Mapping[str, Held]
) -> Callable[[str], FunctionType]:
    """Return a compiler of texts whose constants are closure cells and globals are the user's."""

    @functools.cache
    def compiled(source: str) -> CodeType:
        free = [*named, *references, *function.__code__.co_freevars]
        indented = source.replace("\n", "\n    ")
        own = "" if "guard" in free else "\n    global guard"  # which a user's global may be called
        text = f"def make({', '.join(free)}):{own}\n    {indented}"
        module = compile(text, new_file("guards", function.__qualname__), "exec")
        code = _inner_code(_inner_code(module))
        keep_source(code, text)
        return code

    def make(source: str) -> FunctionType:
        constants = {**named, **{name: held.get() for name, held in references.items()}}
        code = compiled(source)
        cells = _cells(function) | {n: CellType(value) for n, value in constants.items()}
        closure = tuple(cells[n] for n in code.co_freevars)
        made = FunctionType(code, function.__globals__, "guard", function.__defaults__, closure)
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    return make


def _inner_code(code: CodeType) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType))


def _cells(function: FunctionType) -> dict[str, CellType]:
    names = function.__code__.co_freevars
    return dict(zip(names, function.__closure__ or (), strict=True))


def _rebind(made: FunctionType, function: FunctionType) -> FunctionType:
    """Return the code with the cells, globals and defaults of `function`; constants stay."""
    own = _cells(function)
    cells = tuple(own.get(name, cell) for name, cell in _cells(made).items())
    bound = FunctionType(
        made.__code__, function.__globals__, made.__name__, function.__defaults__, cells
    )
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound
