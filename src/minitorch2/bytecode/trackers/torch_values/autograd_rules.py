"""`torch.autograd.Function` and `torch.utils.checkpoint`.

A user's function is evaluated twice: its forward pass, then its backward pass on what that saved.
The two graphs become one operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils import checkpoint as checkpointing

from minitorch2.bytecode.graph_functions import Checkpoint, DifferentiableFunction
from minitorch2.bytecode.subgraph import Subgraph, new_input, record
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_function, class_lookup
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.torch_values.context import set_grad_mode
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.effects import is_random
from minitorch2.graph.node import Node

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator

CONTEXT_METHODS: Final = words(
    "save_for_backward mark_non_differentiable mark_dirty set_materialize_grads save_for_forward"
)


class FunctionContext(VariableTracker):
    """The ``ctx`` of a `torch.autograd.Function` while its passes are evaluated."""

    def __init__(self, needs_input_grad: Sequence[bool]) -> None:
        super().__init__()
        self.needs_input_grad = TupleVariable([ConstantVariable(n) for n in needs_input_grad])
        self.saved: list[VariableTracker] = []
        self.constant_outputs: list[VariableTracker] = []
        self.attributes: dict[str, VariableTracker] = {}

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("saved_tensors", "saved_variables"):
            return TupleVariable(self.saved)
        if name == "needs_input_grad":
            return self.needs_input_grad
        if name in self.attributes:
            return self.attributes[name]
        if name in CONTEXT_METHODS:
            return GetAttrVariable(self, name)
        return unsupported("autograd-function", f"ctx.{name} in a torch.autograd.Function")

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        self.attributes[name] = value

    def call_method(
        self,
        evaluator: Evaluator,
        name: str,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        if name == "save_for_backward":
            self.saved = list(args)
        elif name == "mark_non_differentiable":
            self.constant_outputs = list(args)
        elif name not in ("save_for_forward", "set_materialize_grads") or _is_false(args):
            unsupported("autograd-function", f"ctx.{name} in a torch.autograd.Function")
        return NONE


def _is_false(args: Sequence[VariableTracker]) -> bool:
    return bool(args) and args[0].is_constant() and not args[0].as_constant()


@handles(torch.autograd.Function.apply.__func__)  # type: ignore[attr-defined]
def apply(evaluator: Evaluator, cls: VariableTracker, *args: VariableTracker) -> VariableTracker:
    """``Function.apply(...)``"""
    assert isinstance(cls, ClassVariable)
    needs = [torch.is_grad_enabled() and _needs_gradient(a) for a in args]
    context = FunctionContext(needs)
    if not any(needs):
        return _without_gradient(evaluator, cls.value, context, args)
    with torch.no_grad():
        forward = record(evaluator, lambda: _forward(evaluator, cls.value, context, args))
    outputs = _results(forward.result)
    tensors = [output for output in outputs if isinstance(output, TensorVariable)]
    grads = [_gradient_of(evaluator, output) for output in tensors]
    with torch.no_grad():
        backward = record(evaluator, lambda: _backward(evaluator, cls.value, context, grads))
    name = cls.value.__name__
    function, inputs = _assemble(name, context, args, tensors, forward, backward, grads)
    given = [_tracker_of(node) for node in inputs]
    result = evaluator.capture.call_in_graph(evaluator, "call_function", function, given)
    made = iter(result.items(evaluator))
    values = [next(made) if isinstance(o, TensorVariable) else o for o in outputs]
    return TupleVariable(values) if isinstance(forward.result, TupleVariable) else values[0]


def _needs_gradient(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) and value.requires_grad


def _forward(
    evaluator: Evaluator, cls: type, context: FunctionContext, args: Sequence[VariableTracker]
) -> VariableTracker:
    """``forward(ctx, ...)``, or ``forward(...)`` and ``setup_context(ctx, inputs, output)``."""
    function = _static(evaluator, cls, "forward")
    if class_lookup(cls, "setup_context")[0].__module__ == "torch.autograd.function":
        return function.call(evaluator, [context, *args], {})
    output = function.call(evaluator, args, {})
    inputs = TupleVariable(args)
    _static(evaluator, cls, "setup_context").call(evaluator, [context, inputs, output], {})
    return output


def _backward(
    evaluator: Evaluator, cls: type, context: FunctionContext, grads: Sequence[VariableTracker]
) -> VariableTracker:
    return _static(evaluator, cls, "backward").call(evaluator, [context, *grads], {})


def _static(evaluator: Evaluator, cls: type, name: str) -> VariableTracker:
    found_in, raw = class_lookup(cls, name)
    if not isinstance(raw, staticmethod) or found_in.__module__ == "torch.autograd.function":
        unsupported("autograd-function", f"{cls.__name__}.{name} is no static method of its own")
    function = class_function(evaluator, found_in, name, raw, "__func__")
    wrapped = getattr(raw.__func__, "__wrapped__", None)
    if wrapped is not None and raw.__func__.__module__ == "torch.autograd.function":
        return function.get_attribute(evaluator, "__wrapped__")  # once_differentiable
    return function


def _without_gradient(
    evaluator: Evaluator,
    cls: type,
    context: FunctionContext,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    """Only the forward pass; an argument that comes back is a new tensor."""
    enabled = torch.is_grad_enabled()
    set_grad_mode(evaluator, False)
    output = _forward(evaluator, cls, context, args)
    set_grad_mode(evaluator, enabled)
    results = [_as_view(evaluator, r) if r in args else r for r in _results(output)]
    return TupleVariable(results) if isinstance(output, TupleVariable) else results[0]


def _as_view(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    if not isinstance(value, TensorVariable):
        return value
    return value.call_method(evaluator, "view_as", [value], {})


def _results(output: VariableTracker) -> list[VariableTracker]:
    if isinstance(output, TupleVariable | ListVariable):
        return list(output.realized())
    return [output]


def _gradient_of(evaluator: Evaluator, output: TensorVariable) -> TensorVariable:
    """A node that stands for the gradient of an output: it has the output's form."""
    fake: Any = torch.empty_like(output.fake)
    return new_input(evaluator, f"grad_{output.node.name}", fake)


