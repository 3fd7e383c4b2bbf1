"""One program of the guard machine out of a set of guards.

    {TENSOR_MATCH a, FUNCTION_MATCH torch}  -->  CLASS 0 Tensor; WORDS 0 table
                                                 GLOBAL "torch"; IS 2 torch; HOLDS

It makes the same checks as the Python text of `guard_function`, from the same guards in the same
order, and loads each access path once. `number_program` writes conditions on sizes. A guard that
gives no `tests`, or a step that the machine does not know, becomes a call of a small Python
function made of that text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType, GetSetDescriptorType
from typing import Any, cast

from minitorch2.bytecode.guards.guard import Address, Guard, Test
from minitorch2.bytecode.guards.number_program import NumberWriter
from minitorch2.bytecode.guards.relations import DistinctStorages
from minitorch2.bytecode.guards.shapes import Contiguous, ShapeCondition
from minitorch2.bytecode.guards.sources import (
    AppliedSource,
    AttributeSource,
    CellObjectSource,
    CellSource,
    ClosureSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    ReferenceSource,
    Source,
    StepSource,
    TypeSource,
)
from minitorch2.bytecode.guards.tensors import TensorMatch
from minitorch2.bytecode.guards.values import Held, TypeMatch
from minitorch2.foundation.generated_code import GUARDS
from minitorch2.native.cpython.guard_machine import Op, ProgramWriter, make_guard


@dataclass(frozen=True)
class GuardProgram:
    """A program, not yet bound to a function's globals and cells.

    Attributes:
        program: its words.
        kept: the objects that it holds by address.
        cells: the free variables it reads, or their cells, in order.
    """

    program: bytes
    kept: tuple[object, ...]
    cells: tuple[CellSource | CellObjectSource, ...]

    def bind(self, function: FunctionType) -> Callable[..., bool] | None:
        """Return the check with a function's globals and cells; None if they are unusual."""
        namespace, builtins = function.__globals__, cast(Any, function).__builtins__
        if type(namespace) is not dict or type(builtins) is not dict:
            return None
        names = function.__code__.co_freevars
        cells = dict(zip(names, function.__closure__ or (), strict=True))
        used = [
            CellType(cells[source.name])
            if isinstance(source, CellObjectSource)
            else cells[source.name]
            for source in self.cells
        ]
        return make_guard(self.program, self.kept, namespace, builtins, used)


def write_program(
    guards: Sequence[Guard], code: CodeType, references: Mapping[str, Held]
) -> GuardProgram:
    """Write the program of guards.

    Args:
        guards: all different, a value's own before those of its parts.
        code: the code of the guarded function. The program takes the values of all its parameters
            in the order of its slots.
        references: the objects behind the names of `ReferenceSource`.
    """
    writer = _Writer(code, references)
    for guard in guards:
        writer.add(guard)
    return writer.finish()


def parameters_of(code: CodeType) -> tuple[str, ...]:
    """Return the names of all parameters in slot order: ``*args`` and ``**kwargs`` come last."""
    flags = CO_VARARGS, CO_VARKEYWORDS
    rest = sum(bool(code.co_flags & flag) for flag in flags)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + rest]


