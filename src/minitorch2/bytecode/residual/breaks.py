"""Ends of a capture: how residual code returns, or goes on behind an unsupported instruction.

    end ::= return value
         |  branch:     if condition: return __resume_at_30_1(b, x)      a data-dependent jump
                        return __resume_at_38_2(b, x)
         |  loop:       one step of an iterator that is not known while capturing
         |  performed:  the instruction as Python, then one continuation
         |  left:       a continuation at the instruction itself, which runs in Python as it is,
                        or is captured, where only the graph had to end

PyTorch 2 paper, section 3.8.
"""

from __future__ import annotations

import inspect
import pdb
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType

from minitorch2.bytecode.machine.instruction import ExceptionHandler, Instruction
from minitorch2.bytecode.residual.continuations import Continuation, Continuations, argument_value
from minitorch2.bytecode.residual.perform import PERFORMERS, do
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.null import ResidualVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable

FRAME_READERS = (
    *(locals, vars, dir, eval, exec, sys._getframe, inspect.currentframe, super),
    *(breakpoint, pdb.set_trace, sys.settrace),
)
"""Functions that residual code must not call for the user, as they would see residual code.

So do all that are called `set_trace`, which are methods and functions of debuggers.
"""

Bind = Callable[[Continuation, dict[str, object]], str]
"""Makes a continuation callable from residual code, in some globals; its private name."""


@dataclass
class FrameEnd:
    """Writes the end of one residual function.

    Args:
        evaluator: stands in front of the unsupported instruction.
        residual: takes the statements: the end's own in its tail, loads of values in its head.
        bind: gives continuations private names.
        continuations: makes them.
    """

    evaluator: Evaluator
    residual: Residual
    bind: Bind
    continuations: Continuations

    def write(self, instruction: Instruction) -> None:
        """Perform the instruction and continue behind it.

        Raises:
            UnsupportedError: something that lives on cannot be rebuilt here.
        """
        if instruction.opname in BRANCHES:
            BRANCHES[instruction.opname](self, instruction)
        elif instruction.opname in PERFORMERS and not self._reads_frame(instruction):
            self._perform(instruction)
            if instruction.falls_through:
                self.resume(self._drop_unused_result(self.evaluator.position + 1))
        else:
            self.leave(instruction)

    def _drop_unused_result(self, position: int) -> int:
        """Drop a result that the next instruction pops; return the position to go on at."""
        if self.evaluator.program.instructions[position].opname != "POP_TOP":
            return position
        self.evaluator.stack.pop()
        return position + 1

    def _reads_frame(self, instruction: Instruction) -> bool:
        """Return whether a call looks at the variables of the frame that makes it."""
        if instruction.opname not in ("CALL", "CALL_FUNCTION_EX"):
            return False
        return any(map(_reads_its_caller, self.evaluator.stack))

    def leave(self, instruction: Instruction, *, as_is: bool = True) -> None:
        """Let Python run the rest of the frame, if anything was captured before.

        Args:
            as_is: the rest begins with an instruction that cannot be captured, and runs in Python.
        """
        capture = self.evaluator.capture
        if not len(capture.side_effects) and all(
            n.op == "placeholder" for n in capture.graph.nodes
        ):
            unsupported("nothing-captured", f"{instruction.opname} comes before any operation")
        self.resume(self.evaluator.position, as_is=as_is)

    @contextmanager
    def _handling(self) -> Iterator[None]:
        """Run the block's statements while the exceptions are handled that the user's code handles.

        Continuations are called behind these statements: they begin with handling the exceptions
        themselves.
        """
        for exception in self.evaluator.handled:
            self.residual.emit("try:")
            self.residual.emit_in_block(f"raise {self.residual.name_for(exception)}")
            self.residual.emit("except BaseException:")
            self.residual.indent()
        yield
        self.residual.indent(-len(self.evaluator.handled))

    def _perform(self, instruction: Instruction) -> None:
        with self.caught(instruction):
            PERFORMERS[instruction.opname](self.evaluator, self.residual, instruction)

    @contextmanager
    def caught(self, instruction: Instruction) -> Iterator[None]:
        """Pass an exception of the block's statements to the user's own ``try`` or ``with``."""
        handler, residual = instruction.handler, self.residual
        if handler is None:
            with self._handling():
                yield
            return
        kept = self.evaluator.stack[: handler.depth]
        error = residual.new_name("error")
        caught = residual.new_name(f"caught_{error}")
        with self._handling():
            residual.emit("try:")
            residual.indent()
            yield
            residual.emit(f"{error} = None")
            residual.indent(-1)
            residual.emit(f"except BaseException as {caught}:")
            residual.emit_in_block(f"{error} = {caught}")
        residual.emit(f"if {error} is not None:")
        residual.indent()
        self._resume_handler(handler, kept, error)
        residual.indent(-1)

    def _resume_handler(
        self, handler: ExceptionHandler, kept: list[VariableTracker], error: str
    ) -> None:
        evaluator = self.evaluator
        saved, evaluator.stack = evaluator.stack, list(kept)
        if handler.lasti:
            evaluator.push(ConstantVariable(0))
        evaluator.push(ResidualVariable(error))
        with self.residual.dropping(error):
            self.resume(evaluator.program.positions[id(handler.target)])
        evaluator.stack = saved

    def resume(self, position: int, *, as_is: bool = False) -> None:
        """Write ``return __resume_at_38_2(stack..., live variables...)``."""
        self.residual.emit(f"return {self.continuation_call(position, as_is=as_is)}")

    def continuation_call(
        self, position: int, *, as_is: bool = False, at_once: bool = False
    ) -> str:
        """Return the call of a continuation at an instruction, with the state that it needs.

        Args:
            as_is: the continuation runs in Python.
            at_once: the code that makes the call does not look for tail calls.
        """
        evaluator, residual = self.evaluator, self.residual
        continuation = self.continuations.at(evaluator, position, residual, as_is=as_is)
        for name in continuation.arguments:
            residual.hint(argument_value(evaluator, name), name)
        arguments = [
            residual.name_for(argument_value(evaluator, name)) for name in continuation.arguments
        ]
        callee = self.bind(continuation, evaluator.namespace)
        if free := continuation.code.co_freevars:  # the user's function is a closure itself
            cells = [residual.name_for(evaluator.cells[name]) for name in free]
            callee = f"{callee}.closing_over({', '.join(cells)})"
        if self.continuations.made(evaluator.code) and not at_once:
            callee += ".tail"  # a loop that breaks at each iteration must not nest calls
        return f"{callee}({', '.join(arguments)})"

    def target(self, instruction: Instruction) -> int:
        """Return the position to which an instruction jumps."""
        return self.evaluator.program.positions[id(instruction.target)]


