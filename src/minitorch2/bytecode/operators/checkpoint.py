"""A checkpoint as a node of a captured graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from minitorch2.graph.composite import Composite, RunGraph
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.graph_module import GraphModule


@dataclass(eq=False)
class Checkpoint(Composite):
    """`torch.utils.checkpoint.checkpoint` of a graph.

    A compiler that traces through it computes the body again in its backward graph.

    Attributes:
        body: the function as a graph.
        options: keyword arguments of `checkpoint`.
    """

    body: GraphModule
    options: Mapping[str, Any]
    __name__ = "checkpoint"
    is_recomputed = True

    def run(self, run_graph: RunGraph, *inputs: torch.Tensor) -> Any:
        if any(isinstance(value, FakeTensor) for value in inputs):
            return run_graph(self.body, *inputs)
        return checkpoint(self.body, *inputs, **self.options)
