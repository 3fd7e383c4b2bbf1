"""The test whether a frame may contain tensor operations: most Python functions do not."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, ModuleType

import numpy
import torch

from minitorch2.foundation.module_names import is_in_package
from minitorch2.native.torch_internals.global_state import is_tracing
from minitorch2.native.torch_internals.gradients import forward_level, innermost_transform
from minitorch2.native.torch_internals.modes import count_dispatch_modes

_HOLDERS = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, numpy.ndarray)
DEPTH = 2
WIDTH = 32
"""The depth, and the number of elements of each container, to which arguments are searched."""


def is_worth_capturing(function: FunctionType, values: Iterable[object]) -> bool:
    """Return whether an argument, a global or a cell holds a tensor, array, module or optimizer.

    A wrong no costs speed only: the frame runs in Python, and the functions that it calls are
    tested again.
    """
    if innermost_transform() is not None:
        return False  # inside torch.func.vmap or grad: tensors are wrapped and have no storage
    if forward_level() >= 0:
        return False  # dual tensors may be there, whose tangents a graph would lose
    # Modes of the compiler are on only while it works: a finalizer or a handler of signals runs.
    if is_tracing() or count_dispatch_modes() > 0:
        return False  # each operator of this thread is watched, so each must run
    if not function.__globals__.get("__builtins__"):
        return False  # generated code, such as the constructor of a named tuple
    if is_in_package(function.__globals__.get("__name__"), "triton"):
        return False  # a kernel that Triton interprets
    return any(has_tensor(value, DEPTH) for value in values) or _mentions_torch(function)


def has_tensor(value: object, depth: int) -> bool:
    """Return whether the value or, to a depth, one of its parts is or holds a tensor."""
    if isinstance(value, _HOLDERS):
        return True
    if depth == 0 or is_in_package(type(value).__module__, "triton"):
        return False  # Triton's interpreter wraps arrays: there is nothing of the user's in them
    return any(has_tensor(part, depth - 1) for part in _parts(value))


def _parts(value: object) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value[:WIDTH])
    if isinstance(value, dict):
        return list(value.values())[:WIDTH]
    attributes = getattr(value, "__dict__", None)
    return list(attributes.values())[:WIDTH] if isinstance(attributes, dict) else []


def _mentions_torch(function: FunctionType) -> bool:
    namespace = function.__globals__
    for name in function.__code__.co_names:
        value = namespace.get(name)
        if isinstance(value, _HOLDERS):
            return True
        if isinstance(value, ModuleType) and is_in_package(value.__dict__.get("__name__"), "torch"):
            return True
    return any(has_tensor(_contents(cell), 1) for cell in function.__closure__ or ())


def _contents(cell: object) -> object:
    try:
        return getattr(cell, "cell_contents", None)
    except ValueError:  # an empty cell
        return None
