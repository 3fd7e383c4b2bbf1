"""``register_hook`` on a tensor that is not a leaf, and other requests for its gradient.

The gradient of such a tensor comes from all computations that read it. A compiled graph hands on
the gradients of its inputs only. So the graph ends where the tensor is made, and the computations
that read it belong to the next graph::

    y = f(x); z = g(y); y.register_hook(h)    -->    y = f(x) | break | z = g(y); ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import torch

from minitorch2.bytecode.trackers.base import unsupported
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.graph.history import history
from minitorch2.graph.node import Node

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual

STEP: Final = "step"
"""The key of a node's metadata for the step of the captured frame that made it."""

Place: TypeAlias = tuple[int, bool]
"""The step in front of which a graph ends, and whether the next graph begins with that step."""

ASKING: Final = words("register_hook retain_grad grad")
"""Names by which a program asks about gradients of tensors that are not leaves."""


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


def check_asked(residual: Residual, code: CodeType, step: int) -> None:
    """Check that a graph which breaks ends before a tensor is read that code asks about later.

    Raises:
        AskedLaterError: an earlier place for the break is needed.
    """
    if ASKING.isdisjoint(code.co_names):
        return
    made = {node: node.meta["val"] for node in residual.outputs if _has_history(node)}
    passed = {node: {*history(fake)} - {fake.grad_fn} for node, fake in made.items()}
    read = [n for n, fake in made.items() if any(fake.grad_fn in each for each in passed.values())]
    places = [_place_after(node, node.users) for node in read]
    if places and min(places)[0] < step:
        raise AskedLaterError(min(places))


def asked_about(code: CodeType, outputs: Sequence[Node]) -> list[Node]:
    """Return the outputs of a graph that code may ask about, if there are several.

    They share one operator of autograd's. PyTorch calls the hooks of all of them if a gradient
    flows to one, so each needs an operator of its own.
    """
    if ASKING.isdisjoint(code.co_names):
        return []
    found = [node for node in outputs if _has_history(node)]
    return found if len(found) > 1 else []


def _has_history(node: Node) -> bool:
    value = node.meta["val"]
    is_made = isinstance(value, torch.Tensor) and node.op != "placeholder"
    return is_made and value.grad_fn is not None


def _step(node: Node) -> int:
    return int(node.meta.get(STEP, 0))


def _place_after(node: Node, users: Iterable[Node]) -> Place:
    """Return the place behind a node's step; in front of it if a call reads the tensor there."""
    is_read = any(_step(user) == _step(node) for user in users if user is not node)
    return (_step(node), False) if is_read else (_step(node) + 1, True)


def register_hook(tensor: TensorVariable, evaluator: Evaluator, *hook: Any) -> NoReturn:
    """Leave ``tensor.register_hook(hook)`` to Python."""
    break_where_made(evaluator, tensor, "Tensor.register_hook, which changes gradients")


SPECIAL_METHODS["register_hook"] = register_hook