@dataclass
class _Writer:
    code: CodeType
    references: Mapping[str, Held]
    _tensors: set[Source] = field(default_factory=set)
    _plain: set[Source] = field(default_factory=set)
    _values: dict[Source, int] = field(default_factory=dict)
    _cells: dict[CellSource | CellObjectSource, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = parameters_of(self.code)
        self._program = ProgramWriter(len(names))
        self._numbers = NumberWriter(self._program, self.value, self._tensors.__contains__)
        self._parameters = {name: i for i, name in enumerate(names)}

    def finish(self) -> GuardProgram:
        words = self._program.finish()
        return GuardProgram(words, tuple(self._program.kept), tuple(self._cells))

    def add(self, guard: Guard) -> None:
        if isinstance(guard, ShapeCondition) and self._numbers.write(guard):
            return
        values = [self.value(source) for source in guard.sources()]
        tests = guard.tests()
        of_tensors = isinstance(guard, DistinctStorages | Contiguous)
        if of_tensors and not self._tensors.issuperset(guard.sources()):
            tests = None  # the machine would take any object there for a tensor
        if tests is None:
            self._program.python(_condition(guard), values)
            return
        for test in tests:
            self._check(test, values)
        if isinstance(guard, TensorMatch):
            self._tensors.add(guard.source)
        if isinstance(guard, TypeMatch) and _keeps_own_dict(guard.held.get()):
            self._plain.add(guard.source)

    def _check(self, test: Test, values: Sequence[int]) -> None:
        program, x = self._program, values[test.at] if values else 0
        match test.op:
            case Op.SAME:
                program.check(Op.SAME, x, values[1])
            case Op.DISTINCT:
                program.distinct(values, cast("tuple[int, int]", test.operand))
            case Op.WORDS | Op.CONTIGUOUS:
                program.table(test.op, x, cast("list[int]", test.operand))
            case Op.LENGTH | Op.TRUTH:
                program.check(test.op, x, cast(int, test.operand))
            case Op.CONTAINS:
                program.check(test.op, x, self._object(test.operand), int(bool(test.second)))
            case Op.UNLESS_SAME:
                program.check(test.op, 0, cast(int, test.operand), cast(int, test.second))
            case Op.STATE:
                program.check(test.op, 0, self._object(test.operand), self._object(test.second))
            case _:
                program.check(test.op, x, self._object(test.operand))

    def _object(self, value: object) -> int:
        return value.identity if isinstance(value, Address) else self._program.keep(value)

    # Values --------------------------------------------------------------------------------------

    def value(self, source: Source) -> int:
        """Return the number of the value that a source loads."""
        if isinstance(source, LocalSource):
            return self._parameters[source.name]
        if source not in self._values:
            self._values[source] = self._load(source)
        return self._values[source]

    def _load(self, source: Source) -> int:
        load, keep = self._program.load, self._program.keep
        match source:
            case GlobalSource(name):
                return load(Op.GLOBAL, 0, keep(name))
            case CellSource() | CellObjectSource():
                return load(Op.CELL, 0, self._cells.setdefault(source, len(self._cells)))
            case ReferenceSource(name):
                return load(Op.CONSTANT, 0, self._object(self.references[name].operand))
            case StepSource(base):
                value = self.value(base)
                if base in self._plain and source == AttributeSource(base, "__dict__"):
                    return load(Op.DICT, value)
                if isinstance(source, AppliedSource):
                    function = self.references[source.function.name].operand
                    return load(Op.CALL, value, self._object(function))
                for op, operand in _steps(source):
                    value = load(op, value, 0 if op is Op.TYPE else keep(operand))
                return value
            case _:
                raise AssertionError(f"a source that is neither a root nor a step: {source}")


def _keeps_own_dict(cls: object) -> bool:
    """Return whether ``__dict__`` of a class's instances is the ordinary one."""
    assert isinstance(cls, type)
    own = next((vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)), None)
    return (
        isinstance(own, GetSetDescriptorType)
        and not issubclass(cls, type)
        and cls.__getattribute__ is object.__getattribute__
    )


def _steps(source: StepSource) -> Iterator[tuple[Op, object]]:
    """Yield the loads that lead from the base of a source to it."""
    match source:
        case AttributeSource(_, name):
            yield Op.ATTRIBUTE, name
        case ItemSource(_, key):
            yield Op.ITEM, key
        case TypeSource():
            yield Op.TYPE, None
        case ClosureSource(_, index):
            yield Op.ATTRIBUTE, "__closure__"
            yield Op.ITEM, index
            yield Op.ATTRIBUTE, "cell_contents"
        case _:
            constants = _Constants()
            yield (
                Op.CALL,
                _function(("base",), source.step("base", constants.name), constants.named),
            )


@dataclass
class _Constants:
    """The objects that an expression names."""

    named: dict[str, object] = field(default_factory=dict)

    def name(self, value: object) -> str:
        """Return the name of an object."""
        known = next((name for name, other in self.named.items() if other is value), None)
        name = known or f"_constant_{len(self.named)}"
        self.named[name] = value
        return name


def _condition(guard: Guard) -> Callable[..., object]:
    """Return a Python function of the values of a guard's sources: whether it holds."""
    constants = _Constants()
    parameters = [f"value_{i}" for i, _ in enumerate(guard.sources())]
    conditions = [f"({check.condition})" for check in guard.checks(parameters, constants.name)]
    return _function(parameters, " and ".join(conditions) or "True", constants.named)


def _function(
    parameters: Sequence[str], expression: str, constants: dict[str, object]
) -> Callable[..., object]:
    text = f"lambda {', '.join(parameters)}: {expression}"
    made: Callable[..., object] = eval(compile(text, f"{GUARDS}condition>", "eval"), constants)
    return made
