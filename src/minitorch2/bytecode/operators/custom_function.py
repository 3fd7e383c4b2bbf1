"""A `torch.autograd.Function` as an operator of a captured graph: its passes are graphs.

forward  ::= graph: *inputs -> *outputs, *intermediates
backward ::= graph: *kept, *gradients of outputs -> *gradients of arguments
jvp      ::= graph: *kept, *tangents of arguments -> *tangents of outputs
kept     ::= inputs, outputs and intermediates that a later pass reads
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch
from torch.autograd.function import once_differentiable

from minitorch2.graph.composite import Composite, RunGraph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.native.torch_internals.gradients import innermost_transform

Given: TypeAlias = tuple[bool, ...]
"""For each output, whether there is a gradient of it."""


@dataclass(frozen=True)
class LaterPass:
    """A graph that reads values which the forward pass has kept.

    Attributes:
        graph: the pass.
        reads: the indices of the kept values that it takes.
        takes: the indices of the gradients (or tangents) that it takes after these.
        gives: for each input of `forward` (of a jvp: for each output) which results are summed.
    """

    graph: GraphModule
    reads: Sequence[int]
    takes: Sequence[int]
    gives: Sequence[Sequence[int]]

    def run(self, ctx: Any, given: Sequence[Any]) -> list[Any]:
        """Run the pass on kept values and gradients; the results, None where there is none."""
        kept, numbers = ctx.saved_tensors, ctx.numbers
        values = [*(numbers.get(i, kept[i]) for i in self.reads), *(given[i] for i in self.takes)]
        found = ctx.run_graph(self.graph, *values)
        parts = ([found[i] for i in places] for places in self.gives)
        return [sum(part[1:], part[0]) if part else None for part in parts]


@dataclass(eq=False)
class CustomFunction(Composite):
    """An operator with a gradient of its own.

    Attributes:
        name: the name of the user's class.
        forward: gives the outputs, then intermediates.
        outputs: the number of outputs.
        kept: the values that later passes read: an input, if the flag is set, or else a result.
        constant_outputs: the indices of outputs without a gradient.
        dirty: the indices of inputs that the forward pass marks as written to.
        backward: the pass for each set of outputs that have a gradient.
        materializes: whether missing gradients are zeros, so that there is one such set.
        jvp: the pass of forward mode, if it was needed.
        is_once: whether the backward pass cannot be differentiated.
        has_vmap_rule: whether PyTorch makes its rule for `torch.vmap`.
    """

    name: str
    forward: GraphModule
    outputs: int
    kept: Sequence[tuple[bool, int]]
    constant_outputs: Sequence[int]
    dirty: Sequence[int]
    backward: Mapping[Given, LaterPass]
    materializes: bool
    jvp: LaterPass | None
    is_once: bool
    has_vmap_rule: bool

    @property
    def __name__(self) -> str:
        return self.name

    def run(self, run_graph: RunGraph, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        is_transformed = innermost_transform() is not None
        base = _Transformed if is_transformed else _Eager
        operator: Any = _named(base, self.name, self.is_once, self.has_vmap_rule)
        results: tuple[torch.Tensor, ...] = operator.apply(run_graph, self, *inputs)
        return results[: self.outputs]

    def prepare(
        self, ctx: Any, run_graph: RunGraph, inputs: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Keep the values that later passes read."""
        kept = [inputs[i] if is_input else results[i] for is_input, i in self.kept]
        ctx.function, ctx.run_graph, ctx.inputs = self, run_graph, len(inputs)
        ctx.numbers = {i: k for i, k in enumerate(kept) if not isinstance(k, torch.Tensor)}
        kept = [None if i in ctx.numbers else k for i, k in enumerate(kept)]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        ctx.mark_dirty(*(inputs[i] for i in self.dirty))
        ctx.set_materialize_grads(self.materializes)


class _Passes(torch.autograd.Function):
    """The passes behind the forward one."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        function: CustomFunction = ctx.function
        found = function.backward.get(tuple(g is not None for g in grads[: function.outputs]))
        if found is None:
            return (None, None, *(None for _ in range(ctx.inputs)))
        return (None, None, *found.run(ctx, grads))

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
        function: CustomFunction = ctx.function
        if function.jvp is None:
            raise RuntimeError(f"{function.name} has no jvp for forward mode")
        return tuple(function.jvp.run(ctx, tangents))


class _Eager(_Passes):
    """The form in which most functions are written."""

    @staticmethod
    def forward(ctx: Any, run_graph: RunGraph, function: CustomFunction, *inputs: Any) -> Any:
        results = run_graph(function.forward, *inputs)
        function.prepare(ctx, run_graph, inputs, results)
        outputs = tuple(results[: function.outputs])
        ctx.mark_non_differentiable(*(outputs[i] for i in function.constant_outputs))
        return outputs


class _Transformed(_Passes):
    """The form that transforms of `torch.func` ask for: each kept value is an input or a result."""

    @staticmethod
    def forward(run_graph: RunGraph, function: CustomFunction, *inputs: Any) -> Any:
        return tuple(run_graph(function.forward, *inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        run_graph, function, *tensors = inputs
        function.prepare(ctx, run_graph, tensors, output)
        constant = (*function.constant_outputs, *range(function.outputs, len(output)))
        ctx.mark_non_differentiable(*(output[i] for i in constant))


@cache
def _named(base: Any, name: str, is_once: bool, has_vmap_rule: bool) -> Any:
    """Return the class with the name of the user's: autograd shows it, and its errors say it."""
    members: dict[str, Any] = {"generate_vmap_rule": has_vmap_rule}
    if is_once:
        backward: Callable[..., Any] = once_differentiable(_Passes.backward)
        members["backward"] = staticmethod(backward)
    return type(name, (base,), members)
