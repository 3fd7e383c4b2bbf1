"""Continuation functions as residual code calls them.

PyTorch 2 paper, section 3.8. `machine/continuation.py` makes their code. Here they get a name and
the list of arguments: stack items, variables, and cells that are shared with closures.

A continuation that is broken in turn does not get a continuation of its own: the rest of a rest is
a rest of the original function. So a loop that breaks at each iteration goes through the same few
continuations again and again, and compiles them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType

import torch

from minitorch2.bytecode.frames.expressions import stack_expressions, unnamed_values
from minitorch2.bytecode.machine.continuation import CELL, make_continuation, variable_names
from minitorch2.bytecode.machine.liveness import READS_FRAME, live_sets
from minitorch2.bytecode.machine.per_code import once_per_code
from minitorch2.bytecode.machine.program import program_of
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.lazy import LazyVariable
from minitorch2.bytecode.trackers.null import NULL
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable


@dataclass(frozen=True)
class Continuation:
    """The rest of a function.

    Attributes:
        name: its name, such as ``__resume_at_30_1``.
        code: takes the arguments positionally; its free variables are the user's function's.
        as_is: whether it runs in Python without capture.
    """

    name: str
    code: CodeType
    as_is: bool

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of its parameters: ``.stack0`` for stack items, ``.handled0`` for an exception that
        is handled above such an item, ``.cell_x`` for cells, else local variables."""
        return self.code.co_varnames[: self.code.co_argcount]


@dataclass(frozen=True)
class Place:
    """An instruction of a user's function: where a continuation starts."""

    code: CodeType
    index: int


@dataclass(frozen=True)
class StackState:
    """The shape of the value stack that a continuation begins with.

    Attributes:
        depth: number of items.
        nulls: the positions of items that are NULL.
        exceptions: the positions of exceptions that are being handled.
        previous: the positions of exceptions that were handled before one that is on no stack.
    """

    depth: int
    nulls: tuple[int, ...]
    exceptions: tuple[int, ...]
    previous: tuple[int, ...]


@dataclass
class Continuations:
    """All continuations of a region.

    Args:
        new_number: makes their names unique.
    """

    new_number: Callable[[], int]
    _made: dict[object, Continuation] = field(default_factory=dict)
    _origins: dict[int, CodeType] = field(default_factory=dict)

    def at(
        self, evaluator: Evaluator, position: int, residual: Residual, *, as_is: bool = False
    ) -> Continuation:
        """Return the continuation of the evaluator's frame at an instruction, with its present
        stack.

        Args:
            residual: calls it; the objects that are named there live as long as in the frame.
            as_is: it runs in Python; if it may list its variables, it gets them all.

        Raises:
            ContinuationError: a frame cannot go on there.
        """
        place = self._origin(evaluator.code, position)
        live = dict.fromkeys((*place.code.co_varnames, *place.code.co_cellvars))
        if not as_is or READS_FRAME.isdisjoint(place.code.co_names):
            needed = _live_sets(place.code)[place.index]
            kept = needed.union(self._holders(evaluator, residual))
            live = dict.fromkeys(name for name in live if name in kept)
        bound = tuple(n for n in live if n in evaluator.locals or n in evaluator.cells)
        nulls = tuple(i for i, value in enumerate(evaluator.stack) if value is NULL)
        state = StackState(len(evaluator.stack), nulls, *_handled_slots(evaluator))
        key = (id(place.code), place.index, bound, state, as_is)
        if key not in self._made:
            self._made[key] = self._make(place, bound, state, as_is)
        return self._made[key]

    def _holders(self, evaluator: Evaluator, residual: Residual) -> Iterator[str]:
        """Yield the variables that keep objects alive which weak references may refer to.

        Modules belong to a model, which lives longer than the call.
        """
        for name, value in evaluator.locals.items():
            if isinstance(value, ObjectVariable | LazyVariable):
                kind = type(value.value) if isinstance(value, LazyVariable) else value.python_type()
                is_outside = value.source is not None and self.made(evaluator.code)
                is_made = value.source is None and residual.is_named(value)
                if (is_outside or is_made) and not issubclass(kind, torch.nn.Module):
                    yield name

    def made(self, code: CodeType) -> bool:
        """Return whether a code object belongs to a continuation."""
        return id(code) in self._origins

    def _make(
        self, place: Place, live: Sequence[str], stack: StackState, as_is: bool
    ) -> Continuation:
        origin = place.code
        code = make_continuation(
            origin,
            place.index,
            live,
            stack.depth,
            stack.nulls,
            exception_slots=stack.exceptions,
            previous_slots=stack.previous,
            number=self.new_number(),
        )
        shown = code.replace(co_name=origin.co_name, co_qualname=origin.co_qualname)
        program_of.note(shown, program_of(code))
        offset = program_of(origin).instructions[place.index].offset
        items = stack_expressions(origin, offset, stack.depth)
        unnamed_values.note(shown, {CELL + name: name for name in origin.co_cellvars} | items)
        variable_names.note(shown, variable_names(origin))
        self._origins[id(shown)] = origin
        return Continuation(code.co_name, shown, as_is)

    def _origin(self, code: CodeType, position: int) -> Place:
        """Return the same instruction in the function that the user wrote."""
        instruction = program_of(code).instructions[position]
        origin = self._origins.get(id(code), code)
        index = program_of(origin).positions.get(id(instruction))
        return Place(code, position) if index is None else Place(origin, index)


@once_per_code
def _live_sets(code: CodeType) -> Sequence[frozenset[str]]:
    """Return the live variables before each instruction of a function."""
    return live_sets(program_of(code).instructions, code)


def _handled_slots(evaluator: Evaluator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the stack positions of handled exceptions, and of those with a hidden previous one."""
    stack = [*evaluator.stack, None]
    previous = evaluator.handled_at
    exceptions = tuple(
        slot + 1
        for exception, slot in zip(evaluator.handled, previous, strict=True)
        if stack[slot + 1] is exception and slot + 1 not in previous
    )
    return exceptions, tuple(slot for slot in previous if slot + 1 not in exceptions)


def argument_value(evaluator: Evaluator, name: str) -> VariableTracker:
    """Return the tracker of the value that residual code passes for a continuation's parameter."""
    if name.startswith(".stack"):
        return evaluator.stack[int(name.removeprefix(".stack"))]
    if name.startswith(".handled"):
        slot = int(name.removeprefix(".handled"))
        return evaluator.handled[evaluator.handled_at.index(slot)]
    if name.startswith(CELL):
        cell: VariableTracker = evaluator.cells[name.removeprefix(CELL)]
        return cell
    return evaluator.locals[name]
