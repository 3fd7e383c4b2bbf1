"""Instructions that make functions and classes."""

from __future__ import annotations

import builtins
from types import FunctionType

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.polyfills.classes import build_class
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.code import CodeVariable
from minitorch2.bytecode.trackers.python_values.functions import (
    NestedFunctionVariable,
    PolyfillVariable,
)

PARTS = ("defaults", "kwdefaults", "annotations", "closure")


@handles("MAKE_FUNCTION")
def make_function(evaluator: Evaluator, instruction: Instruction) -> None:
    """``[defaults] [kwdefaults] [annotations] [closure] code -> function``"""
    code = evaluator.pop()
    assert isinstance(code, CodeVariable), "MAKE_FUNCTION finds a code object"
    present = [part for part in PARTS if part in instruction.argval]
    parts = dict(zip(present, evaluator.popn(len(present)), strict=True))
    closure = parts["closure"].items(evaluator) if "closure" in parts else []
    function = NestedFunctionVariable(
        code.code,
        evaluator.namespace,
        defaults=parts.get("defaults"),
        kwdefaults=parts.get("kwdefaults"),
        annotations=parts.get("annotations"),
        closure=tuple(cell for cell in closure if isinstance(cell, CellVariable)),
    )
    evaluator.push(function)


@handles("LOAD_BUILD_CLASS")
def load_build_class(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> builtins.__build_class__``"""
    assert isinstance(build_class, FunctionType)
    evaluator.push(PolyfillVariable(build_class, builtins.__build_class__))
