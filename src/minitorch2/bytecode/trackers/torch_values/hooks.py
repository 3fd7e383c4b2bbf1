"""``register_hook``, and other requests for the gradient of a tensor that is not a leaf.

A leaf keeps its hooks in a dict: to set one changes an object. So does an input that other graphs
have made: their operator calls the hooks. On a tensor that the graph computes, a hook that is a
graph becomes a node, which sets it there::

    y = f(x); z = g(y); y.register_hook(h)    -->    y = f(x); z = g(y); register_hook[h](y)

It reads variables when it runs, which is later. So it is evaluated once more at the end, and must
give the same graph.

Another hook is called where captured code runs the engine. Without that call, Python sets the hook.
The gradient comes from all computations that read the tensor, and a compiled graph hands on the
gradients of its inputs only. So the graph ends where the tensor is made, and the computations that
read it belong to the next graph::

    y = f(x); z = g(y); y.register_hook(h)    -->    y = f(x) | break | z = g(y); ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import CodeType
from typing import Any, Final, NoReturn, TypeAlias

import torch
from torch.utils.hooks import RemovableHandle

from minitorch2.bytecode.guards.sources import AttributeSource
from minitorch2.bytecode.operators.gradient_hook import GradientHook, remove_hook
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import ObservedError
from minitorch2.bytecode.trackers.python_values.constant import NONE
from minitorch2.bytecode.trackers.python_values.functions import UserFunctionVariable
from minitorch2.bytecode.trackers.subgraph import new_input, record
from minitorch2.bytecode.trackers.torch_values.recorded import binders
from minitorch2.bytecode.trackers.torch_values.tensor import (
    ATTRIBUTE_SETTERS,
    SPECIAL_ATTRIBUTES,
    SPECIAL_METHODS,
    TensorVariable,
)
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.errors import UnsupportedError
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.history import history, is_spent
from minitorch2.graph.node import Node, map_nodes

STEP: Final = "step"
"""The key of a node's metadata for the step of the captured frame that made it."""

Place: TypeAlias = tuple[int, bool]
"""The step in front of which a graph ends, and whether the next graph begins with that step."""

RECORDED, WATCHING, CHANGING = "recorded", "watching", "changing"
"""How a capture takes hooks on gradients: each as a graph; or they are called when captured code
finds the gradient, which they see; or which they may change."""

ASKING: Final = words("register_hook retain_grad grad")
"""Names by which a program asks about gradients of tensors that are not leaves."""


class HistoryEscapesError(Exception):
    """A caller could ask for the gradient of a leaf that the graph holds, or see a hook's."""


class HistoryWrittenError(Exception):
    """A graph may write to inputs that other graphs have made, if the argument is true."""


def leave_writes_to_python(capture: Capture) -> None:
    """Capture once more without writes to inputs whose history begins outside, if there are any."""
    if capture.frame.writes_history:
        raise HistoryWrittenError(False)


class HooksRunInsideError(Exception):
    """A hook is not a graph, or changes a gradient; its argument says how to take hooks instead."""


class AskedLaterError(Exception):
    """The code behind a break may ask about a tensor that is read in front of the break."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


def break_where_made(evaluator: Evaluator, tensor: TensorVariable, cause: str) -> NoReturn:
    """Let the graph end at the instruction that made a tensor, or wrote to it last."""
    writes = [user for user in tensor.node.users if user.meta.get("impure")]
    made = [*(() if tensor.node.op == "placeholder" else (tensor.node,)), *writes]
    if made:
        evaluator.capture.break_at = _place_after(max(made, key=_step), tensor.node.users)
    unsupported("tensor-method", cause)


def check_asked(capture: Capture, residual: Residual, code: CodeType, step: int) -> None:
    """Check that a graph which breaks ends before a tensor is read that code asks about later.

    Raises:
        AskedLaterError: an earlier place for the break is needed.
        HistoryEscapesError: later code would see the gradient in front of a hook in the graph.
    """
    if ASKING.isdisjoint(code.co_names):
        return
    made = {node: node.meta["val"] for node in residual.outputs if _has_history(node)}
    hooked = {handle.function for handle in capture.hooked}
    if any(fake.grad_fn in hooked for fake in made.values()):
        raise HistoryEscapesError
    passed = {node: {*history(fake)} - {fake.grad_fn} for node, fake in made.items()}
    read = [n for n, fake in made.items() if any(fake.grad_fn in each for each in passed.values())]
    places = [_place_after(node, node.users) for node in read]
    if places and min(places)[0] < step:
        raise AskedLaterError(min(places))


def asked_about(code: CodeType, outputs: Sequence[Node]) -> dict[Node, Callable[..., Any]]:
    """Return the outputs of a graph that code may ask about, if there are several, and `alias`.

    They share one operator of autograd's. PyTorch calls the hooks of all of them if a gradient
    flows to one, so each needs an operator of its own.
    """
    if ASKING.isdisjoint(code.co_names):
        return {}
    found = [node for node in outputs if _has_history(node)]
    return dict.fromkeys(found if len(found) > 1 else (), torch.ops.aten.alias.default)


def _has_history(node: Node) -> bool:
    return node.op != "placeholder" and _is_made(node.meta["val"])


def _is_made(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def _step(node: Node) -> int:
    return int(node.meta.get(STEP, 0))


def _place_after(node: Node, users: Iterable[Node]) -> Place:
    """Return the place behind a node's step; in front of it if a call reads the tensor there."""
    is_read = any(_step(user) == _step(node) for user in users if user is not node)
    return (_step(node), False) if is_read else (_step(node) + 1, True)


