"""Instructions that jump, loop and return.

A branch on something that is known while capturing is decided now. A branch on the value of a
tensor ends the graph: residual code decides it (see `minitorch2.bytecode.residual.breaks`). It does
not if one side can only raise, as in ``if not valid.all(): raise ValueError``: the graph goes on
along the other side, and checks that it may. If the check fails, Python runs the frame and
raises.
"""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.raising import always_raises
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.iterator import next_item
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import suppose


@handles("JUMP", "JUMP_NO_INTERRUPT")
def jump(evaluator: Evaluator, instruction: Instruction) -> None:
    """Continue at the target."""
    evaluator.jump(instruction.target)


@handles("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def pop_jump_if(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``; jump if its truth is as the name says."""
    wanted = instruction.opname == "POP_JUMP_IF_TRUE"
    value = evaluator.pop()
    expected = _truth_that_goes_on(evaluator, instruction, wanted)
    has_data = isinstance(value, TensorVariable | SymbolicNumberVariable)
    if has_data and expected is not None:
        truth = suppose(evaluator, value, expected)
    else:
        truth = value.truth(evaluator)
    if truth is wanted:
        evaluator.jump(instruction.target)


def _truth_that_goes_on(
    evaluator: Evaluator, instruction: Instruction, jumps_if: bool
) -> bool | None:
    """Return the truth for which a branch does not raise; None unless exactly one side raises."""
    program = evaluator.program
    assert instruction.target is not None, "a jump without a target"
    target = program.positions[id(instruction.target)]
    jump_raises, rest_raises = (
        always_raises(program.instructions, place) for place in (target, evaluator.position)
    )
    return None if jump_raises == rest_raises else jumps_if is rest_raises


@handles("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def jump_if_or_pop(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value -> value`` and jump, or ``value ->``."""
    wanted = instruction.opname == "JUMP_IF_TRUE_OR_POP"
    if evaluator.stack[-1].truth(evaluator) is wanted:
        evaluator.jump(instruction.target)
    else:
        evaluator.pop()


@handles("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_none(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``; jump if it is None, or if it is not."""
    wanted = instruction.opname == "POP_JUMP_IF_NONE"
    if operations.is_same(evaluator.pop(), ConstantVariable(None)) is wanted:
        evaluator.jump(instruction.target)


@handles("GET_ITER", "GET_YIELD_FROM_ITER")
def get_iter(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterable -> iterator``"""
    evaluator.push(operations.get_iterator(evaluator, evaluator.pop()))


@handles("FOR_ITER")
def for_iter(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator -> iterator item``; an exhausted iterator is popped, and we jump."""
    item = next_item(evaluator, evaluator.stack[-1])
    if item is None:
        evaluator.pop()
        evaluator.jump(instruction.target)
    else:
        evaluator.push(item)


@handles("RETURN_VALUE")
def return_value(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``; the frame is done."""
    evaluator.result = evaluator.pop()
