"""From kernels, and from operators that launch kernels, to trackers."""

from __future__ import annotations

from minitorch2.bytecode.building.build import BUILDERS, BUILDERS_BY_QUESTION
from minitorch2.bytecode.building.callables import wrap_custom_operator
from minitorch2.bytecode.building.guarding import by_identity, identity_guards
from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.kernel_capture.kernel import TritonKernelVariable, TritonObjectVariable
from minitorch2.bytecode.kernel_capture.operator import (
    TritonOperatorVariable,
    definition_of,
    is_triton_operator,
)
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.graph.kernel_launch import is_triton_kernel
from minitorch2.native.torch_internals.operators import CustomOpDef


def is_of_language(value: object) -> bool:
    """Return whether a value is of Triton's language, such as a data type."""
    return type(value).__module__ == "triton.language.core"


def wrap_operator(capture: Capture, value: object, source: Source) -> VariableTracker:
    """Return the tracker of an operator that `triton_op` made: it is evaluated as Python."""
    identity_guards(capture, value, source)
    return TritonOperatorVariable(definition_of(value), source=source)


def wrap_definition(capture: Capture, value: CustomOpDef, source: Source) -> VariableTracker:
    """Return the tracker of a custom operator by its definition."""
    made = wrap_operator if is_triton_operator(value) else wrap_custom_operator
    return made(capture, value, source)


BUILDERS[CustomOpDef] = wrap_definition
BUILDERS_BY_QUESTION[is_triton_operator] = wrap_operator
BUILDERS_BY_QUESTION[is_triton_kernel] = by_identity(TritonKernelVariable)
BUILDERS_BY_QUESTION[is_of_language] = by_identity(TritonObjectVariable)
