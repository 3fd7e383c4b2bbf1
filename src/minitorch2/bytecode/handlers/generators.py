"""Instructions of generators that are consumed inside the captured region."""

from __future__ import annotations

from minitorch2.bytecode import operations
from minitorch2.bytecode.evaluator import Evaluator, handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.observed import ObservedError
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.constant import ConstantVariable
from minitorch2.bytecode.trackers.generator import StopGeneration


@handles("RETURN_GENERATOR")
def return_generator(evaluator: Evaluator, instruction: Instruction) -> None:
    """The evaluator of a generator starts behind its creation; CPython leaves None to be popped."""
    evaluator.push(ConstantVariable(None))


@handles("YIELD_VALUE")
def yield_value(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value -> sent value``: the frame waits until it is resumed."""
    evaluator.yielded = evaluator.pop()


@handles("GET_YIELD_FROM_ITER")
def get_yield_from_iter(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterable -> iterator``"""
    evaluator.push(operations.get_iterator(evaluator, evaluator.pop()))


@handles("SEND")
def send(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator value -> iterator item``, or ``iterator result`` and jump at its end."""
    value = evaluator.pop()
    iterator = evaluator.stack[-1]
    try:
        evaluator.push(_send(evaluator, iterator, value))
    except ObservedError as error:
        if error.kind is not StopIteration:
            raise
        _finish_send(evaluator, error, instruction)


def _send(
    evaluator: Evaluator, iterator: VariableTracker, value: VariableTracker
) -> VariableTracker:
    nothing = value.is_constant() and value.as_constant() is None
    method, args = ("__next__", []) if nothing else ("send", [value])
    return iterator.call_method(evaluator, method, args, {})


def _finish_send(evaluator: Evaluator, error: ObservedError, instruction: Instruction) -> None:
    """Leave the result; an END_SEND (3.12 and later) expects the iterator below it."""
    values = error.values if isinstance(error, StopGeneration) else ()
    if instruction.target is not None and instruction.target.opname != "END_SEND":
        evaluator.pop()
    evaluator.push(values[0] if values else ConstantVariable(None))
    evaluator.jump(instruction.target)


@handles("END_SEND")
def end_send(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator result -> result``"""
    result = evaluator.pop()
    evaluator.pop()
    evaluator.push(result)
