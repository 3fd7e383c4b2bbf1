"""``torch.compile(model, backend="minitorch2")``: our compiler under PyTorch's own capture.

PyTorch finds :func:`minitorch2_backend` through the entry point group ``torch_dynamo_backends``.
Symbolic sizes of its capture are specialised to their values, one compilation per set of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from minitorch2.backends.fx_interop import from_torch_fx
from minitorch2.backends.registry import default_backend, lookup_backend
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node


def minitorch2_backend(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any
) -> Callable[..., Any]:
    """Compile a graph that ``torch.compile`` captured, training included.

    The real tensors come with the first call (capture shows only its own fakes), so that is when
    the graph is compiled; a call with other sizes compiles again.
    """
    return PerSignature(gm)


class PerSignature:
    """A compiled graph for each set of sizes, numbers and gradient needs that was met."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self.gm = gm
        self.compiled: dict[Any, Callable[..., Any]] = {}
        self.numbers = _numbers_as_tensors(from_torch_fx(gm))

    def __call__(self, *inputs: Any) -> Any:
        values = tuple(inputs[position].item() for position in self.numbers)
        key = (torch.is_grad_enabled(), _repeats(inputs), values, *map(_signature, inputs))
        run = self.compiled.get(key)
        if run is None:
            run = self.compiled[key] = self._compile(list(inputs))
        return run(*inputs)

    def _compile(self, inputs: list[Any]) -> Callable[..., Any]:
        module = from_torch_fx(self.gm)
        backend = lookup_backend(default_backend(module, inputs))
        for position in self.numbers:
            _specialise(module.graph.placeholders[position], inputs[position].item())
        return backend(module, inputs)


def _numbers_as_tensors(module: GraphModule) -> list[int]:
    """The inputs that are only asked for ``item()``: PyTorch's capture passes Python floats so."""
    return [
        position
        for position, node in enumerate(module.graph.placeholders)
        if node.users and all(user.target == "item" for user in node.users)
    ]


def _specialise(placeholder: Node, value: float) -> None:
    for item in list(placeholder.users):
        item.replace_all_uses_with(value)
        item.graph.erase(item)


def _repeats(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Which inputs are the same object."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(value), index) for index, value in enumerate(inputs))


def _signature(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return (type(value), value)
    return (value.dtype, value.device, value.shape, value.stride(), value.requires_grad)
