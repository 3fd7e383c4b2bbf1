"""Forward mode of autograd: `torch.autograd.forward_ad`.

Entering and leaving a level, and making and unpacking dual tensors, are nodes. The level is really
entered while capturing, so that operators on fake tensors carry tangents along. A tangent belongs
to its level: no dual tensor leaves a graph, nor enters one.
"""

from __future__ import annotations

from torch.autograd import forward_ad

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.constant import NONE
from minitorch2.bytecode.trackers.python_values.sequence import NamedTupleVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.transforms import unpacked


@handles(forward_ad.enter_dual_level)
def enter_level(evaluator: Evaluator) -> VariableTracker:
    """``forward_ad.enter_dual_level()``"""
    capture = evaluator.capture
    level = capture.call_in_graph(evaluator, "call_function", forward_ad.enter_dual_level, [])
    capture.levels.append(evaluator.root_step)
    return level


@handles(forward_ad.exit_dual_level)
def exit_level(evaluator: Evaluator) -> VariableTracker:
    """``forward_ad.exit_dual_level()``"""
    capture = evaluator.capture
    if not capture.levels:
        unsupported("torch-context", "a level of forward mode that was entered outside is left")
    capture.call_in_graph(evaluator, "call_function", forward_ad.exit_dual_level, [])
    capture.levels.pop()
    return NONE


@handles(forward_ad.make_dual)
def make_dual(
    evaluator: Evaluator,
    tensor: VariableTracker,
    tangent: VariableTracker,
    **level: VariableTracker,
) -> VariableTracker:
    """``forward_ad.make_dual(tensor, tangent)``"""
    args, capture = [tensor, tangent], evaluator.capture
    return capture.call_in_graph(evaluator, "call_function", forward_ad.make_dual, args, level)


@handles(forward_ad.unpack_dual)
def unpack_dual(
    evaluator: Evaluator, tensor: VariableTracker, **level: VariableTracker
) -> VariableTracker:
    """``forward_ad.unpack_dual(tensor)``; outside of levels the tensor itself, without tangent."""
    cls, parts = forward_ad.UnpackedDualTensor, [tensor, NONE]
    if evaluator.capture.levels:
        found = evaluator.capture.call_in_graph(
            evaluator, "call_function", unpacked, [tensor], level
        )
        parts = found.items(evaluator)
    return NamedTupleVariable(parts, cls, cls._fields)
