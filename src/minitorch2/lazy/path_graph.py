"""A path of the trie as a graph, which the backends take like any captured one.

Operators are written down as they were called, writes and views included: `autograd/functionalize`
turns writes into values, and writes the inputs at the end of the graph. That is the donation of the
LazyTensor paper, section 4.3: an input's memory takes its new value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from minitorch2.graph.fake_tensor import to_fake
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.lazy.event import arguments_of, fill
from minitorch2.lazy.holes import Holes
from minitorch2.lazy.interpret import WITHOUT_HISTORY
from minitorch2.lazy.plan import plan_of
from minitorch2.lazy.trie import Place

aten = torch.ops.aten
Load = Callable[[Sequence[torch.Tensor]], torch.Tensor]


class CannotCompileError(Exception):
    """A step that no graph can hold: inputs of different types share memory."""


@dataclass
class PathGraph:
    """The graph of a path.

    Attributes:
        module: the graph; its inputs are the parameters, then tensors.
        loads: how each tensor is made of the step's inputs.
    """

    module: GraphModule
    loads: list[Load]


def graph_of(
    path: Sequence[Place], holes: Holes, data: Sequence[torch.Tensor], outputs: Sequence[int]
) -> PathGraph:
    """Return the graph that computes the values of some numbers.

    Args:
        path: the places of the step.
        holes: what its numbers are.
        data: the tensors that entered, as examples.
        outputs: the numbers of the values that are wanted.

    Raises:
        CannotCompileError: inputs of different types share memory.
    """
    writer = _Writer(holes, data)
    writer.add_parameters()
    writer.add_inputs([s for p, s in zip(path, holes.slots, strict=True) if p.func is None])
    for place, slots in zip(path, holes.slots, strict=True):
        if place.func is None:
            writer.add_value()
        else:
            writer.add_call(place, slots)
    writer.graph.output(tuple(writer.values[number] for number in outputs))
    return PathGraph(GraphModule(writer.graph), writer.loads)


class _Writer:
    def __init__(self, holes: Holes, data: Sequence[torch.Tensor]) -> None:
        self.holes = holes
        self.data = data
        self.graph = Graph()
        self.values: list[Node] = []
        self.loads: list[Load] = []
        self._inputs: dict[int, Node] = {}
        self._entered = 0
        self._memories: dict[int, tuple[Node, int]] = {}

    def add_parameters(self) -> None:
        for symbol in self.holes.parameters:
            node = self.graph.placeholder(f"number_{symbol}")
            node.meta["val"] = self.holes.env.number_of(symbol)

    def add_inputs(self, sizes: Sequence[tuple[Any, ...]]) -> None:
        """Add a placeholder for each input, or one for the memory that several inputs share."""
        memories = [tensor.untyped_storage()._cdata for tensor in self.data]
        for index, slots in enumerate(sizes):
            members = [i for i, memory in enumerate(memories) if memory == memories[index]]
            if len(members) == 1:
                self._inputs[index] = self._placeholder(index, slots)
            elif members[0] == index:
                self._add_memory(members)

    def _placeholder(self, index: int, slots: tuple[Any, ...]) -> Node:
        node = self.graph.placeholder(f"x{index}")
        sizes = [self.holes.env.size_of(slot) for slot in slots]
        varies = any(isinstance(slot, sympy.Basic) for slot in slots)
        example = self.data[index].detach()
        node.meta["val"] = to_fake(example, sizes) if varies else to_fake(example)
        self.loads.append(lambda data: data[index])
        return node

    def add_value(self) -> None:
        """Give the next input its number: where inputs share memory, it is a window of that."""
        index = self._entered
        self._entered += 1
        memory = self._memories.get(index)
        self.values.append(self._window(index, *memory) if memory else self._inputs[index])

    def _window(self, index: int, flat: Node, start: int) -> Node:
        example = self.data[index]
        begin = example.storage_offset() - start
        count = _span(example)
        part = self.graph.call_function(aten.slice.Tensor, (flat, 0, begin, begin + count))
        size, stride = list(example.size()), list(example.stride())
        if example.is_contiguous():
            return self.graph.call_function(aten.view.default, (part, size))
        return self.graph.call_function(aten.as_strided.default, (part, size, stride))

    def _add_memory(self, members: list[int]) -> None:
        """Add a placeholder for the memory that some inputs span."""
        first = members[0]
        if len({self.data[i].dtype for i in members}) > 1:
            raise CannotCompileError("inputs of different types share memory")
        begins = [int(self.data[i].storage_offset()) for i in members]
        ends = [b + _span(self.data[i]) for b, i in zip(begins, members, strict=True)]
        start, count = min(begins), max(ends) - min(begins)
        ahead = begins[0] - start

        def load(data: Sequence[torch.Tensor]) -> torch.Tensor:
            tensor = data[first].detach()
            return tensor.as_strided((count,), (1,), tensor.storage_offset() - ahead)

        node = self.graph.placeholder(f"memory{first}")
        node.meta["val"] = to_fake(load(self.data))
        self.loads.append(load)
        self._memories |= dict.fromkeys(members, (node, start))

    def add_call(self, place: Place, slots: tuple[Any, ...]) -> None:
        """Add an operator, and a node for each of its results."""
        assert place.func is not None and place.results is not None
        numbers = iter(slots)
        args, kwargs = arguments_of(place.event)
        if place.func is aten.detach.default:  # the same memory: a graph has no history
            self.values.append(fill(args[0], self.values, numbers))
            return
        call = self.graph.call_function(
            WITHOUT_HISTORY.get(place.func, place.func),
            tuple(fill(a, self.values, numbers) for a in args),
            {name: fill(a, self.values, numbers) for name, a in kwargs.items()},
        )
        if place.line is not None:
            call.meta["source"] = place.line
        self.values += self._results(place, call)

    def _results(self, place: Place, call: Node) -> Iterator[Node]:
        assert place.func is not None and place.results is not None
        plan = plan_of(place.func)
        if plan.is_list:
            positions = [*range(len(place.results))]
        elif plan.returned == (None,):
            yield call
            return
        else:
            positions = [p for p, known in enumerate(plan.returned) if known is None]
        for position in positions[: len(place.results)]:
            yield self.graph.call_function(operator.getitem, (call, position))


def _span(tensor: torch.Tensor) -> int:
    """Return how many elements lie between the first of a tensor and its last, both included."""
    if tensor.numel() == 0:
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return sum((n - 1) * step for n, step in steps) + 1
