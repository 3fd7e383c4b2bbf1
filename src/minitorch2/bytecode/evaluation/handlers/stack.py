"""Instructions that only move values on the stack."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.null import NULL


@handles("NOP", "RESUME")
def do_nothing(evaluator: Evaluator, instruction: Instruction) -> None:
    """Continue with the next instruction."""


@handles("PUSH_NULL")
def push_null(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> NULL``"""
    evaluator.push(NULL)


@handles("POP_TOP")
def pop_top(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value ->``"""
    evaluator.pop()


@handles("COPY")
def copy(evaluator: Evaluator, instruction: Instruction) -> None:
    """``item_i ... item_1 -> item_i ... item_1 item_i``"""
    evaluator.push(evaluator.stack[-instruction.argval])


@handles("SWAP")
def swap(evaluator: Evaluator, instruction: Instruction) -> None:
    """``item_i ... item_1 -> item_1 ... item_i``"""
    stack, depth = evaluator.stack, instruction.argval
    stack[-1], stack[-depth] = stack[-depth], stack[-1]
