"""Recurrent layers on the CPU, as oneDNN runs them.

``aten.mkldnn_rnn_layer`` saves values for its gradient in a workspace, but only while gradients are
recorded, which is never so in a compiled graph. Otherwise it returns no tensor, though its schema
promises one, and its meta kernel does not know the size. So graphs call ``minitorch2::rnn_layer``.
In training it returns the workspace, of a size that oneDNN is asked for once for each shape.
Otherwise it returns one without elements.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.registry import register_decomposition
from minitorch2.native.torch_internals.dispatch import BelowAutograd

aten = torch.ops.aten
_LIBRARY: Final = torch.library.Library("minitorch2", "FRAGMENT")  # type: ignore[no-untyped-call]
_SCHEMA: Final = str(aten.mkldnn_rnn_layer.default._schema).removeprefix("aten::mkldnn_")
_LIBRARY.define(_SCHEMA)  # type: ignore[no-untyped-call]

Layer = tuple[Tensor, Tensor, Tensor, Tensor]
"""Outputs, last hidden state, last cell state, workspace."""


def _layer(x: Tensor, *arguments: Any) -> Layer:
    """Run the layer; in training, keep its workspace."""
    is_training = arguments[-1]
    with BelowAutograd(), torch.set_grad_enabled(is_training):
        *results, workspace = aten.mkldnn_rnn_layer.default(x, *arguments)
    return (*results, workspace if is_training else x.new_empty(0, dtype=torch.uint8))


def _meta_layer(x: Tensor, *arguments: Any) -> Layer:
    """Return the results of the layer, without data."""
    *results, _ = aten.mkldnn_rnn_layer.default(x, *arguments)
    size, is_training = 0, arguments[-1]
    if is_training:
        tensors = tuple((*map(int, each.shape),) for each in (x, *arguments[:6]))
        options = tuple(tuple(o) if isinstance(o, list) else o for o in arguments[6:])  # to cache
        size = _workspace_size(tensors, options)
    return (*results, x.new_empty(size, dtype=torch.uint8))


@cache
def _workspace_size(tensors: tuple[tuple[int, ...], ...], others: tuple[Any, ...]) -> int:
    """Return the bytes of a layer's workspace."""
    return _layer(*(torch.zeros(shape, device="cpu") for shape in tensors), *others)[3].numel()


_LIBRARY.impl("rnn_layer", _layer, "CPU")  # type: ignore[no-untyped-call]
_LIBRARY.impl("rnn_layer", _meta_layer, "Meta")  # type: ignore[no-untyped-call]


@register_decomposition(aten.mkldnn_rnn_layer.default)
def rnn_layer(x: Tensor, *arguments: Any) -> Any:
    """Run the layer with a workspace; in training, a symbolic size of the input is fixed."""
    *others, trains = arguments  # PyTorch's decomposition of `lstm` says that it never trains
    trains |= torch.is_grad_enabled() and any(t.requires_grad for t in (x, *others[:6]))
    return torch.ops.minitorch2.rnn_layer.default(x, *others, trains)