def _assemble(
    name: str,
    context: FunctionContext,
    args: Sequence[VariableTracker],
    outputs: Sequence[TensorVariable],
    forward: Subgraph,
    backward: Subgraph,
    grads: Sequence[TensorVariable],
) -> tuple[DifferentiableFunction, list[Node]]:
    """The operator that the two graphs make, and the nodes it takes."""
    found = [_node(result) for result in _results(backward.result)]
    if len(found) != len(args):
        unsupported("autograd-function", f"{name}.backward gives {len(found)} gradients")
    given = [node for node in found if node is not None]
    grad_nodes = [grad.node for grad in grads]
    reverse, needed = backward.close(given, last=grad_nodes)
    saved = needed[: len(needed) - len(grad_nodes)]
    ahead, inputs = forward.close([*(output.node for output in outputs), *saved])
    places = [_place(node, args, found, given) for node in inputs]
    constant = [i for i, output in enumerate(outputs) if output in context.constant_outputs]
    return DifferentiableFunction(name, ahead, reverse, len(outputs), constant, places), inputs


def _place(
    node: Node,
    args: Sequence[VariableTracker],
    found: Sequence[Node | None],
    given: Sequence[Node],
) -> int | None:
    """Which of backward's results is the gradient of an input; None if it has none."""
    grads = [g for arg, g in zip(args, found, strict=True) if _node(arg) is node and g is not None]
    if len(grads) > 1:
        unsupported("autograd-function", "one tensor is given to a Function twice")
    return given.index(grads[0]) if grads else None


def _node(value: VariableTracker) -> Node | None:
    return value.node if isinstance(value, TensorVariable) else None


def _tracker_of(node: Node) -> TensorVariable:
    return TensorVariable(node, node.meta["val"])


# Checkpoints --------------------------------------------------------------------------------------


@handles(checkpointing.checkpoint)
def checkpoint(
    evaluator: Evaluator,
    function: VariableTracker,
    *args: VariableTracker,
    use_reentrant: VariableTracker = NONE,
    preserve_rng_state: VariableTracker | None = None,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """``checkpoint(function, *args, use_reentrant=False)``: what it computes is one node."""
    reentrant = use_reentrant.as_constant() if use_reentrant.is_constant() else None
    if reentrant is None:
        unsupported("checkpoint", "a checkpoint that does not say use_reentrant")
    if reentrant and (kwargs or not any(map(_needs_gradient, args))):
        unsupported("checkpoint", "a reentrant checkpoint whose arguments do not require grad")
    if kwargs.keys() & {"context_fn", "determinism_check", "debug", "early_stop"}:
        unsupported("checkpoint", "a checkpoint with more options than use_reentrant")
    body = record(evaluator, lambda: function.call(evaluator, list(args), kwargs))
    keeps_state = preserve_rng_state is None or preserve_rng_state.truth(evaluator)
    if not keeps_state and any(map(is_random, body.graph.nodes)):
        unsupported("checkpoint", "a checkpoint that draws other random numbers the second time")
    outputs = _results(body.result)
    nodes = [node for output in outputs if (node := _node(output)) is not None]
    module, inputs = body.close(nodes)
    options = {"use_reentrant": reentrant, "preserve_rng_state": keeps_state}
    given = [_tracker_of(node) for node in inputs]
    target = Checkpoint(module, options)
    made = evaluator.capture.call_in_graph(evaluator, "call_function", target, given)
    results = iter(made.items(evaluator))
    values = [next(results) if isinstance(o, TensorVariable) else o for o in outputs]
    if isinstance(body.result, TupleVariable | ListVariable):
        return body.result.make(values)
    return values[0]
