"""Ends of segments: how residual code suspends a generator or coroutine.

    end ::= return Yielded(value, lambda sent: __resume_at_38_2(sent, x), handler)
         |  return Delegated(iterator, lambda result: __resume_at_52_3(result, x), handler)

    handler ::= lambda error: __resume_at_60_4(error, x)      the `except` or `finally` around it

A suspension is not a graph break: the program waits there in any case. Generators that the frame
has begun and that live on are written in the same way, wherever the frame ends. PEP 342, 380, 492,
525; PyTorch 2 paper, section 3.8, for the continuations.
"""

from __future__ import annotations

from dataclasses import replace

from minitorch2.bytecode.frames.steps import After, Delegated, Yielded
from minitorch2.bytecode.machine.instruction import ExceptionHandler, Instruction
from minitorch2.bytecode.residual.breaks import FrameEnd
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.null import ResidualVariable
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.python_values.generator import (
    GeneratorVariable,
    last_instruction,
    waits_for_iterator,
)
from minitorch2.foundation.blocks import replacing


def suspend(end: FrameEnd) -> None:
    """Write the end of the captured frame's own segment."""
    end.residual.emit(f"return {step(end, end.evaluator.yielded)}")


def step(end: FrameEnd, value: VariableTracker | None) -> str:
    """Return the step with which a frame is suspended, as an expression.

    Args:
        value: the yielded value; None if it is not known, or if it was delivered already.
    """
    if waits_for_iterator(end.evaluator):
        parts = [_iterator(end, value), *_after_iterator(end)]
        return f"{end.residual.reference(Delegated)}({', '.join(parts)})"
    parts = [end.residual.name_for(value or NONE), *_after_yield(end)]
    return f"{end.residual.reference(Yielded)}({', '.join(parts)})"


def suspended(end: FrameEnd, evaluator: Evaluator) -> str:
    """Return the step with which another frame than the captured one is suspended."""
    value = evaluator.yielded if evaluator.is_pending else None
    return step(replace(end, evaluator=evaluator), value)


# The iterator that a frame waits for --------------------------------------------------------------


def _iterator(end: FrameEnd, value: VariableTracker | None) -> str:
    """Return the iterator of a `yield from` or `await`, whose first step was made already."""
    iterator = end.evaluator.stack[-1]
    if isinstance(iterator, GeneratorVariable):
        iterator.frame.is_pending = True
        return end.residual.name_for(iterator)
    name = end.residual.name_for(iterator)
    if last_instruction(end.evaluator).opname == "SEND":
        return name
    first = end.residual.name_for(value or NONE)
    return f"{end.residual.reference(After)}({first}, {name}, {end.residual.capturing})"


def _after_yield(end: FrameEnd) -> list[str]:
    evaluator = end.evaluator
    resume = _going_on(end, "sent", evaluator.stack, evaluator.position)
    return [resume, *_handled(end, last_instruction(evaluator).handler)]


def _after_iterator(end: FrameEnd) -> list[str]:
    evaluator = end.evaluator
    send = sending(evaluator)
    assert send.target is not None
    position = evaluator.program.positions[id(send.target)] + (send.target.opname == "END_SEND")
    resume = _going_on(end, "result", evaluator.stack[:-1], position)
    return [resume, *_handled(end, _outer_handler(last_instruction(evaluator)))]


def sending(evaluator: Evaluator) -> Instruction:
    """Return the SEND of the `yield from` or `await` in which a frame waits."""
    before = evaluator.program.instructions[: evaluator.position]
    return next(each for each in reversed(before) if each.opname == "SEND")


# How it goes on -----------------------------------------------------------------------------------


def _going_on(
    end: FrameEnd, base: str, stack: list[VariableTracker], position: int, *, lasti: bool = False
) -> str:
    """Return a function of the value that the frame waits for, which is put on the stack."""
    evaluator, name = end.evaluator, end.residual.new_name(base)
    below: list[VariableTracker] = [ConstantVariable(0)] if lasti else []
    with replacing(evaluator, "stack", [*stack, *below, ResidualVariable(name)]):
        return f"lambda {name}: {end.continuation_call(position, at_once=True)}"


def _handled(end: FrameEnd, handler: ExceptionHandler | None) -> list[str]:
    """Return the handler of an exception that is thrown in; none if it only leaves the frame."""
    if handler is None or handler.target.opname == "CALL_INTRINSIC_1":
        return []  # a StopIteration becomes a RuntimeError, which generators see to themselves
    stack = end.evaluator.stack[: handler.depth]
    position = end.evaluator.program.positions[id(handler.target)]
    return [_going_on(end, "error", stack, position, lasti=handler.lasti)]


def _outer_handler(waiting: Instruction) -> ExceptionHandler | None:
    """Return the handler behind the one that ends a delegation, as `yield from` does (3.12)."""
    handler = waiting.handler
    if handler is not None and handler.target.opname == "CLEANUP_THROW":
        return handler.target.handler
    return handler