class HookHandleVariable(ModeledVariable):
    """The handle of a hook on a tensor that the graph computes.

    Attributes:
        node: the node that sets the hook.
        function: the operator of autograd's whose gradient the hook gets.
        again: evaluates the hook once more.
        content: the operators of the hook, and the nodes that it reads.
    """

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.function: object = None
        self.again: Callable[[], Recorded] | None = None
        self.content: list[object] = []

    def python_type(self) -> type:
        return RemovableHandle

    def as_argument(self) -> Node:
        return self.node

    def py_remove(self, evaluator: Evaluator) -> None:
        if self in evaluator.capture.hooked:
            evaluator.capture.hooked.remove(self)
            evaluator.capture.call_in_graph(evaluator, "call_function", remove_hook, [self])

    def py___enter__(self, evaluator: Evaluator) -> HookHandleVariable:
        return self

    def py___exit__(self, evaluator: Evaluator, *exception: VariableTracker) -> None:
        self.py_remove(evaluator)

    def check_same(self) -> None:
        """Check that the hook, which runs later, still reads the same values.

        Raises:
            HistoryEscapesError: the program has changed a variable that the hook reads.
        """
        if self.again is not None and _content(self.again()) != self.content:
            raise HistoryEscapesError

    def reconstruct(self, residual: Residual) -> NoReturn:
        raise HistoryEscapesError


class WatchVariable(HookHandleVariable):
    """The handle of a hook that is called when captured code finds the gradient of a tensor."""

    def __init__(self, tensor: TensorVariable, hook: VariableTracker) -> None:
        super().__init__(tensor.node)
        self.tensor, self.hook, self.function = tensor, hook, tensor.fake.grad_fn

    def py_remove(self, evaluator: Evaluator) -> None:
        if self in evaluator.capture.hooked:
            evaluator.capture.hooked.remove(self)

    def check_same(self) -> None:
        """Check that the tensor was not written to since the hook was set.

        Raises:
            HistoryEscapesError: the hook sees the gradient of what the tensor was before.
        """
        if self.tensor.fake.grad_fn is not self.function:
            raise HistoryEscapesError


def watched(capture: Capture) -> dict[TensorVariable, list[VariableTracker]]:
    """Return the hooks that are called where the gradients of tensors are found."""
    found: dict[TensorVariable, list[VariableTracker]] = {}
    for handle in capture.hooked:
        if isinstance(handle, WatchVariable):
            found.setdefault(handle.tensor, []).append(handle.hook)
    return found


def replace_gradient(
    evaluator: Evaluator, tensor: TensorVariable, gradient: TensorVariable
) -> VariableTracker:
    """Let the engine find this gradient of a tensor from now on; return the handle of the hook."""
    capture, graph = evaluator.capture, Graph()
    if capture.frame.hooks != CHANGING:
        raise HooksRunInsideError(CHANGING)
    body = graph.placeholder("changed")
    graph.placeholder("gradient")
    graph.output((body,))
    target = GradientHook(GraphModule(graph))
    handle = capture.call_in_graph(evaluator, "call_function", target, [tensor, gradient])
    assert isinstance(handle, HookHandleVariable)
    handle.node.meta["impure"] = True
    capture.hooked.append(handle)
    return handle


Recorded: TypeAlias = tuple[GraphModule, list[Node]]
"""The graph of a hook, and the nodes that it takes before the gradient."""


def _content(recorded: Recorded) -> list[object]:
    """Return all that a hook's graph computes, but for the names of its nodes."""
    module, around = recorded
    places = {node: f"%{place}" for place, node in enumerate(module.graph.nodes)}
    nodes = [node for node in places if node.op != "placeholder"]
    arguments = [map_nodes((n.args, dict(n.kwargs)), places.__getitem__) for n in nodes]
    return [around, [node.target for node in nodes], repr(arguments)]


def hooks_of_leaf(leaf: TensorVariable, evaluator: Evaluator, name: str) -> VariableTracker:
    """Return the dict of the hooks that a leaf has now; None if there is none."""
    pending, real = evaluator.capture.side_effects.load_attribute(leaf, name), leaf.real(evaluator)
    if isinstance(pending, VariableTracker):
        return pending
    if real is None or leaf.source is None:
        return NONE
    return evaluator.capture.wrap(getattr(real, name), AttributeSource(leaf.source, name))


