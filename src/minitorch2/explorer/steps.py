"""The steps of the symbolic evaluator, instruction by instruction.

The evaluator tells of each instruction before it evaluates it. A step keeps what has changed since
the frame's last one: evaluating 50,000 instructions of a model changes few values at a time.
Describing a value neither reads the user's object nor makes a guard.
"""

from __future__ import annotations

import reprlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from minitorch2.bytecode.evaluation.evaluator import SymbolicEvaluator
from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.lazy import LazyVariable
from minitorch2.bytecode.trackers.null import NullVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.explorer.store import Step, Steps
from minitorch2.graph.node import Node
from minitorch2.graph.printer import type_text

MOST_STEPS = 60_000
"""The steps that are kept; of later ones only the number."""
Seen = tuple[int, int]
"""A value as it was seen: its identity and, of a container, its length."""
Place = tuple[int, int]
"""An instruction: number of its code, and position in it."""


def describe(value: VariableTracker, depth: int = 1) -> str:
    """Return a symbolic value as a short text, such as ``mul: f32[8, 4]`` for a tensor."""
    if isinstance(value, NullVariable):
        return "NULL"
    if isinstance(value, ConstantVariable):
        return reprlib.repr(value.value)
    if isinstance(value, TensorVariable):
        return f"{value.node.name}: {type_text(value.fake)}"
    if isinstance(value, LazyVariable):
        return f"{value.load_from} (not read yet)"
    if isinstance(value, SequenceVariable) and depth:
        shown = [describe(each, depth - 1) for each in value.elements[:4]]
        rest = [f"... {len(value.elements)} in all"] if len(value.elements) > 4 else []
        return f"{value.python_type().__name__}({', '.join(shown + rest)})"
    text = repr(value)
    if value.source is not None:
        text = f"{value.source}: {type(value).__name__.removesuffix('Variable')}"
    return text if len(text) <= 120 else f"{text[:117]}..."


@dataclass
class _Frame:
    """A frame as it was at its last step; values are compared by identity and length."""

    number: int
    code: int
    stack: list[Seen] = field(default_factory=list)
    locals: dict[str, Seen] = field(default_factory=dict)
    place: Place = (0, 0)


class StepRecorder:
    """The steps of the attempt that is under way; a new attempt forgets those of the last.

    Attributes:
        codes: the code of each frame, by number.
        made: the instruction that each node of the graph was made by.
        guarded: the instruction that each guard was found by.
    """

    def __init__(self) -> None:
        self._attempt: weakref.ref[Any] | None = None
        self._begin(None)

    def _begin(self, attempt: weakref.ref[Any] | None) -> None:
        self._attempt = attempt
        self.codes: list[CodeType] = []
        self.made: dict[Node, Place] = {}
        self.guarded: dict[Guard, Place] = {}
        self._numbers: dict[CodeType, int] = {}
        self._frames: dict[int, _Frame] = {}
        self._alive: list[SymbolicEvaluator] = []
        self._parents: list[int] = []
        self._texts: dict[str, int] = {}
        self._steps: list[Step] = []
        self._left_out = 0
        self._last: tuple[SymbolicEvaluator, Instruction] | None = None

    def watch(self, evaluator: SymbolicEvaluator, instruction: Instruction) -> None:
        """Take in the state in front of an instruction."""
        capture: Any = evaluator.capture
        if self._attempt is None or self._attempt() is not capture:
            self._begin(weakref.ref(capture))
        self._note_made(capture)
        frame = self._frame(evaluator)
        frame.place = frame.code, evaluator.program.positions[id(instruction)]
        if len(self._steps) < MOST_STEPS:
            self._steps.append(self._step(frame, evaluator))
        else:
            self._left_out += 1
        self._last = evaluator, instruction

    def finish(self, end: str) -> Steps:
        """Return the steps of the last attempt; `end` says how it ended."""
        capture = self._attempt and self._attempt()
        if capture is not None:
            self._note_made(capture)
        self._alive.clear()
        self._frames.clear()
        self._last = None
        return Steps(
            tuple(self._texts),
            tuple(code.co_qualname for code in self.codes),
            tuple(self._parents),
            tuple(self._steps),
            tuple(map(str, self.guarded)),
            end,
            self._left_out,
        )

    def _frame(self, evaluator: SymbolicEvaluator) -> _Frame:
        found = self._frames.get(id(evaluator))
        if found is None:
            number = self._numbers.setdefault(evaluator.code, len(self.codes))
            if number == len(self.codes):
                self.codes.append(evaluator.code)
            found = self._frames[id(evaluator)] = _Frame(len(self._parents), number)
            self._alive.append(evaluator)  # so that no other evaluator gets its identity
            parent = None if evaluator.parent is None else self._frames.get(id(evaluator.parent))
            self._parents.append(-1 if parent is None else parent.number)
        return found

    def _step(self, frame: _Frame, evaluator: SymbolicEvaluator) -> Step:
        stack = [*map(_seen, evaluator.stack)]
        keep = _common(frame.stack, stack)
        pushed = tuple(self._text(describe(value)) for value in evaluator.stack[keep:])
        values = {name: _seen(value) for name, value in evaluator.locals.items()}
        changed = {
            name: self._text(describe(evaluator.locals[name]))
            for name, seen in values.items()
            if frame.locals.get(name) != seen
        }
        changed |= dict.fromkeys(frame.locals.keys() - values.keys(), -1)
        frame.stack, frame.locals = stack, values
        made = len(self.guarded), len(self.made)
        return Step(frame.number, *frame.place, keep, pushed, changed, *made)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _note_made(self, capture: Any) -> None:
        """Blame the instruction before this one for the nodes and guards that are new."""
        if self._last is None:
            return
        place = self._blamed(*self._last)
        for node in reversed(capture.root.nodes):
            if node in self.made:
                break
            self.made[node] = place
        if len(capture.guards) > len(self.guarded):
            for guard in [*capture.guards][len(self.guarded) :]:
                self.guarded[guard] = place

    def _blamed(self, evaluator: SymbolicEvaluator, instruction: Instruction) -> Place:
        """Return the instruction that works now: behind a return that is the caller's call."""
        if instruction.opname == "RETURN_VALUE" and evaluator.parent is not None:
            evaluator = evaluator.parent
        found = self._frames.get(id(evaluator))
        return found.place if found is not None else (0, 0)


def _seen(value: VariableTracker) -> Seen:
    if isinstance(value, SequenceVariable):
        return id(value), len(value.elements)
    return id(value), len(value.entries) if isinstance(value, DictVariable) else 0


def _common(old: Sequence[Seen], new: Sequence[Seen]) -> int:
    """Return how many values at the bottom of two stacks are the same."""
    pairs = enumerate(zip(old, new))
    return next((i for i, (a, b) in pairs if a != b), min(len(old), len(new)))
