"""Assignment of a tensor's data: ``x.data = value``.

The object keeps its identity and its place in autograd; its memory, sizes and dtype become those of
the value. So the tracker holds another node from there on, and residual code assigns the data of
a tensor from outside::

    p.data = v; q = p * 2    -->    q = v.data * 2 | p.data = v.data
    with gradients:                 q = with_data(p, v.data) * 2 | p.data = v.data

Views that were taken before still have the old memory. An operator that has kept the tensor for
its gradient sees the new data in backward; so a graph whose results need such a gradient ends
before the assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.torch_values.tensor import ATTRIBUTE_SETTERS, TensorVariable
from minitorch2.graph.history import with_data
from minitorch2.graph.symbols import same_sizes

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator


def set_data(tensor: TensorVariable, evaluator: Evaluator, value: VariableTracker) -> None:
    """``tensor.data = value``"""
    if _is_own_data(tensor, value):
        return
    if type(tensor) is not TensorVariable or type(value) is not TensorVariable:
        _refuse("the data of a tensor that is no plain one")
    if tensor.requires_grad and not evaluator.capture.frame.makes_leaves:
        _refuse("the data of a tensor that a gradient needs")
    if tensor.requires_grad and not value.fake.dtype.is_floating_point:
        _refuse("data that has no gradient")
    if tensor.fake.device != value.fake.device:
        _refuse("data on another device")
    args = [value.without_gradient(), ConstantVariable("data")]
    data = _node(evaluator, getattr, args)
    if tensor.source is not None:
        evaluator.capture.side_effects.store_attribute(tensor, "data", data)
    _hold(evaluator, tensor, data)


def _is_own_data(tensor: TensorVariable, value: VariableTracker) -> bool:
    """Tell that ``x.data += 1`` only stores what was changed in place already."""
    node = value.node if isinstance(value, TensorVariable) else None
    return node is not None and node.target is getattr and node.args == (tensor.node, "data")


def _hold(evaluator: Evaluator, tensor: TensorVariable, data: TensorVariable) -> None:
    """Let a tensor have other data; gradients still flow to where they did."""
    capture, inner = evaluator.capture, tensor.in_history
    inner = TensorVariable(inner.node, inner.fake)
    capture.replaced_data += [inner.fake, tensor.fake, *([tensor.leaf.fake] if tensor.leaf else [])]
    made = _node(evaluator, with_data, [inner, data])
    made.node.meta["impure"] = True  # it also says that the tensor has other data from here on
    if not tensor.requires_grad:
        made = data
    elif tensor.get_attribute(evaluator, "is_leaf").truth(evaluator):
        tensor.accumulates, tensor.leaf_grad = inner, True
        tensor.leaf = made if _have_one_gradient(tensor, data) else None
        capture.assigned_leaves.append(made.fake)
        made = data
    elif tensor.fake._base is not None or not _have_one_gradient(tensor, data):
        _refuse("data of another size or dtype, or of a view, where gradients flow on")
    tensor.node, tensor.fake = made.node, made.fake
    tensor.data = tensor.data and data


def _have_one_gradient(tensor: TensorVariable, data: TensorVariable) -> bool:
    """Whether a gradient of the new data fits the tensor."""
    same_dtype = tensor.fake.dtype == data.fake.dtype
    return same_dtype and same_sizes(tensor.fake.shape, data.fake.shape)


def _node(
    evaluator: Evaluator, function: Callable[..., object], args: Sequence[VariableTracker]
) -> TensorVariable:
    made = evaluator.capture.call_in_graph(evaluator, "call_function", function, args)
    assert isinstance(made, TensorVariable)
    return made


def _refuse(what: str) -> NoReturn:
    unsupported("tensor-attribute-write", f"assignment of {what}")


ATTRIBUTE_SETTERS["data"] = set_data
