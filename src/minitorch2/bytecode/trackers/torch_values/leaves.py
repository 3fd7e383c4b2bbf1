"""Leaves that the captured code makes: `torch.nn.Parameter(t)`, ``t.requires_grad_()``.

The tracker's node is the tensor's data. Differentiable operations read a node of their own::

    x.requires_grad_()    -->    leaf = as_leaf(x)        for reads of x while grad mode is on

So a gradient that the program itself asks for flows to that node, which ends with the graph. If the
leaf outlives the captured code, and the history of a result leads to it, a caller could ask for
more. Then the frame is captured again, and the graph breaks where the leaf is first read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from minitorch2.bytecode.side_effects import RetainedGradient
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.torch_values.hooks import break_where_made
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.graph.history import as_leaf, history, is_spent, kept_by

if TYPE_CHECKING:
    from minitorch2.bytecode.capture import Capture
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual


class HistoryEscapesError(Exception):
    """A caller could ask for the gradient of a leaf that the graph holds."""


def requires_grad_(
    tensor: TensorVariable, evaluator: Evaluator, requires_grad: VariableTracker | None = None
) -> VariableTracker:
    """``tensor.requires_grad_(mode)``, for a tensor that has no history."""
    if requires_grad is not None and not requires_grad.is_constant():
        unsupported("tensor-method", "Tensor.requires_grad_ of what is not known while capturing")
    wanted = requires_grad is None or bool(requires_grad.as_constant())
    if wanted == tensor.requires_grad:
        return tensor
    if tensor.fake.requires_grad or not tensor.fake.dtype.is_floating_point:
        unsupported("tensor-method", "Tensor.requires_grad_ of a tensor with a history")
    if tensor.source is not None:
        state = ConstantVariable(wanted)
        evaluator.capture.side_effects.store_attribute(tensor, "requires_grad", state)
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
        capture.side_effects.add(RetainedGradient(tensor))
    return NONE


SPECIAL_METHODS["requires_grad_"] = requires_grad_
SPECIAL_METHODS["retain_grad"] = retain_grad


def check_leaves(capture: Capture, residual: Residual) -> None:
    """Check that no gradient that flows to a new leaf can be seen from outside of the graph.

    Nor may a gradient be seen that a tensor retains which is not a leaf, or that needs a tensor
    whose data was assigned: eager takes the new data for it.

    Raises:
        HistoryEscapesError: a leaf or such a tensor lives on, and the history of an output of the
            graph, or of an input that was written to, leads to it; or an output has a gradient
            that needs assigned data.
    """
    nodes = residual.outputs if capture.replaced_data else []
    if any(_needs_replaced(node.meta["val"], capture.replaced_data) for node in nodes):
        raise HistoryEscapesError
    kept = [each for each in (*capture.leaves, *capture.retaining) if residual.is_named(each)]
    inner = {id(each.in_history.fake): each.in_history.fake.grad_fn for each in kept}
    nodes = [*residual.outputs, *(entry.node for entry in capture.inputs)] if inner else []
    for fake in (node.meta["val"] for node in nodes):
        if not isinstance(fake, torch.Tensor) or fake.grad_fn is None or id(fake) in inner:
            continue
        passed = {getattr(each, "variable", each) for each in history(fake)}
        if any(_is_passed(*each, passed) for each in inner.items()) and not is_spent(fake):
            raise HistoryEscapesError


def _needs_replaced(fake: object, replaced: Sequence[torch.Tensor]) -> bool:
    if not isinstance(fake, torch.Tensor) or fake.grad_fn is None:
        return False
    identities = set(map(id, replaced))
    needed = (id(each) for function in history(fake) for each in kept_by(function))
    return not identities.isdisjoint(needed) and not is_spent(fake)


def _is_passed(tensor: int, function: object, passed: set[object]) -> bool:
    return function in passed if function is not None else tensor in map(id, passed)
