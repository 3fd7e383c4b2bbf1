"""Operators whose arguments are graphs: data-dependent branches and loops, and repeated blocks.

    node      ::= name = Block(body)(*inputs)
               |  name = Cond(when_true, when_false)(condition, *inputs)
               |  name = WhileLoop(step, goes_on)(*read, *carried)
               |  name = Scan(step)(*read, *slices, *carried)
               |  name = LoopGradient(loop, reverse)(*inputs of the loop, *tangents)
    body      ::= graph: *inputs                    -> results           (one for many nodes)
    when_true ::= graph: *inputs                    -> results           (when_false likewise)
    goes_on   ::= graph: *read, *carried            -> (bool,)
    step      ::= graph: *read, *carried            -> carried           (of a WhileLoop)
               |  graph: *read, *slice, *carried    -> (*carried, *results)      (of a Scan)
    reverse   ::= graph: *inputs of the step, *tangents -> gradients of these inputs

The graphs take and return tensors, and their results share no memory with their inputs. Carried
tensors are contiguous. The gradient of a branch is a branch between the gradients. The gradient of
a loop is a loop from its end to its beginning. Both recompute the values of the forward pass that
they need, since a graph cannot say how many values a loop would have to save.

Each is called like a function and computes what its graphs compute. PyTorch's counterparts are
``torch.cond``, ``torch._higher_order_ops.while_loop`` and ``torch._higher_order_ops.scan``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias

import torch

from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node

Tensors: TypeAlias = Sequence[Any]


@dataclass(eq=False)
class HigherOrder:
    """The base of these operators: the fields of a subclass that are graphs are its graphs."""

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run the operator; tensors without data give results without data."""
        raise NotImplementedError

    def graphs(self) -> Iterator[GraphModule]:
        """Yield the graphs, in order."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, GraphModule):
                yield value
            elif isinstance(value, HigherOrder):
                yield from value.graphs()

    def map_graphs(self, change: Callable[[GraphModule], GraphModule]) -> Self:
        """Return the same operator with `change` applied to its graphs."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        graphs = {name: change(g) for name, g in found.items() if isinstance(g, GraphModule)}
        return replace(self, **graphs)

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes of its graphs that call something."""
        for module in self.graphs():
            yield from (node for node in module.graph.nodes if node.op.startswith("call"))


def graphs_called_by(graph: Graph) -> Iterator[GraphModule]:
    """Yield the graphs of a graph's higher-order operators."""
    for node in graph.nodes:
        if isinstance(node.target, HigherOrder):
            yield from node.target.graphs()


@dataclass(eq=False)
class Block(HigherOrder):
    """One graph that many nodes call, so that it is compiled once."""

    body: GraphModule
    __name__ = "block"

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        return tuple(self.body(*inputs))


@dataclass(eq=False)
class Cond(HigherOrder):
    """A branch: one graph runs or the other, by a condition."""

    when_true: GraphModule
    when_false: GraphModule
    __name__ = "cond"

    def __call__(self, condition: Any, *inputs: Any) -> tuple[Any, ...]:
        if isinstance(condition, FakeTensor):
            pairs = zip(self.when_true(*inputs), self.when_false(*inputs), strict=True)
            return tuple(b if b.requires_grad else a for a, b in pairs)
        return tuple((self.when_true if condition else self.when_false)(*inputs))


@dataclass(eq=False)
class Loop(HigherOrder):
    """The base of loops.

    Attributes:
        carried: the number of tensors passed from step to step: the last inputs, the first results.
        slices: the number of inputs before these that are sliced: a step gets one slice of each.
    """

    step: GraphModule
    carried: int
    slices: int

    def parts(self, inputs: Tensors) -> tuple[Tensors, Tensors, Tensors]:
        """Split the inputs into those only read, those sliced, and the initial carried ones."""
        last, first = len(inputs) - self.carried, len(inputs) - self.carried - self.slices
        return inputs[:first], inputs[first:last], inputs[last:]

    def step_inputs(self, inputs: Tensors, index: int, carried: Tensors) -> Tensors:
        """Return the inputs of the step at `index`."""
        read, slices, _ = self.parts(inputs)
        return [*read, *(x[index] for x in slices), *carried]

    def states(self, inputs: Tensors) -> list[Tensors]:
        """Return the carried tensors before each step."""
        raise NotImplementedError


