"""Run a backward graph in parts: each part is a node of autograd, and gives its own gradients.

The forward graph is one call, whatever the number of parts::

    last inputs -> [last part] -> ... -> [second part] -> [first part: forward] -> outputs
                                token                token
                                             first inputs -^

A token is an empty tensor that a node gives to the one before it, so that the engine runs them one
after the other. The engine adds gradients to leaves before it runs the next node. So hooks on these
leaves run while later parts are yet to be computed: `DistributedDataParallel` sends a bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch

from minitorch2.autograd.plan import FunctionPlan
from minitorch2.autograd.runtime import (
    LazilyCompiled,
    applier,
    argument_maker,
    differentiable_once,
    is_batch,
    is_seen_elsewhere,
    keeper,
)
from minitorch2.autograd.second_derivatives import EagerGradients
from minitorch2.distributed.cut_backward import Part
from minitorch2.graph.compiled_graph import BoxedCall

Gradients: TypeAlias = list[torch.Tensor | None]


class BackwardInParts(LazilyCompiled):
    """A backward graph in parts, each compiled when it first runs."""

    def __init__(self, compiled: Sequence[LazilyCompiled]) -> None:
        self.compiled = compiled
        self.written = ()  # of all arguments; each part copies what it must not write to

    @property
    def call(self) -> BoxedCall | None:  # type: ignore[override]
        """The last part, if all are compiled."""
        return self.compiled[-1].call

    def compile(self) -> BoxedCall:
        """Compile all parts, in order, and return the last."""
        return [part.call or part.compile() for part in self.compiled][-1]

    def run(self, parts: Sequence[Part], row: list[Any]) -> Iterator[Gradients]:
        """Yield the gradients that each part gives; the row begins with the graph's arguments."""
        for part, compiled in zip(parts, self.compiled, strict=True):
            call = compiled.call or compiled.compile()
            arguments = [row[place] for place in part.reads]
            for place in part.last:
                row[place] = None
            for i in compiled.written:
                if is_seen_elsewhere(arguments[i]):
                    arguments[i] = arguments[i].clone()
            results = [*call(arguments)]
            row += results[len(part.gradients) :]
            del results[len(part.gradients) :]
            yield results

    def runner(
        self, plan: FunctionPlan, forward: BoxedCall, again: EagerGradients
    ) -> Callable[..., Sequence[Any]]:
        """Return a function that runs forward, and makes the nodes of all parts."""
        nodes = _Nodes(plan, forward, self, again)
        first, *later = (applier(each) for each in (nodes.first(), *nodes.later()))
        own = [part.gradients for part in plan.parts]
        backwards = [*zip(later, own[1:], strict=True)][::-1]

        def apply(*inputs: Any) -> Sequence[Any]:
            passing, token = _Pass(inputs), None
            for node, places in backwards:
                token = node(passing, token, *[inputs[i] for i in places])
            return first(passing, token, *[inputs[i] for i in own[0]])

        return apply


class _Pass:
    """The state that the nodes of one forward call share.

    Attributes:
        inputs: the inputs of the call, until forward has run.
        steps: the gradients of each part, of the backward pass that is under way.
        unread: the inputs that nothing depends on of which this pass is given a gradient.
    """

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        self.inputs = inputs
        self.steps: Iterator[Gradients] = iter(())
        self.unread: set[int] = set()


class _Nodes:
    """The autograd functions of a backward graph's parts."""

    def __init__(
        self,
        plan: FunctionPlan,
        forward: BoxedCall,
        backward: BackwardInParts,
        again: EagerGradients,
    ) -> None:
        self.plan, self.forward, self.backward, self.again = plan, forward, backward, again
        self.keep, self.arguments_of = keeper(plan), argument_maker(plan, backward)

    def first(self) -> type[torch.autograd.Function]:
        """Return the function that runs forward, and the first part of backward."""
        nodes, own = self, self.plan.outputs

        class FirstPart(torch.autograd.Function):
            """The forward graph is compiled, and so is the part of backward that runs first."""

            @staticmethod
            def forward(ctx: Any, passing: _Pass, token: Any, *of_part: Any) -> tuple[Any, ...]:
                inputs, passing.inputs, ctx.passing = passing.inputs, (), passing
                ctx.call = nodes.again.note(inputs)
                outputs = nodes.forward([*inputs])
                nodes.keep(ctx, (*inputs, *outputs))
                results = tuple(outputs[:own])
                plain = [results[i] for i in nodes.plan.without_gradient]
                ctx.mark_non_differentiable(*[t for t in plain if isinstance(t, torch.Tensor)])
                return results

            @staticmethod
            def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
                given = [gradients[i] for i in nodes.plan.tangents]
                unused = {k for k, gradient in enumerate(given) if gradient is None}
                ctx.passing.unread = {
                    i for i, read in enumerate(nodes.plan.reads) if read and read <= unused
                }
                ctx.passing.steps = nodes.steps(ctx, given)
                return nodes.given(ctx, 0)

        return FirstPart

    def later(self) -> Iterator[type[torch.autograd.Function]]:
        """Yield the functions of the other parts: forward has nothing to do."""
        yield from (self._later(k) for k in range(1, len(self.plan.parts)))

    def _later(self, k: int) -> type[torch.autograd.Function]:
        nodes = self

        class LaterPart(torch.autograd.Function):
            """A part of backward that runs behind others."""

            @staticmethod
            def forward(ctx: Any, passing: _Pass, token: Any, *of_part: Any) -> torch.Tensor:
                ctx.passing = passing
                ctx.set_materialize_grads(False)
                made: torch.Tensor = of_part[0].new_empty(0)
                return made

            @staticmethod
            def backward(ctx: Any, token: Any) -> Any:
                return nodes.given(ctx, k)

        return LaterPart

    def given(self, ctx: Any, k: int) -> tuple[Any, ...]:
        """Return what a part gives: nothing for the pass and the token, and its gradients."""
        own, unread = self.plan.parts[k].gradients, ctx.passing.unread
        found = next(ctx.passing.steps)
        if unread:
            behind = dict(zip(own, ctx.next_functions[-len(own) :], strict=True))
            makers = [behind.get(i, (None, 0)) for i in self.again.plan.tensors]
            self.again.skip_hooks(unread, makers)
        gradients = [None if i in unread else g for i, g in zip(own, found, strict=True)]
        found.clear()  # it waits with its generator, and a gradient that is held is copied
        return None, None, *gradients

    def steps(self, ctx: Any, given: list[Any]) -> Iterator[Gradients]:
        """Return the gradients of each part; all are computed at once if a graph is asked for."""
        parts, needs_graph = self.plan.parts, torch.is_grad_enabled()
        if needs_graph or any(map(is_batch, given)):
            found = self.again.gradients(ctx.call, given)
            if found is not None:
                return iter([[found[i] for i in part.gradients] for part in parts])
        row = self.arguments_of(ctx, given)
        if not needs_graph:
            return self.backward.run(parts, row)
        sources = [t for t in row if isinstance(t, torch.Tensor)]
        if any(t.is_floating_point() for t in sources[: -len(self.plan.tangents)]):
            sources.append(torch.empty(0, requires_grad=True))  # copies have no history
        with torch.no_grad():
            pieces = [*self.backward.run(parts, row)]
        flat = differentiable_once(tuple(g for piece in pieces for g in piece), sources)
        rest = iter(flat)
        return iter([[next(rest) for _ in piece] for piece in pieces])
