"""Tensors of which each process has a part (`DTensor`): functions that capture knows by rule.

Operators on distributed tensors are operators of the graph, as those on all tensors made of others
are. Below autograd they are operators on this process's part, and collectives. A conversion is one
node of the captured graph::

    conversion ::= Conversion(function, mesh, placements, ...)(tensor)

Placements (`Shard(0)`, `Replicate()`, `Partial()`) are constants, and a mesh is an object from
outside. Capture imports this module in a process whose program has distributed tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from types import BuiltinFunctionType
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.constant import OTHER_CONSTANT_TYPES, fold
from minitorch2.bytecode.trackers.python_values.constructors import constructs
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.distributed.collectives import wait
from minitorch2.distributed.groups import known_outside, read_while_capturing
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.wrapper_tensors import GRADIENTS, GradientRule
from minitorch2.native.torch_internals.collectives import functional

_WAITS = {"async_op": False}
"""Graphs wait for collectives as late as they can, whatever a call asks for."""


@dataclass(frozen=True, eq=False)
class Conversion:
    """In a graph: a function that converts a tensor, with its other arguments.

    Attributes:
        function: `DTensor.redistribute`, `to_local`, `full_tensor` or `from_local`.
        named: its other arguments, by name.
    """

    function: Callable[..., Any]
    named: dict[str, Any]

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, tensor: Any) -> Any:
        """``tensor -> tensor``"""
        return self.function(tensor, **self.named)


def convert_in_graph(function: Callable[..., Any]) -> None:
    """Let capture make each call of a conversion a node of the graph."""
    parameters = signature(function)

    @models(function)
    def call(evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker) -> Any:
        tensor, *others = parameters.bind(*args, **kwargs).arguments.items()
        if not isinstance(tensor[1], TensorVariable):
            unsupported("tensor-subclass", f"{function.__qualname__} of a {tensor[1]}")
        for size in tensor[1].fake.shape:
            int(size)  # fixes a symbol: PyTorch computes placements with numbers
        named = {name: known_outside(evaluator, value) for name, value in others}
        named |= {name: value for name, value in _WAITS.items() if name in named}
        target = Conversion(function, named)
        return evaluator.capture.call_in_graph(evaluator, "call_function", target, [tensor[1]])


def read_in_graph(name: str) -> None:
    """Let capture read a property of distributed tensors off the one that it has."""

    @models(getattr(DTensor, name).fget)
    def read(evaluator: Evaluator, tensor: TensorVariable) -> VariableTracker:
        value = getattr(tensor.fake, name)
        return evaluator.capture.wrap(value, evaluator.capture.reference(value))


def ask_now(cls: type) -> None:
    """Let capture call the methods of a placement, such as ``is_shard(0)``, which are C code."""
    for method in vars(cls).values():
        function = getattr(method, "__func__", None)
        if isinstance(function, BuiltinFunctionType):
            models(function)(lambda evaluator, *args, _of=function, **named: fold(_of, args, named))


def of_gradient(context: Any) -> Any:
    """Return the context of a distributed tensor's gradient, given the tensor's own.

    A tensor may be the sum of what processes have. Each of them has the whole gradient, which is
    not a leaf. Versions of PyTorch have placements in the context itself, or in an object in it.
    """
    first, *others, _ = context
    if isinstance(first, tuple):
        return tuple(map(summed, first)), *others, False
    return replace(first, placements=tuple(map(summed, first.placements))), *others, False


def summed(placement: Any) -> Any:
    """Return the placement of a sum whose parts processes have: all have the whole."""
    return Replicate() if isinstance(placement, Partial) else placement


def placements_in(context: Any) -> Any:
    """Return the part of a distributed tensor's context that says how parts make the whole.

    The rest, such as strides and the flag of a leaf, may differ between a tensor and its gradient.
    """
    first = context[0]
    return first if isinstance(first, tuple) else (first.placements, first.mesh)


def wait_without_data(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that waits at once for a collective on tensors without data.

    PyTorch gives a tensor that waits when it is first read. In a graph the wait is a node, and the
    pass `overlap_collectives` says when it runs.
    """

    def waiting(started: torch.Tensor) -> Any:
        return wait(started) if isinstance(started, FakeTensor) else original(started)

    return waiting


OTHER_CONSTANT_TYPES.append(Placement)
GRADIENTS[DTensor] = GradientRule(of_gradient, placements_in)
functional._maybe_wrap_tensor = wait_without_data(functional._maybe_wrap_tensor)
for _function in (DTensor.redistribute, DTensor.to_local, DTensor.full_tensor, DTensor.from_local):
    convert_in_graph(_function)
for _name in ("placements", "device_mesh"):
    read_in_graph(_name)
_DIMENSIONS: Any = vars(DeviceMesh)["ndim"]
for _asked in (_DIMENSIONS.fget, DeviceMesh.size, DeviceMesh.get_local_rank):
    read_while_capturing(_asked)
for _class in (Partial, Replicate, Shard):
    constructs(_class)(lambda evaluator, *args, _of=_class, **named: fold(_of, args, named))
    for _base in _class.__mro__:
        ask_now(_base)
