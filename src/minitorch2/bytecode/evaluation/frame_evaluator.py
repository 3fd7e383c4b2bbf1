"""The evaluator of the captured frame itself: it counts its steps and stops at break points."""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType

from minitorch2.bytecode.evaluation.capture import FrameCapture
from minitorch2.bytecode.evaluation.evaluator import SymbolicEvaluator
from minitorch2.bytecode.frames.expressions import unnamed_values
from minitorch2.bytecode.frames.signature import signature_of
from minitorch2.bytecode.guards.sources import CellObjectSource, CellSource, LocalSource
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import unsupported
from minitorch2.bytecode.trackers.lazy import LazyVariable
from minitorch2.bytecode.trackers.observed import ObservedError
from minitorch2.errors import UnsupportedError

MOST_STEPS = 1_000_000
"""A frame that runs longer than this while it is captured is left to Python."""


class FrameEvaluator(SymbolicEvaluator):
    """The captured frame.

    Args:
        capture: a fresh capture of the frame.
        break_points: number of the step in front of which capture stops, with the reason; steps of
            this frame are counted from 0, without steps of inlined frames.
    """

    def __init__(self, capture: FrameCapture, break_points: Mapping[int, UnsupportedError]) -> None:
        frame = capture.frame
        names = dict(zip(frame.code.co_varnames, signature_of(frame.code).names, strict=False))
        shown = unnamed_values(frame.code)
        locals_ = {
            name: LazyVariable(capture, value, LocalSource(names[name], shown.get(name, "")))
            for name, value in frame.values.items()
        }
        super().__init__(capture, frame.code, frame.globals, dict(locals_), {})
        self.break_points = break_points
        self.steps = 0
        self._add_free_variables()

    def _add_free_variables(self) -> None:
        function = self.capture.frame.function
        cells: tuple[CellType, ...] = function.__closure__ or ()
        for name, cell in zip(self.code.co_freevars, cells, strict=True):
            self.cells[name] = self.capture.outer_cell(
                name, cell, CellObjectSource(name), CellSource(name)
            )

    @property
    def next_instruction(self) -> Instruction:
        """The instruction that is evaluated next, or was being evaluated when capture stopped."""
        return self.program.instructions[self.position]

    def run_to_break(self) -> UnsupportedError | None:
        """Evaluate until the frame returns or is suspended (None), or a break point is next (its
        reason)."""
        while self.result is None and self.yielded is None and not self.is_waiting:
            if self.steps in self.break_points:
                return self.break_points[self.steps]
            try:
                self.step()
            except RecursionError:
                unsupported("recursion", "calls, or values that contain themselves, nest too deep")
            self.steps += 1
            if self.steps > MOST_STEPS:
                unsupported(
                    "too-long", f"{self.code.co_name} runs for more than {MOST_STEPS} steps"
                )
        return None

    def catch(self, error: ObservedError, instruction: Instruction) -> None:
        """Let Python raise, at this instruction, an exception that leaves the captured frame."""
        try:
            super().catch(error, instruction)
        except ObservedError:
            name = error.kind.__name__
            line = self.source_line()
            cause = f"{name} leaves the function"
            raise UnsupportedError(cause, code="exception", user_line=line) from error
