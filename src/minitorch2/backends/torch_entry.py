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
        self.has_numbers = False

    def __call__(self, *inputs: Any) -> Any:
        key = (torch.is_grad_enabled(), _repeats(inputs), *map(_signature, inputs))
        run = self.compiled.get(key)
        if run is None:
            run = self.compiled[key] = self._compile(list(inputs))
        return run(*inputs)

    def _compile(self, inputs: list[Any]) -> Callable[..., Any]:
        backend = lookup_backend(default_backend(inputs))
        return backend(from_torch_fx(self.gm), inputs)


def _repeats(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Which inputs are the same object."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(value), index) for index, value in enumerate(inputs))


def _signature(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return (type(value), value)
    return (value.dtype, value.device, value.shape, value.stride(), value.requires_grad)