@dataclass(eq=False)
class WhileLoop(Loop):
    """A loop that runs its step as long as `goes_on` returns true."""

    goes_on: GraphModule
    __name__ = "while_loop"

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        read, _, first = self.parts(inputs)
        if any(isinstance(value, FakeTensor) for value in inputs):
            carried = first
            for _ in first:  # so often a need of gradients may spread
                carried = self.step(*read, *carried)
            return tuple(carried)
        (carried,) = deque(self._run(read, first), maxlen=1)
        return tuple(x.clone() for x in first) if carried is first else tuple(carried)

    def _run(self, read: Tensors, carried: Tensors) -> Iterator[Tensors]:
        """Yield the carried tensors: the initial ones, and those after each step."""
        yield carried
        while self.goes_on(*read, *carried)[0]:
            carried = self.step(*read, *carried)
            yield carried

    def states(self, inputs: Tensors) -> list[Tensors]:
        read, _, carried = self.parts(inputs)
        return list(self._run(read, carried))[:-1]


@dataclass(eq=False)
class Scan(Loop):
    """A loop with a step for each slice along the first dimension of some tensors."""

    __name__ = "scan"

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if any(isinstance(value, FakeTensor) for value in inputs):
            return self._without_data(inputs)
        carried, results = self.parts(inputs)[2], []
        for index in range(self._length(inputs)):
            found = self.step(*self.step_inputs(inputs, index, carried))
            carried = found[: self.carried]
            results.append(found[self.carried :])
        stacked = (torch.stack(parts) for parts in zip(*results, strict=True))
        return (*carried, *stacked)

    def states(self, inputs: Tensors) -> list[Tensors]:
        found = [self.parts(inputs)[2]]
        for index in range(self._length(inputs) - 1):
            found.append(self.step(*self.step_inputs(inputs, index, found[-1]))[: self.carried])
        return found

    def _length(self, inputs: Tensors) -> Any:
        return self.parts(inputs)[1][0].shape[0]

    def _without_data(self, inputs: Tensors) -> tuple[Any, ...]:
        carried: Tensors = self.parts(inputs)[2]
        for _ in range(self.carried + 1):  # so often a need of gradients may spread
            found = self.step(*self.step_inputs(inputs, 0, carried))
            carried, results = found[: self.carried], found[self.carried :]
        length = self._length(inputs)
        return (*carried, *(y.expand(length, *y.shape).contiguous() for y in results))


@dataclass(eq=False)
class LoopGradient(HigherOrder):
    """The gradients of a loop's read and carried inputs, computed from the last step to the first.

    Attributes:
        loop: runs again, to find the inputs of each step.
        reverse: takes a step's inputs and tangents; returns the gradients that are `wanted`.
        wanted: for each input of the step, whether its gradient is needed.
    """

    loop: Loop
    reverse: GraphModule
    wanted: tuple[bool, ...]
    __name__ = "loop_gradient"

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        count = len(self.wanted)
        inputs, tangents = values[:count], values[count:]
        read, slices, carried = map(sum, self.loop.parts(self.wanted))
        gradients: Tensors = tangents[:carried]
        sums, parts = self._zeros(inputs), []
        for index, state in reversed([*enumerate(self.loop.states(inputs))]):
            given = self.loop.step_inputs(inputs, index, state)
            found = self.reverse(*given, *gradients, *(t[index] for t in tangents[carried:]))
            sums = [a + b for a, b in zip(sums, found, strict=False)]
            parts.append(found[read : read + slices])
            gradients = [g.contiguous() for g in found[read + slices :]]
        stacked = [torch.stack(each) for each in zip(*reversed(parts), strict=True)]
        return (*sums, *stacked, *(g.clone() for g in gradients))

    def _zeros(self, inputs: Tensors) -> list[Any]:
        """Return zeros: the gradients, before any step, of the inputs that are only read."""
        read, wanted = self.loop.parts(inputs)[0], self.wanted
        return [torch.zeros_like(x) for x, is_wanted in zip(read, wanted) if is_wanted]