def _reads_its_caller(tracker: VariableTracker) -> bool:
    function = tracker.function if isinstance(tracker, BoundMethodVariable) else tracker
    value = getattr(function, "value", None)
    return any(value is each for each in FRAME_READERS) or (
        isinstance(value, FunctionType) and value.__name__ == "set_trace"
    )


def _pop_jump(end: FrameEnd, instruction: Instruction) -> None:
    """Write a branch; the instruction behind the jump comes first, as in the user's program."""
    residual = end.residual
    condition = residual.operand(end.evaluator.pop())
    test = TESTS[instruction.opname].format(condition)
    test = _tested(end, instruction, test)
    residual.emit(f"if {test}:")
    residual.indent()
    end.resume(end.evaluator.position + 1)
    residual.indent(-1)
    end.resume(end.target(instruction))


def _tested(end: FrameEnd, instruction: Instruction, test: str) -> str:
    """Return the text of a test, which a handler of the program may surround."""
    if instruction.handler is None and not end.evaluator.handled:
        return test
    name = end.residual.new_name("test")
    with end.caught(instruction):
        end.residual.emit(f"{name} = bool({test})")
    return name


TESTS = {
    "POP_JUMP_IF_FALSE": "{}",
    "POP_JUMP_IF_TRUE": "not {}",
    "POP_JUMP_IF_NONE": "{} is not None",
    "POP_JUMP_IF_NOT_NONE": "{} is None",
}
"""When control falls through to the next instruction."""


def _jump_or_pop(end: FrameEnd, instruction: Instruction) -> None:
    residual, value = end.residual, end.evaluator.stack[-1]
    test = residual.name_for(value)
    test = _tested(end, instruction, test)
    residual.emit(
        f"if {test}:" if instruction.opname == "JUMP_IF_FALSE_OR_POP" else f"if not {test}:"
    )
    residual.indent()
    end.evaluator.pop()
    end.resume(end.evaluator.position + 1)
    residual.indent(-1)
    end.evaluator.push(value)
    end.resume(end.target(instruction))


def _for_iter(end: FrameEnd, instruction: Instruction) -> None:
    """``next(iterator, end)``; the end leaves the loop."""
    residual, evaluator = end.residual, end.evaluator
    iterator = residual.name_for(evaluator.stack[-1])
    finished = residual.reference(_EXHAUSTED, "exhausted")
    item = residual.new_name("item")
    with end.caught(instruction):
        do(residual, f"{item} = {residual.reference(next)}({iterator}, {finished})")
    residual.emit(f"if {item} is not {finished}:")
    residual.indent()
    evaluator.push(ResidualVariable(item))
    end.resume(evaluator.position + 1)
    residual.indent(-1)
    evaluator.popn(2)
    end.resume(end.target(instruction))


class _Exhausted:
    """The value that ``next`` gives at the end of an iterator."""


_EXHAUSTED = _Exhausted()

BRANCHES: dict[str, Callable[[FrameEnd, Instruction], None]] = {
    **dict.fromkeys(TESTS, _pop_jump),
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop,
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop,
    "FOR_ITER": _for_iter,
}
"""Instructions that go on in one of two places."""
