"""The history that PyTorch's autograd keeps of a tensor, be it fake or real."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import FakeTensor, fake_like
from minitorch2.graph.graph import Graph
from minitorch2.native.torch_internals.gradients import write_grad_mode
from minitorch2.native.torch_internals.pytree import tree_leaves


def as_leaf(data: torch.Tensor) -> torch.Tensor:
    """Return a leaf that requires grad on the memory of a tensor: a node of graphs."""
    return data.detach().requires_grad_()


class _WithData(torch.autograd.Function):
    """A function that returns data; the gradient goes to the tensor whose data it becomes."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def with_data(tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the memory of `data` whose gradient flows to `tensor`: a node of graphs.

    A tensor keeps its history where gradients are off.
    """
    with torch.enable_grad():
        result: torch.Tensor = _WithData.apply(tensor, data)  # type: ignore[no-untyped-call]
    return result


class _MadeOutside(torch.autograd.Function):
    """The identity, as the operator of the caller's that has made an input of a graph."""

    @staticmethod
    def forward(ctx: Any, leaf: FakeTensor) -> FakeTensor:
        ctx.set_materialize_grads(False)
        return fake_like(leaf)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> torch.Tensor | None:
        return gradient


def with_history(leaf: FakeTensor) -> FakeTensor:
    """Return a fake of the same memory that is not a leaf: a program may write to it."""
    with torch.enable_grad():
        fake: FakeTensor = _MadeOutside.apply(leaf)  # type: ignore[no-untyped-call]
    return fake


MADE_OUTSIDE: Final = "_MadeOutsideBackward"
"""The name of the operator that `with_history` gives a fake, until something writes to it."""


def grad_without_hooks(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], *args: Any, **kwargs: Any
) -> tuple[torch.Tensor | None, ...]:
    """Return gradients as the hooks of inputs get them: a node of graphs that hold the hooks."""
    reals = [each for each in inputs if not isinstance(each, FakeTensor)]  # fakes are watched
    dicts = [each._backward_hooks or {} for each in reals]
    held = [{**hooks} for hooks in dicts]
    try:
        for hooks in dicts:
            hooks.clear()
        return torch.autograd.grad(outputs, inputs, *args, **kwargs)
    finally:
        for hooks, known in zip(dicts, held, strict=True):
            hooks.update(known)


ENGINE_CALLS: Final = (torch.autograd.grad, grad_without_hooks)
"""The functions by which a graph asks for gradients."""


def mark_hooked(tensor: torch.Tensor) -> None:
    """Note that a hook changes the gradient of a tensor that a graph computes."""
    history: Any = tensor.grad_fn
    history.metadata["hooked"] = True


def has_own_gradient(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Return whether the gradient of a view is not just that of its base: a function gave it."""
    history: Any = view.grad_fn
    while history is not None and history is not base.grad_fn:
        if _changes_gradient(history):
            return True
        if len(history.next_functions) != 1:
            return getattr(history, "variable", None) is not base
        history = history.next_functions[0][0]
    return False


def _changes_gradient(function: Any) -> bool:
    is_custom = isinstance(function, torch.autograd.function.BackwardCFunction)
    return is_custom or "hooked" in function.metadata


def makes_history(graph: Graph) -> bool:
    """Return whether a graph asks for gradients itself, or makes leaves."""
    return any(node.target in (*ENGINE_CALLS, as_leaf) for node in graph.nodes)


def enables_gradients(graph: Graph) -> bool:
    """Return whether a graph switches the grad mode on for some of its operators."""
    switches = (node for node in graph.nodes if node.target is write_grad_mode)
    return any(switch.args == (True,) for switch in switches)


def history(tensor: torch.Tensor) -> Iterator[Any]:
    """Yield the functions that backward would call for a tensor, each once."""
    return iter(()) if tensor.grad_fn is None else functions_behind(tensor.grad_fn)


def functions_behind(function: Any) -> Iterator[Any]:
    """Yield a function of autograd's and all that it leads to, each once."""
    waiting, seen = [function], {None, function}
    while waiting:
        function = waiting.pop()
        yield function
        following = {each for each, _ in function.next_functions} - seen
        seen |= following
        waiting += following


def leads_to(head: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Return whether gradients of one tensor flow to another one, or the two are the same."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn in history(head)
    return any(each is tensor for each in ends_of_history([head]))


def kept_by(function: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a function of autograd's has kept for its gradient and not freed."""
    for name in dir(function):
        if name.startswith("_raw_saved_"):  # a kept number has no such name; to read it fixes it
            place = name.removeprefix("_raw" if name != "_raw_saved_tensors" else "_raw_")
            with suppress(RuntimeError):  # freed, or written to
                leaves = tree_leaves(getattr(function, place))
                yield from (x for x in leaves if isinstance(x, torch.Tensor))


def ends_of_history(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the leaves to which the gradients of some tensors flow."""
    for tensor in tensors:
        if tensor.requires_grad and tensor.grad_fn is None:
            yield tensor
        yield from (each.variable for each in history(tensor) if hasattr(each, "variable"))


def why_spent(tensor: torch.Tensor) -> str | None:
    """Return PyTorch's error if a fake tensor's gradient can no longer be computed, else None.

    That is so where a saved tensor was freed or written to.
    """
    leaves = [*ends_of_history([tensor])]
    given = torch.ones_like(tensor)
    try:
        torch.autograd.grad(tensor, leaves, given, retain_graph=True, allow_unused=True)
    except UnsupportedError:
        return None  # it can only be recorded, and was not yet
    except RuntimeError as error:
        return str(error) if tells_spent(error) else None
    return None


def tells_spent(error: RuntimeError) -> bool:
    """Return whether PyTorch's error says that a saved tensor was freed or written to."""
    return any(text in str(error) for text in _SPENT)


def tells_view(error: BaseException | None) -> bool:
    """Return whether an error says that PyTorch allows no write to a view, by how it was made.

    A graph's result does not tell that it is one of several views, or was made under no_grad.
    """
    return "is being modified inplace" in str(error)


def spent_heads(heads: Sequence[object], leaves: Iterable[torch.Tensor]) -> dict[int, str]:
    """Find the fake results of which a program has used up the history.

    Returns PyTorch's error by the place of the result. It is empty where the history leads to
    nothing but leaves that the program made: to none of `leaves`.
    """
    wanted = set(map(id, leaves))
    found: dict[int, str | None] = {}
    for index, head in enumerate(heads):
        if isinstance(head, FakeTensor) and head.requires_grad:
            found[index] = why_spent(head)
            if wanted.isdisjoint(map(id, ends_of_history([head]))):
                found[index] = found[index] or ""
    return {index: error for index, error in found.items() if error is not None}


def is_spent(tensor: torch.Tensor) -> bool:
    """Return whether no gradient of a fake tensor can be computed any more."""
    return why_spent(tensor) is not None


_SPENT = ("a second time", "modified by an inplace operation")
"""What PyTorch's errors say that mean it."""
