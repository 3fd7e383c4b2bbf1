"""Callables that are nodes of a captured graph and consist of graphs themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from minitorch2.graph.composite import Composite, RunGraph
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.graph_module import GraphModule


@dataclass(eq=False)
class DifferentiableFunction(Composite):
    """An operator with a gradient of its own: what a `torch.autograd.Function` does.

    Attributes:
        name: that of the user's class.
        forward: gives the outputs, then what the backward pass needs.
        backward: takes what was saved, then the gradients of the outputs; gives gradients.
        outputs: how many results there are.
        constant_outputs: which of them have no gradient.
        gradients: for each input of `forward`, which of backward's results is its gradient.
    """

    name: str
    forward: GraphModule
    backward: GraphModule
    outputs: int
    constant_outputs: Sequence[int]
    gradients: Sequence[int | None]

    @property
    def __name__(self) -> str:
        return self.name

    def run(self, run_graph: RunGraph, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _Apply.apply(run_graph, self, *inputs)  # type: ignore[no-any-return, no-untyped-call]


class _Apply(torch.autograd.Function):
    """Runs the two graphs of a `DifferentiableFunction`."""

    @staticmethod
    def forward(
        ctx: Any, run_graph: RunGraph, function: DifferentiableFunction, *inputs: torch.Tensor
    ) -> Any:
        results = run_graph(function.forward, *inputs)
        outputs, saved = results[: function.outputs], results[function.outputs :]
        ctx.function, ctx.run_graph = function, run_graph
        ctx.save_for_backward(*saved)
        ctx.mark_non_differentiable(*(outputs[i] for i in function.constant_outputs))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        function = ctx.function
        found = ctx.run_graph(function.backward, *ctx.saved_tensors, *grads)
        return (None, None, *(None if i is None else found[i] for i in function.gradients))


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