def _set_hooks(
    leaf: TensorVariable, evaluator: Evaluator, value: VariableTracker, name: str
) -> None:
    evaluator.capture.side_effects.store_attribute(leaf, name, value)


for _name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
    ATTRIBUTE_SETTERS[_name] = partial(_set_hooks, name=_name)
    SPECIAL_ATTRIBUTES[_name] = partial(hooks_of_leaf, name=_name)


def _is_leaf(tensor: TensorVariable, evaluator: Evaluator) -> bool:
    return tensor.get_attribute(evaluator, "is_leaf").truth(evaluator)


def _register_in_dict(
    method: Any, tensor: TensorVariable, evaluator: Evaluator, hook: VariableTracker
) -> VariableTracker:
    """Set a hook by PyTorch's own Python, in a dict that the tensor keeps."""
    body = UserFunctionVariable(method, source=evaluator.capture.reference(method))
    return body.call(evaluator, [tensor, hook], {})


def register_post_accumulate_grad_hook(
    tensor: TensorVariable, evaluator: Evaluator, hook: VariableTracker
) -> VariableTracker:
    """``leaf.register_post_accumulate_grad_hook(hook)``"""
    if not _is_leaf(tensor, evaluator):
        unsupported("operator-error", "a hook on accumulation for what is no leaf")
    method = torch.Tensor.register_post_accumulate_grad_hook
    return _register_in_dict(method, tensor, evaluator, hook)


def register_hook(
    tensor: TensorVariable, evaluator: Evaluator, hook: VariableTracker
) -> VariableTracker:
    """``tensor.register_hook(hook)``: in a dict of a leaf or an input; elsewhere by a node."""
    capture, function = evaluator.capture, tensor.fake.grad_fn
    is_inner = capture.graph is not capture.root or not capture.frame.makes_leaves
    if _is_leaf(tensor, evaluator) or (tensor.source is not None and not is_inner):
        leave_writes_to_python(capture)
        return _register_in_dict(torch.Tensor.register_hook, tensor, evaluator, hook)
    if is_inner or function is None:
        break_where_made(evaluator, tensor, "Tensor.register_hook, which changes gradients")
    if capture.frame.hooks != RECORDED:
        watch = WatchVariable(tensor, hook)
        capture.hooked.append(watch)
        return watch
    again: Callable[[], Recorded] = lambda: _record_hook(evaluator, tensor, hook)  # noqa: E731
    try:
        recorded = again()
    except (UnsupportedError, ObservedError):
        raise HooksRunInsideError(WATCHING) from None
    module, around = recorded
    given = [tensor, *(TensorVariable(node, node.meta["val"]) for node in around)]
    target = GradientHook(module)
    made = capture.call_in_graph(evaluator, "call_function", target, given)
    assert isinstance(made, HookHandleVariable)
    made.node.meta["impure"] = True
    made.function, made.again, made.content = function, again, _content(recorded)
    capture.hooked.append(made)
    return made


SPECIAL_METHODS["register_hook"] = register_hook
SPECIAL_METHODS["register_post_accumulate_grad_hook"] = register_post_accumulate_grad_hook


def _record_hook(evaluator: Evaluator, tensor: TensorVariable, hook: VariableTracker) -> Recorded:
    like: Any = torch.empty_like(tensor.fake.detach())
    gradient = new_input(evaluator, "gradient", like)
    with torch.no_grad():
        part = record(evaluator, lambda: hook.call(evaluator, [gradient], {}))
    is_none = part.result.is_constant() and part.result.as_constant() is None
    if not is_none and not isinstance(part.result, TensorVariable):
        unsupported("tensor-method", "a hook that gives neither a tensor nor None")
    results = [] if is_none else [part.result.as_argument()]
    bound = binders(evaluator, "tensor-method", part.symbols(), [*part.read(results), tensor.node])
    module, inputs = part.close(results, [*bound, gradient.node])
    return module, inputs[:-1]


def check_hooks(capture: Capture, residual: Residual) -> None:
    """Check that hooks read what they read before, and that each gradient calls the same hooks.

    A compiled graph takes zeros for the gradient of an output that is not used. So all outputs
    must lead to the hook, or none.

    Raises:
        HistoryEscapesError: a hook is not a part of the graph.
    """
    for handle in capture.hooked:
        handle.check_same()
    nodes = [*residual.outputs, *(entry.node for entry in capture.inputs)] if capture.hooked else []
    heads = [node.meta["val"] for node in nodes if _is_made(node.meta["val"])]
    passed = [set(history(head)) for head in heads if not is_spent(head)]
    for handle in capture.hooked:
        calls = sum(handle.function in each for each in passed)
        if calls and (calls < len(passed) or isinstance(handle, WatchVariable)):
            raise HistoryEscapesError
