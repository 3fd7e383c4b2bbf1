"""Tracing operators whose arguments are graphs: each of these becomes a functional graph, too.

The gradient of such an operator is another one, of graphs that compute the first one's graphs again
and differentiate them. So the joint graph has one node for each of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from minitorch2.autograd.trace import Tracer
from minitorch2.graph.composite import Composite, RunGraph
from minitorch2.graph.fake_tensor import FakeMode, FakeTensor, fake_like
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import Cond, HigherOrder, Loop, LoopGradient
from minitorch2.graph.node import Node
from minitorch2.graph.symbols.unbacked import making_symbols
from minitorch2.native.torch_internals.modes import disable_all_modes

TraceGraph: TypeAlias = Callable[[GraphModule, Sequence[torch.Tensor]], GraphModule]
"""From a captured graph and examples of its inputs to the functional graph."""


@dataclass(eq=False)
class Gradients(Composite):
    """A node's target: from the inputs of a captured graph and tangents to gradients.

    Each differentiable result has a tangent; the gradients are of the inputs that are `wanted`.
    """

    module: GraphModule
    wanted: tuple[bool, ...]
    __name__ = "gradients"

    def run(self, run_graph: RunGraph, *values: Any) -> tuple[Any, ...]:
        """Compute the gradients by operators that the tracer sees; zeros for unused inputs."""
        count = len(self.wanted)
        with torch.enable_grad():
            leaves = [x.detach() for x in values[:count]]
            wanted = [x.requires_grad_() for x, yes in zip(leaves, self.wanted, strict=True) if yes]
            results = filter(is_differentiable, run_graph(self.module, *leaves))
            pairs = zip(results, values[count:], strict=True)
            used = [(result, tangent) for result, tangent in pairs if result.requires_grad]
        if not used:
            return tuple(map(torch.zeros_like, wanted))
        heads, tangents = zip(*used, strict=True)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            found = torch.autograd.grad(
                heads, wanted, tangents, allow_unused=True, materialize_grads=True
            )
        return tuple(gradient.clone() for gradient in found)

    def as_graph(self, inputs: int) -> GraphModule:
        """Return a graph of this node alone."""
        graph = Graph()
        given = tuple(graph.placeholder(f"x{i}") for i in range(inputs))
        graph.output(graph.call_function(self, given))
        return GraphModule(graph)


def run_higher_order(
    tracer: Tracer, trace_graph: TraceGraph, target: HigherOrder, inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Record a call in the graph that is being traced; the results can be differentiated."""
    return tuple(_Apply.apply(_Call(tracer, trace_graph, target), *inputs))  # type: ignore[no-untyped-call]


class _Call:
    """One call of a higher-order operator while it is traced."""

    def __init__(self, tracer: Tracer, trace_graph: TraceGraph, target: HigherOrder) -> None:
        self.tracer = tracer
        self.trace_graph = trace_graph
        self.target = target
        self.functional = target
        self.nodes: list[Node] = []
        self.inputs: list[FakeTensor] = []
        self.autocasts = [
            (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
            for device in ("cpu", "cuda")
        ]

    def forward(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Record the operator itself."""
        self.nodes = [self.tracer.read(x) for x in inputs]  # as they are now
        self.inputs = [fake_like(x) for x in inputs]
        with disable_all_modes():
            examples = self._examples(self.target)
            self.functional = self.target.map_graphs(lambda g: self.trace_graph(g, examples))
            results = self._results()
        return self.tracer.record_call(self.functional, self.nodes, results)

    def _results(self) -> tuple[Any, ...]:
        """Return results without data; numbers that the graphs take out of tensors are new."""
        env = self.tracer.env
        symbols = nullcontext() if env is None else making_symbols(env)
        with FakeMode(), symbols as made:  # type: ignore[no-untyped-call]
            results = self.functional(*self.inputs)
        if made is not None:
            made.forget_checks()
        return results

    def backward(self, needs: Sequence[bool], tangents: Sequence[Any]) -> list[Any]:
        """Record the operator that computes the gradients."""
        if isinstance(self.target, Loop):
            tangents = [tangent.contiguous() for tangent in tangents]
        nodes = [*self.nodes, *map(self.tracer.read, tangents)]
        with disable_all_modes(), self._autocast_as_before():
            fakes = [fake_like(tangent) for tangent in tangents]
            target, wanted = self._gradient(self.target, needs, fakes)
            results: list[Any] = [
                torch.empty_like(x) for x, yes in zip(self.inputs, wanted, strict=True) if yes
            ]
        made = iter(self.tracer.record_call(target, nodes, results))
        return [next(made) if yes else None for yes in wanted]

    def _examples(self, target: HigherOrder) -> Sequence[torch.Tensor]:
        """Return example inputs of the operator's graphs."""
        if isinstance(target, Loop):
            return target.step_inputs(self.inputs, 0, target.parts(self.inputs)[2])
        return self.inputs[1:]

    def _gradient(
        self, target: HigherOrder, needs: Sequence[bool], tangents: Sequence[torch.Tensor]
    ) -> tuple[HigherOrder, tuple[bool, ...]]:
        """Return the gradient's operator, and whether it gives the gradient of each input."""
        examples = self._examples(target)
        if isinstance(target, Cond):
            return target.map_graphs(
                lambda graph: self._reverse(graph, needs[1:], examples, tangents)
            ), (False, *needs[1:])
        assert isinstance(target, Loop) and isinstance(self.functional, Loop)
        *fixed, carried = target.parts(needs)
        wanted = (*fixed[0], *fixed[1], *map(is_differentiable, target.parts(self.inputs)[2]))
        count = sum(wanted[len(needs) - len(carried) :])
        of_step = [*tangents[:count], *(tangent[0] for tangent in tangents[count:])]
        reverse = self._reverse(target.step, wanted, examples, of_step)
        return LoopGradient(self.functional, reverse, wanted), wanted

    def _reverse(
        self,
        graph: GraphModule,
        wanted: Sequence[bool],
        examples: Sequence[torch.Tensor],
        tangents: Sequence[torch.Tensor],
    ) -> GraphModule:
        inputs = [*examples, *tangents]
        return self.trace_graph(Gradients(graph, tuple(wanted)).as_graph(len(inputs)), inputs)

    @contextmanager
    def _autocast_as_before(self) -> Iterator[None]:
        """Switch autocast to its state in the forward pass, which is computed again."""
        with ExitStack() as stack:
            for device, dtype, enabled in self.autocasts:
                stack.enter_context(torch.autocast(device, dtype, enabled, cache_enabled=False))
            yield


class _Apply(torch.autograd.Function):
    """The autograd function that connects a call with its gradient."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: Any) -> tuple[Any, ...]:
        results = call.forward(inputs)
        ctx.call, ctx.has_tangent = call, [*map(is_differentiable, results)]
        ctx.mark_non_differentiable(*(r for r in results if not is_differentiable(r)))
        return results

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        given = [t for t, yes in zip(tangents, ctx.has_tangent, strict=True) if yes]
        return (None, *ctx.call.backward(ctx.needs_input_grad[1:], given))


def is_differentiable(tensor: torch.Tensor) -> bool:
    """Return whether a tensor of this dtype can have a gradient."""
    return tensor.is_floating_point() or tensor.is_complex()
