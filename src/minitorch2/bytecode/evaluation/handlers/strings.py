"""Instructions of formatted string literals."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable


@handles("FORMAT_VALUE")
def format_value(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value [spec] -> string``"""
    conversion, has_spec = instruction.argval
    spec = evaluator.pop() if has_spec else None
    evaluator.push(operations.format_value(evaluator, evaluator.pop(), conversion, spec))


@handles("CONVERT_VALUE")
def convert_value(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value -> str(value)``, ``repr(value)`` or ``ascii(value)``"""
    conversion = instruction.argval
    evaluator.push(operations.format_value(evaluator, evaluator.pop(), conversion, None))


@handles("BUILD_STRING")
def build_string(evaluator: Evaluator, instruction: Instruction) -> None:
    """``string... -> joined string``"""
    parts = evaluator.popn(instruction.argval)
    evaluator.push(ConstantVariable("".join(str(part.as_constant()) for part in parts)))
