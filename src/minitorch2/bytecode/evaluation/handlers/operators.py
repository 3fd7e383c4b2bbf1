"""Instructions for operators, comparisons and subscripts."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.containers import SliceVariable

UNARY = {"UNARY_POSITIVE": "+", "UNARY_NEGATIVE": "-", "UNARY_INVERT": "~", "UNARY_NOT": "not"}
"""The operator of each unary instruction, as it is written."""


@handles(*UNARY)
def unary(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value -> operator value``"""
    evaluator.push(operations.unary(evaluator, UNARY[instruction.opname], evaluator.pop()))


@handles("BINARY_OP")
def binary(evaluator: Evaluator, instruction: Instruction) -> None:
    """``left right -> left operator right``, in place for ``+=`` and its like."""
    left, right = evaluator.popn(2)
    evaluator.push(operations.binary(evaluator, instruction.argval, left, right))


@handles("COMPARE_OP")
def compare(evaluator: Evaluator, instruction: Instruction) -> None:
    """``left right -> left operator right``"""
    left, right = evaluator.popn(2)
    evaluator.push(operations.compare(evaluator, instruction.argval, left, right))


@handles("IS_OP")
def is_same(evaluator: Evaluator, instruction: Instruction) -> None:
    """``left right -> left is right``, or ``is not``."""
    left, right = evaluator.popn(2)
    same = operations.identical(evaluator, left, right)
    evaluator.push(ConstantVariable(same is not instruction.argval))


@handles("CONTAINS_OP")
def contains(evaluator: Evaluator, instruction: Instruction) -> None:
    """``item container -> item in container``, or ``not in``."""
    item, container = evaluator.popn(2)
    found = operations.contains(evaluator, container, item)
    evaluator.push(operations.unary(evaluator, "not", found) if instruction.argval else found)


@handles("BINARY_SUBSCR")
def subscript(evaluator: Evaluator, instruction: Instruction) -> None:
    """``container key -> container[key]``"""
    container, key = evaluator.popn(2)
    evaluator.push(operations.get_item(evaluator, container, key))


@handles("STORE_SUBSCR")
def store_subscript(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value container key ->``"""
    value, container, key = evaluator.popn(3)
    operations.set_item(evaluator, container, key, value)


@handles("DELETE_SUBSCR")
def delete_subscript(evaluator: Evaluator, instruction: Instruction) -> None:
    """``container key ->``"""
    container, key = evaluator.popn(2)
    operations.delete_item(evaluator, container, key)


@handles("BINARY_SLICE")
def binary_slice(evaluator: Evaluator, instruction: Instruction) -> None:
    """``container start stop -> container[start:stop]``"""
    container, start, stop = evaluator.popn(3)
    key = SliceVariable([start, stop])
    evaluator.push(operations.get_item(evaluator, container, key))


@handles("STORE_SLICE")
def store_slice(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value container start stop ->``"""
    value, container, start, stop = evaluator.popn(4)
    operations.set_item(evaluator, container, SliceVariable([start, stop]), value)
