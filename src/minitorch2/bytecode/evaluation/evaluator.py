"""The symbolic evaluator: runs a frame's instructions on trackers instead of values.

A `SymbolicEvaluator` is one frame: the captured one or a function inlined into it. It has the state
of the paper's section 3.4: 1) `stack`, 2) `locals` (and `cells`), 3) `handled`, the exception
context. Shared through `capture` are 4) the graph, 5) the guards and 6) the side effects.

One handler for each canonical instruction, found by the instruction's name in `HANDLERS`; the
handlers live in `handlers/`, a file for each family. An instruction without a handler is a graph
break, never a crash. If every handler has the effect of its instruction, the whole is right, by
induction.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType
from typing import Final

from minitorch2.bytecode.frames.left_to_python import cause_of
from minitorch2.bytecode.frames.skip_files import is_library, is_stand_in, refuses_inlining
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.program import program_of
from minitorch2.bytecode.trackers.arguments import bind_arguments
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Callee, Capture, Evaluator
from minitorch2.bytecode.trackers.null import NullVariable
from minitorch2.bytecode.trackers.observed import ObservedError
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.coroutine import (
    AsyncGeneratorVariable,
    CoroutineVariable,
)
from minitorch2.bytecode.trackers.python_values.exceptions import exception_of
from minitorch2.bytecode.trackers.python_values.generator import GeneratorVariable
from minitorch2.bytecode.trackers.rules import registers
from minitorch2.errors import UnsupportedError
from minitorch2.graph.node import SourceLine

Handler = Callable[[Evaluator, Instruction], None]

DEEPEST = 200
"""Calls deeper than this are not inlined: recursion is left to Python."""

SUSPENDED: Final[dict[int, Callable[[Evaluator], VariableTracker]]] = {
    CO_GENERATOR: GeneratorVariable,
    CO_COROUTINE: CoroutineVariable,
    CO_ASYNC_GENERATOR: AsyncGeneratorVariable,
}
"""The result of a call that does not run the function yet, by the flag of its code."""

HANDLERS: dict[str, Handler] = {}
"""The handler of each canonical instruction, by its name."""

handles: Final[Callable[..., Callable[[Handler], Handler]]] = registers(HANDLERS)
"""Register a function as the handler of some instructions."""


class SymbolicEvaluator:
    """One frame that is evaluated symbolically.

    Args:
        capture: the state that all frames of this attempt share.
        code: the frame's code.
        namespace: globals of the function's module.
        locals: trackers of the parameters.
        cells: the free variables.
        parent: the frame that called this one, if it is inlined.

    Attributes:
        names: the namespace that the body of a class fills.
        yielded: the value that a suspended frame yields.
        is_waiting: whether the frame waits for an iterator that the captured code does not run.
        is_pending: whether the value that it yields, or waits for, still has to be delivered.
    """

    def __init__(
        self,
        capture: Capture,
        code: CodeType,
        namespace: dict[str, object],
        locals: dict[str, VariableTracker],
        cells: dict[str, CellVariable],
        parent: SymbolicEvaluator | None = None,
    ) -> None:
        self.capture = capture
        self.code = code
        self.namespace = namespace
        self.locals = locals
        self.cells = cells
        self.parent = parent
        self.stack: list[VariableTracker] = []
        self.handled: list[VariableTracker] = []
        self.handled_at: list[int] = []  # the stack slot of the exception handled before each
        self.program = program_of(code)
        self.position = 0
        self.line = code.co_firstlineno
        capture.lines.add((code.co_filename, self.line))
        capture.entered[id(code)] = code
        self.result: VariableTracker | None = None
        self.names: VariableTracker | None = None
        self.yielded: VariableTracker | None = None
        self.is_waiting = False
        self.is_pending = False

    # Running -------------------------------------------------------------------------------------

    def run(self) -> VariableTracker:
        """Evaluate until the frame returns; return the tracker of its result."""
        while self.result is None:
            self.step()
        return self.result

    def step(self) -> None:
        """Evaluate one instruction."""
        instruction = self.program.instructions[self.position]
        self.position += 1
        if instruction.line is not None and instruction.line != self.line:
            self.line = instruction.line
            self.capture.lines.add((self.code.co_filename, self.line))
        self.capture.evaluator = self
        for watch in self.capture.watches:
            watch(self, instruction)
        try:
            self.execute(instruction)
        except ObservedError as error:
            self.catch(error, instruction)
        except UnsupportedError as error:
            error.user_line = error.user_line or self.user_stack()[-1]
            error.user_stack = error.user_stack or self.user_stack()
            raise

    def execute(self, instruction: Instruction) -> None:
        """Call the handler of an instruction, which runs it on trackers."""
        handler = HANDLERS.get(instruction.opname)
        if handler is None:
            unsupported("instruction", cause_of(instruction.opname))
        handler(self, instruction)

    def catch(self, error: ObservedError, instruction: Instruction) -> None:
        """Go to the handler of the user's ``try`` or ``with``; without one, leave this frame."""
        exception = exception_of(self, error)
        handler = instruction.handler
        if handler is None:
            raise error
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(NullVariable())
        self.push(exception)
        self.jump(handler.target)

    def jump(self, target: Instruction | None) -> None:
        """Continue at another instruction."""
        assert target is not None, "a jump without a target"
        self.position = self.program.positions[id(target)]

    # Stack ---------------------------------------------------------------------------------------

    def push(self, value: VariableTracker) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> VariableTracker:
        """Take the top of the stack."""
        return self.stack.pop()

    def popn(self, count: int) -> list[VariableTracker]:
        """Take the `count` topmost values, the deepest first."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    # Calls ---------------------------------------------------------------------------------------

    def call(
        self, function: VariableTracker, args: Arguments = (), kwargs: Keywords | None = None
    ) -> VariableTracker:
        """``function(*args, **kwargs)``."""
        return function.call(self, list(args), dict(kwargs or {}))

    def inline(
        self, callee: Callee, args: Arguments, kwargs: Keywords | None = None
    ) -> VariableTracker:
        """Evaluate a call of a Python function here, as part of the caller's capture.

        Raises:
            UnsupportedError: the callee must not be inlined, or something in it is not supported:
                a break at the call in the captured frame; the callee is then captured on its own.
            ObservedError: the callee raises.
        """
        code = callee.code
        reason = refuses_inlining(code)
        if reason is not None:
            unsupported("not-inlined", reason)
        if self.depth >= DEEPEST:
            unsupported("recursion", f"{code.co_name} is called more than {DEEPEST} deep")
        bound = bind_arguments(callee, args, kwargs or {})
        cells = _free_variables(callee)
        frame = SymbolicEvaluator(self.capture, code, callee.namespace, bound, cells, parent=self)
        suspended = next((kind for flag, kind in SUSPENDED.items() if code.co_flags & flag), None)
        if suspended is not None:
            return suspended(frame)
        try:
            return frame.run()
        except RecursionError:
            unsupported("recursion", f"{code.co_name} is called too deep to be evaluated")

    def evaluate_body(self, callee: Callee, names: VariableTracker) -> VariableTracker:
        """Evaluate the body of a class, which writes its names to a namespace."""
        cells = _free_variables(callee)
        frame = SymbolicEvaluator(
            self.capture, callee.code, callee.namespace, {}, cells, parent=self
        )
        frame.names = names
        return frame.run()

    # Where we are --------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """The number of calls by which this frame is inlined below the captured frame."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def root_step(self) -> int:
        """The number of the step at which the captured frame is."""
        return getattr(self, "steps", 0) if self.parent is None else self.parent.root_step

    def source_line(self) -> SourceLine:
        """Return the user's line that is being evaluated.

        Stand-ins for C code have none. An inlined library has the line that calls it, if that is
        the user's.
        """
        file = self.code.co_filename
        if self.parent is not None and (is_stand_in(file) or is_library(file)):
            around = self.parent.source_line()
            if is_stand_in(file) or not is_library(around.file):
                return around
        known = self.capture.source_lines.get((id(self.code), self.line))
        if known is None:
            text = linecache.getline(file, self.line, self.namespace).strip()
            known = SourceLine(file, self.line, text, self.code.co_name)
            self.capture.source_lines[id(self.code), self.line] = known
        return known

    def user_stack(self) -> tuple[SourceLine, ...]:
        """Return the lines that are being evaluated: the captured frame's first, then inlined
        calls'.

        Libraries, and Python that stands in for C code, are left out: the user did not write these
        calls.
        """
        around = () if self.parent is None else self.parent.user_stack()
        line = self.source_line()
        return (*around, line) if not around or line.file == self.code.co_filename else around


def _free_variables(callee: Callee) -> dict[str, CellVariable]:
    """Return the cells of a callee by their names."""
    cells = (cell for cell in callee.cells if isinstance(cell, CellVariable))
    return dict(zip(callee.code.co_freevars, cells, strict=True))
