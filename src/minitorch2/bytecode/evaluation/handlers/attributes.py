"""Instructions that read and write attributes."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.null import NULL
from minitorch2.bytecode.trackers.python_values.exceptions import read_attribute


@handles("LOAD_ATTR")
def load_attr(evaluator: Evaluator, instruction: Instruction) -> None:
    """``object -> object.name``"""
    evaluator.push(read_attribute(evaluator, evaluator.pop(), instruction.argval))


@handles("LOAD_METHOD")
def load_method(evaluator: Evaluator, instruction: Instruction) -> None:
    """``object -> NULL object.name``"""
    attribute = read_attribute(evaluator, evaluator.pop(), instruction.argval)
    evaluator.push(NULL)
    evaluator.push(attribute)


@handles("STORE_ATTR")
def store_attr(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value object ->``"""
    owner = evaluator.pop()
    owner.set_attribute(evaluator, instruction.argval, evaluator.pop())


@handles("DELETE_ATTR")
def delete_attr(evaluator: Evaluator, instruction: Instruction) -> None:
    """``object ->``"""
    evaluator.pop().delete_attribute(evaluator, instruction.argval)


@handles("LOAD_SUPER_ATTR")
def load_super_attr(evaluator: Evaluator, instruction: Instruction) -> None:
    """``super class self -> attribute``"""
    evaluator.push(_super_attribute(evaluator, instruction))


@handles("LOAD_SUPER_METHOD")
def load_super_method(evaluator: Evaluator, instruction: Instruction) -> None:
    """``super class self -> NULL attribute``"""
    attribute = _super_attribute(evaluator, instruction)
    evaluator.push(NULL)
    evaluator.push(attribute)


def _super_attribute(evaluator: Evaluator, instruction: Instruction) -> VariableTracker:
    name, explicit = instruction.argval
    function, cls, instance = evaluator.popn(3)
    made = evaluator.call(function, [cls, instance] if explicit else [])
    return read_attribute(evaluator, made, name)
