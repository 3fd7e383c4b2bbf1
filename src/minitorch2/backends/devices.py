"""The devices of a graph's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from minitorch2.graph.graph_module import GraphModule


def devices_of(gm: GraphModule, example_inputs: Sequence[Any]) -> list[torch.device]:
    """Return the devices of all tensors that a graph takes or makes."""
    values = [*example_inputs, *(node.meta.get("val") for node in gm.graph.nodes)]
    named = [node.kwargs.get("device") for node in gm.graph.nodes]
    return [
        *(value.device for value in values if isinstance(value, torch.Tensor)),
        *(torch.device(name) for name in named if isinstance(name, (str, torch.device))),
    ]
