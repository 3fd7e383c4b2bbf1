"""One program of the guard machine out of a set of guards.

    {TENSOR_MATCH a, FUNCTION_MATCH torch}  -->  CLASS 0 Tensor; WORDS 0 table
                                                 GLOBAL "torch"; IS 2 torch; HOLDS

It makes the same checks as the Python text of `guard_function`, in the same order, and loads each
access path once. `number_program` writes conditions on sizes. A check or a step that the machine
does not know becomes a call of a small Python function, made of the text that `guard_text` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import groupby
from types import CellType, CodeType, FunctionType, GetSetDescriptorType
from typing import Any, cast

from minitorch2.bytecode.guards.guard import Check, Guard
from minitorch2.bytecode.guards.guard_text import Constants, print_condition
from minitorch2.bytecode.guards.number_program import NumberWriter
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
from minitorch2.bytecode.guards.values import Held, the
from minitorch2.foundation.generated_code import GUARDS
from minitorch2.graph.scope import Scope
from minitorch2.native.cpython.class_versions import VERSION
from minitorch2.native.cpython.guard_machine import Op, ProgramWriter, make_guard
from minitorch2.native.torch_internals.tensor_layout import MOST_DIMENSIONS, tensor_layout

MOST_PAIRED = 200
"""More objects than this are not compared in pairs."""


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
        sources = guard.sources()
        for _, alike in groupby(guard.checks(), key=lambda check: check.op):
            checks = list(alike)
            if not self._write(checks, sources):
                values = [self.value(source) for source in sources]
                self._program.python(_condition(checks, len(values)), values)

    def _write(self, checks: Sequence[Check], sources: Sequence[Source]) -> bool:
        """Write checks that differ in operands; return whether the machine can make them."""
        match checks[0].op:
            case Op.PYTHON:
                return False
            case Op.AGREE:
                return self._numbers.write(checks[0].of)
            case Op.WORDS:
                return self._write_words(checks, sources[0])
            case Op.DISTINCT:
                return self._write_distinct(checks[0], sources)
            case Op.CONTIGUOUS:
                return self._write_contiguous(checks[0], sources[0])
        for check in checks:
            self._write_one(check, sources)
        return True

    def _write_one(self, check: Check, sources: Sequence[Source]) -> None:
        x, *others = map(self.value, sources) if sources else (0,)
        if check.unless and VERSION:
            self._program.check(Op.UNLESS_SAME, 0, *check.unless.places)
        match check.op:
            case Op.SAME:
                operands = others
            case Op.LENGTH:
                operands = [check.known]
            case Op.CONTAINS:
                operands = [self._object(check.of), int(check.known)]
            case Op.EMPTY:
                operands = [self._object(check.of)]
            case Op.STATE:
                operands = [self._object(check.of), self._object(check.known)]
            case _:
                operands = [self._object(check.known)]
        self._program.check(check.op, x, *operands)
        if check.op is Op.CLASS and _keeps_own_dict(the(check.known)):
            self._plain.add(sources[0])

    def _write_words(self, checks: Sequence[Check], source: Source) -> bool:
        """Write the checks of a tensor's metadata as one."""
        layout = tensor_layout()
        table = layout and layout.table({check.of: check.known for check in checks})
        if not table:
            return False
        self._program.table(Op.WORDS, self.value(source), table)
        self._tensors.add(source)
        return True

    def _write_distinct(self, check: Check, sources: Sequence[Source]) -> bool:
        layout, of_storages = tensor_layout(), check.of == "storages"
        if len(sources) > MOST_PAIRED or (of_storages and not self._tensors.issuperset(sources)):
            return False  # the machine would take any object there for a tensor
        offsets = (layout.tensor, layout.storage) if layout and of_storages else (0, 0)
        self._program.distinct(list(map(self.value, sources)), offsets)
        return True

    def _write_contiguous(self, check: Check, source: Source) -> bool:
        layout = tensor_layout()
        if layout is None or check.of > MOST_DIMENSIONS or source not in self._tensors:
            return False
        table = [layout.tensor, layout.sizes, layout.strides, check.of]
        self._program.table(Op.CONTIGUOUS, self.value(source), table)
        return True

    def _object(self, value: object) -> int:
        """Return the address of an object, which is kept alive if no guard holds it weakly."""
        if isinstance(value, Held) and value.is_weak:
            return value.identity
        return self._program.keep(the(value))

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
                return load(Op.CONSTANT, 0, self._object(self.references[name]))
            case StepSource(base):
                value = self.value(base)
                if base in self._plain and source == AttributeSource(base, "__dict__"):
                    return load(Op.DICT, value)
                if isinstance(source, AppliedSource):
                    function = self.references[source.function.name]
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
            constants = Constants(Scope())
            yield (
                Op.CALL,
                _function(("base",), source.step("base", constants.name), constants.named),
            )


def _condition(checks: Iterable[Check], count: int) -> Callable[..., object]:
    """Return a Python function of the `count` values of a guard: whether checks hold."""
    constants = Constants(Scope())
    parameters = [f"value_{i}" for i in range(count)]
    texts = [f"({print_condition(check, parameters, constants.name)})" for check in checks]
    return _function(parameters, " and ".join(texts), constants.named)


def _function(
    parameters: Sequence[str], expression: str, constants: dict[str, object]
) -> Callable[..., object]:
    text = f"lambda {', '.join(parameters)}: {expression}"
    made: Callable[..., object] = eval(compile(text, f"{GUARDS}condition>", "eval"), constants)
    return made
