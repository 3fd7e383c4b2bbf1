"""Ends of a capture: how residual code returns, or goes on behind an unsupported instruction.

    end ::= return value
         |  branch:     if condition: return __resume_at_30_1(b, x)      a data-dependent jump
                        return __resume_at_38_2(b, x)
         |  loop:       one step of an iterator that is not known while capturing
         |  performed:  the instruction as Python, then one continuation
         |  left:       a continuation at the instruction itself, which runs in Python as it is

PyTorch 2 paper, section 3.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minitorch2.bytecode.continuations import Continuation, argument_value, continuation_at
from minitorch2.bytecode.frame_evaluator import FrameEvaluator
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.perform import PERFORMERS, do, is_performable
from minitorch2.bytecode.residual import Residual
from minitorch2.bytecode.trackers.base import unsupported
from minitorch2.bytecode.trackers.residual_value import ResidualVariable

Bind = Callable[[Continuation], str]
"""Makes a continuation callable from residual code; its private name."""


@dataclass
class FrameEnd:
    """Writes the end of one residual function.

    Args:
        evaluator: stands in front of the unsupported instruction.
        residual: where statements go: the end's own to its tail, loads of values to its head.
        bind: gives continuations private names.
        new_number: makes those names unique.
    """

    evaluator: FrameEvaluator
    residual: Residual
    bind: Bind
    new_number: Callable[[], int]

    def write(self, instruction: Instruction) -> None:
        """Perform the instruction and continue behind it.

        Raises:
            UnsupportedError: something that lives on cannot be rebuilt here.
        """
        if self.evaluator.handled:
            unsupported("break-in-handler", "a graph break inside an except clause")
        if instruction.opname in _BRANCHES and instruction.handler is None:
            _BRANCHES[instruction.opname](self, instruction)
        elif is_performable(instruction):
            PERFORMERS[instruction.opname](self.evaluator, self.residual, instruction)
            if instruction.falls_through:
                self.resume(self.evaluator.position + 1)
        else:
            self.resume(self.evaluator.position, as_is=True)

    def resume(self, position: int, *, as_is: bool = False) -> None:
        """``return __resume_at_38_2(stack..., live variables...)``"""
        self.residual.emit(f"return {self.continuation_call(position, as_is=as_is)}")

    def continuation_call(self, position: int, *, as_is: bool = False) -> str:
        """The call of a continuation at an instruction, with the state that it needs."""
        evaluator, residual = self.evaluator, self.residual
        continuation = continuation_at(evaluator, position, self.new_number(), as_is=as_is)
        for name in continuation.arguments:
            residual.hint(argument_value(evaluator, name), name)
        arguments = [
            residual.name_for(argument_value(evaluator, name)) for name in continuation.arguments
        ]
        callee = self.bind(continuation)
        if free := continuation.code.co_freevars:
            cells = [residual.name_for(evaluator.cells[name]) for name in free]
            callee = f"{callee}.closing_over({', '.join(cells)})"
        return f"{callee}({', '.join(arguments)})"

    def branch(self, condition: str, taken: int, otherwise: int) -> None:
        """``if condition: return taken`` and ``return otherwise``."""
        self.residual.emit(f"if {condition}:")
        self.residual.indent()
        self.resume(taken)
        self.residual.indent(-1)
        self.resume(otherwise)

    def target(self, instruction: Instruction) -> int:
        """Where a jump goes."""
        return self.evaluator.program.positions[id(instruction.target)]


def _pop_jump(end: FrameEnd, instruction: Instruction) -> None:
    """The instruction behind the jump comes first, as in the user's program."""
    condition = end.residual.operand(end.evaluator.pop())
    test = _TESTS[instruction.opname].format(condition)
    end.branch(test, end.evaluator.position + 1, end.target(instruction))


_TESTS = {
    "POP_JUMP_IF_FALSE": "{}",
    "POP_JUMP_IF_TRUE": "not {}",
    "POP_JUMP_IF_NONE": "{} is not None",
    "POP_JUMP_IF_NOT_NONE": "{} is None",
}
"""When control falls through to the next instruction."""


def _jump_or_pop(end: FrameEnd, instruction: Instruction) -> None:
    value = end.evaluator.stack[-1]
    condition = end.residual.name_for(value)
    test = condition if instruction.opname == "JUMP_IF_FALSE_OR_POP" else f"not {condition}"
    end.residual.emit(f"if {test}:")
    end.residual.indent()
    end.evaluator.pop()
    end.resume(end.evaluator.position + 1)
    end.residual.indent(-1)
    end.evaluator.push(value)
    end.resume(end.target(instruction))


def _for_iter(end: FrameEnd, instruction: Instruction) -> None:
    """``next(iterator, end)``; the end leaves the loop."""
    residual, evaluator = end.residual, end.evaluator
    iterator = evaluator.stack[-1]
    finished = residual.reference(_EXHAUSTED, "exhausted")
    item = residual.new_name("item")
    step = f"{residual.reference(next)}({residual.name_for(iterator)}, {finished})"
    do(residual, f"{item} = {step}")
    residual.emit(f"if {item} is not {finished}:")
    residual.indent()
    evaluator.push(ResidualVariable(item))
    end.resume(evaluator.position + 1)
    residual.indent(-1)
    evaluator.popn(2)
    end.resume(end.target(instruction))


class _Exhausted:
    """What ``next`` gives at the end of an iterator."""


_EXHAUSTED = _Exhausted()

_BRANCHES: dict[str, Callable[[FrameEnd, Instruction], None]] = {
    **dict.fromkeys(_TESTS, _pop_jump),
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop,
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop,
    "FOR_ITER": _for_iter,
}
