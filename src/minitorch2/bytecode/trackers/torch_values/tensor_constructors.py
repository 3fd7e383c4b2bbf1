"""Tensors made by calling a class: `torch.nn.Parameter(t)`, `torch.Tensor([1, 2])`, ..."""

from __future__ import annotations

import torch

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, is_none
from minitorch2.bytecode.trackers.python_values.sequence import (
    SequenceVariable,
    SizeVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.torch_values.leaves import make_leaf
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import LEGACY_TYPES
from minitorch2.bytecode.trackers.torch_values.torch_function import tensor


@constructs(torch.nn.Parameter)
def make_parameter(
    evaluator: Evaluator,
    data: VariableTracker | None = None,
    requires_grad: VariableTracker | None = None,
) -> VariableTracker:
    """``torch.nn.Parameter(data, requires_grad)``: a new leaf on the data's memory."""
    if not isinstance(data, TensorVariable) or data.cls is not torch.Tensor:
        unsupported("construction", "a Parameter of something that is no plain tensor")
    wanted = requires_grad is None or requires_grad.truth(evaluator)
    if wanted and not (data.fake.is_floating_point() or data.fake.is_complex()):
        unsupported("operator-error", "only tensors of floating point can require gradients")
    return make_leaf(evaluator, data, torch.nn.Parameter, wanted)


def make_legacy(
    evaluator: Evaluator, dtype: torch.dtype, args: tuple[VariableTracker, ...]
) -> VariableTracker:
    """``torch.FloatTensor([1, 2])`` of data, ``torch.FloatTensor(2, 3)`` of sizes."""
    return _of_sizes_or_data(evaluator, dtype, torch.device("cpu"), args)


def _of_sizes_or_data(
    evaluator: Evaluator,
    dtype: torch.dtype,
    device: torch.device,
    args: tuple[VariableTracker, ...],
) -> VariableTracker:
    kwargs = {"dtype": ConstantVariable(dtype), "device": ConstantVariable(device)}
    sizes: VariableTracker | None = (
        args[0] if len(args) == 1 and isinstance(args[0], SizeVariable) else None
    )
    if sizes is None and all(a.python_type() is int for a in args):
        sizes = TupleVariable(args if args else [ConstantVariable(0)])
    if sizes is not None:
        call = evaluator.capture.call_in_graph
        return call(evaluator, "call_function", torch.empty, [sizes], kwargs)
    if len(args) != 1 or not isinstance(args[0], SequenceVariable):
        unsupported("construction", "a tensor made of something else than numbers")
    return tensor(evaluator, args[0], **kwargs)


@constructs(torch.Tensor)
def make_tensor(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
    """``torch.Tensor(data)`` has the default dtype."""
    if len(args) == 1 and isinstance(args[0], TensorVariable):
        alias = torch.ops.aten.alias.default
        return evaluator.capture.call_in_graph(evaluator, "call_function", alias, args)
    return make_legacy(evaluator, torch.get_default_dtype(), args)


def new(
    x: TensorVariable, evaluator: Evaluator, *args: VariableTracker, device: VariableTracker = NONE
) -> VariableTracker:
    """``x.new(2, 3)`` and ``x.new(torch.Size([2, 3]))`` of sizes, ``x.new([2, 3])`` of data."""
    place = x.fake.device if device is NONE else torch.device(device.as_constant())
    if len(args) == 1 and isinstance(args[0], TensorVariable):
        unsupported("construction", "Tensor.new of a tensor")
    return _of_sizes_or_data(evaluator, x.fake.dtype, place, args)


SPECIAL_METHODS["new"] = new


def new_tensor(
    x: TensorVariable, evaluator: Evaluator, data: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``x.new_tensor(data)`` has the dtype and the device of the tensor."""
    own = {"dtype": ConstantVariable(x.fake.dtype), "device": ConstantVariable(x.fake.device)}
    given = {name: value for name, value in kwargs.items() if not is_none(value)}
    return tensor(evaluator, data, **{**own, **given})


SPECIAL_METHODS["new_tensor"] = new_tensor


def _handle(cls: type, dtype: torch.dtype) -> None:
    @constructs(cls)
    def make(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
        return make_legacy(evaluator, dtype, args)


for _cls, _dtype in LEGACY_TYPES.items():
    _handle(_cls, _dtype)
