"""Leaves that the captured code makes: `torch.nn.Parameter(t)`, ``t.requires_grad_()``.

The tracker's node is the tensor's data. Differentiable operations read a node of their own::

    x.requires_grad_()    -->    leaf = as_leaf(x)        for reads of x while grad mode is on

So a gradient that the program itself asks for flows to that node, which ends with the graph. If the
leaf outlives the captured code, and the history of a result leads to it, a caller could ask for
more. Then the frame is captured again, and the graph breaks where the leaf is first read.

An assignment of data (``x.data = value``) leaves a tensor its identity and its place in autograd;
its memory, sizes and dtype become those of the value. So the tracker holds another node from there
on, and residual code assigns the data of a tensor from outside::

    p.data = v; q = p * 2    -->    q = v.data * 2 | p.data = v.data
    with gradients:                 q = with_data(p, v.data) * 2 | p.data = v.data

Views that were taken before still have the old memory. An operator that has kept the tensor for
its gradient sees the new data in backward; so a graph whose results need such a gradient ends
before the assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import torch

from minitorch2.bytecode.trackers.base import Arguments, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.side_effects import TensorEffect
from minitorch2.bytecode.trackers.torch_values.hooks import (
    HistoryEscapesError,
    break_where_made,
    check_hooks,
)
from minitorch2.bytecode.trackers.torch_values.tensor import (
    ATTRIBUTE_SETTERS,
    SPECIAL_METHODS,
    TensorVariable,
)
from minitorch2.graph.history import as_leaf, history, is_spent, kept_by, with_data
from minitorch2.graph.symbols import same_sizes


def requires_grad_(
    tensor: TensorVariable, evaluator: Evaluator, requires_grad: VariableTracker | None = None
) -> VariableTracker:
    """``tensor.requires_grad_(mode)``, for a tensor without a history, or a leaf not used yet."""
    if requires_grad is not None and not requires_grad.is_constant():
        unsupported("tensor-method", "Tensor.requires_grad_ of what is not known while capturing")
    wanted = requires_grad is None or bool(requires_grad.as_constant())
    if wanted == tensor.requires_grad:
        return tensor
    freezes = tensor.node.op == "placeholder" and not tensor.node.users and not tensor.accumulates
    freezes = freezes and tensor.get_attribute(evaluator, "is_leaf").truth(evaluator)
    if (tensor.fake.requires_grad and not freezes) or not tensor.fake.dtype.is_floating_point:
        unsupported("tensor-method", "Tensor.requires_grad_ of a tensor with a history")
    if tensor.source is not None:
        state = ConstantVariable(wanted)
        evaluator.capture.side_effects.store_attribute(tensor, "requires_grad", state)
    if tensor.fake.requires_grad:
        frozen = evaluator.capture.call_in_graph(evaluator, "call_method", "detach", [tensor])
        assert isinstance(frozen, TensorVariable)
        tensor.node, tensor.fake = frozen.node, frozen.fake
    else:
        become_leaf(evaluator, tensor, wanted)
    return tensor


def become_leaf(evaluator: Evaluator, tensor: TensorVariable, requires_grad: bool) -> None:
    """Let a tensor be a leaf from here on."""
    capture = evaluator.capture
    if requires_grad and tensor.leaf is None and capture.frame.makes_leaves:
        made = capture.call_in_graph(evaluator, "call_function", as_leaf, [tensor])
        assert isinstance(made, TensorVariable)
        tensor.leaf = made
        capture.leaves.append(tensor)
    tensor.leaf_grad = requires_grad
    if tensor.source is None:
        capture.side_effects.new_object(tensor)


def make_leaf(
    evaluator: Evaluator, data: TensorVariable, cls: type, requires_grad: bool
) -> TensorVariable:
    """``cls(data, requires_grad)`` for `torch.nn.Parameter`: a new leaf on the data's memory."""
    made = TensorVariable(data.node, data.fake, cls)
    made.data = data
    become_leaf(evaluator, made, requires_grad)
    return made


def retain_grad(tensor: TensorVariable, evaluator: Evaluator) -> VariableTracker:
    """``tensor.retain_grad()``: its gradient is kept although it is not a leaf."""
    if not tensor.requires_grad:
        unsupported("operator-error", "retain_grad of a tensor that does not require grad")
    capture = evaluator.capture
    if not tensor.get_attribute(evaluator, "is_leaf").truth(evaluator):
        if not capture.frame.makes_leaves:
            break_where_made(evaluator, tensor, "the gradient of a tensor that is no leaf is kept")
        tensor.fake.retain_grad()
        capture.retaining.append(tensor)
        if tensor.source is None:
            capture.side_effects.new_object(tensor)
        capture.side_effects.add(TensorEffect(torch.Tensor.retain_grad, tensor))
    return NONE


SPECIAL_METHODS["requires_grad_"] = requires_grad_
SPECIAL_METHODS["retain_grad"] = retain_grad


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
    """Return whether a gradient of the new data fits the tensor."""
    same_dtype = tensor.fake.dtype == data.fake.dtype
    return same_dtype and same_sizes(tensor.fake.shape, data.fake.shape)


def _node(evaluator: Evaluator, function: Callable[..., object], args: Arguments) -> TensorVariable:
    made = evaluator.capture.call_in_graph(evaluator, "call_function", function, args)
    assert isinstance(made, TensorVariable)
    return made


def _refuse(what: str) -> NoReturn:
    unsupported("tensor-attribute-write", f"assignment of {what}")


ATTRIBUTE_SETTERS["data"] = set_data


def check_leaves(capture: Capture, residual: Residual) -> None:
    """Check that no gradient that flows to a new leaf can be seen from outside of the graph.

    The same holds for a gradient that a tensor retains which is not a leaf. It also holds for one
    that needs a tensor whose data was assigned: eager takes the new data.

    Raises:
        HistoryEscapesError: a leaf or such a tensor lives on, and the history of an output of the
            graph, or of an input that was written to, leads to it; or an output has a gradient
            that needs assigned data. Or the graph cannot tell which outputs call a hook.
    """
    check_hooks(capture, residual)
    nodes = residual.outputs if capture.replaced_data else []
    if any(_needs_replaced(node.meta["val"], capture.replaced_data) for node in nodes):
        raise HistoryEscapesError
    retaining = (each for each in capture.retaining if each.source is None or each.fake.grad_fn)
    kept = [each for each in (*capture.leaves, *retaining) if residual.is_named(each)]
    inner = {id(each.in_history.fake): each.in_history.fake.grad_fn for each in kept}
    if any(handle.function in inner.values() for handle in capture.hooked):
        raise HistoryEscapesError  # what is kept is the gradient behind the hook
    nodes = [*residual.outputs, *(entry.node for entry in capture.inputs)] if inner else []
    for fake in (node.meta["val"] for node in nodes):
        if not isinstance(fake, torch.Tensor) or fake.grad_fn is None:
            continue
        passed = {getattr(each, "variable", each) for each in history(fake)}
        variables = set(map(id, passed))
        others = (each for each in inner.items() if each[0] != id(fake))
        meets = any(f in passed if f is not None else key in variables for key, f in others)
        if meets and not is_spent(fake):
            raise HistoryEscapesError


def _needs_replaced(fake: object, replaced: Sequence[torch.Tensor]) -> bool:
    if not isinstance(fake, torch.Tensor) or fake.grad_fn is None:
        return False
    identities = set(map(id, replaced))
    needed = (id(each) for function in history(fake) for each in kept_by(function))
    return not identities.isdisjoint(needed) and not is_spent(fake)
