"""Hooks on the gradient of a tensor, as nodes of a captured graph.

node ::= handle = GradientHook(body)(tensor, *around)      tensor.register_hook(body)
       | remove_hook(handle)                               handle.remove()
body ::= graph: *around, gradient -> [the gradient that takes its place]

The node sets a hook on the tensor that the graph computes. So PyTorch's autograd decides when the
hook runs and what it is given. A tracer that computes gradients records the body's operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from minitorch2.graph.composite import Composite, RunGraph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.history import mark_hooked


@dataclass(eq=False)
class GradientHook(Composite):
    """``tensor.register_hook(body)``"""

    body: GraphModule
    __name__ = "register_hook"

    def run(self, run_graph: RunGraph, *inputs: torch.Tensor) -> RemovableHandle:
        tensor, *around = inputs

        def hook(gradient: torch.Tensor) -> Any:
            return next(iter(run_graph(self.body, *around, gradient)), None)

        mark_hooked(tensor)
        handle: RemovableHandle = tensor.register_hook(hook)  # type: ignore[no-untyped-call]
        return handle


def remove_hook(handle: RemovableHandle) -> None:
    """``handle.remove()``: a node of graphs."""
    handle.remove()
