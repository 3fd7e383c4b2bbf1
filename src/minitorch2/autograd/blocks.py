"""Blocks that a program repeats, in the joint graph: each is traced, differentiated and cut once.

    captured: c = Block(g)(*inputs)
    joint:    f = Block(forward)(*inputs)                -> results and saved tensors
              b = Block(backward)(*saved, *tangents)     -> gradients of inputs

All calls of one block on inputs of the same form share the two graphs. Their results lie in memory
of their own, as callers of such operators expect. A block that cannot be cut this way, for example
because it computes with sizes of its caller, is traced as a part of the graph around it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from minitorch2.autograd.schemas import memory_root
from minitorch2.autograd.trace import Tracer
from minitorch2.graph.fake_tensor import FakeTensor, fake_like, run_fake
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import Block
from minitorch2.graph.memory_order import memory_order
from minitorch2.graph.node import Node
from minitorch2.graph.pipeline import run_passes
from minitorch2.graph.printer import type_text
from minitorch2.native.torch_internals.modes import disable_all_modes

if TYPE_CHECKING:
    from minitorch2.autograd.joint import TracedProgram

Trace: TypeAlias = "Callable[[GraphModule, Sequence[Any], bool], TracedProgram]"
"""From a captured graph and examples to the joint graph, or to that of the forward pass."""


@dataclass(frozen=True)
class Split:
    """A joint graph in two.

    ``places`` says where each value that backward reads first is in (*inputs, *results of forward).
    """

    forward: GraphModule
    backward: GraphModule
    places: tuple[int, ...]


SplitProgram: TypeAlias = "Callable[[TracedProgram], Split | None]"


@dataclass(frozen=True)
class _Compiled:
    """A block's graphs for inputs of one form.

    Attributes:
        results: how many of forward's results are the block's own.
        tangents: the block's results that have gradients, and examples of these.
        gradients: the inputs whose gradients backward gives.
    """

    forward: Block
    results: int
    backward: Block | None = None
    places: tuple[int, ...] = ()
    tangents: tuple[tuple[int, torch.Tensor], ...] = ()
    gradients: tuple[int, ...] = ()


class Blocks:
    """The blocks of one program that is traced."""

    def __init__(self, trace: Trace, split: SplitProgram) -> None:
        self._trace = trace
        self._split = split
        self._known: dict[Hashable, _Compiled | None] = {}

    def run(self, tracer: Tracer, block: Block, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
        """Record a call in the graph that is traced; None if the block cannot stand alone."""
        if not all(isinstance(value, FakeTensor) for value in inputs):
            return None
        key = (block, *map(_form, inputs), torch.is_grad_enabled(), *_autocasts())
        if key not in self._known:
            self._known[key] = self._compile(block, inputs)
        compiled = self._known[key]
        if compiled is None:
            return None
        return tuple(_Apply.apply(_Call(tracer, compiled), *inputs))  # type: ignore[no-untyped-call]

    def _compile(self, block: Block, inputs: Sequence[FakeTensor]) -> _Compiled | None:
        differentiate = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
        examples = [fake_like(x).requires_grad_(x.requires_grad) for x in inputs]
        with disable_all_modes():
            program = self._trace(block.body, examples, differentiate)
        if program.spent or not program.epilogue.is_trivial(program.forward_outputs):
            return None
        if not program.tangent_outputs:
            run_passes("post_grad", program.module)
            _own_memory(program.module)
            return _Compiled(Block(program.module), program.forward_outputs)
        return self._cut(program)

    def _cut(self, program: TracedProgram) -> _Compiled | None:
        split = self._split(program)
        tangents = [n.meta["val"] for n in program.module.graph.placeholders[program.inputs :]]
        if split is None or any(memory_order(tangent) is None for tangent in tangents):
            return None
        given = split.backward.graph.output_node.args[0]
        gradients = tuple(i for i, value in enumerate(given) if isinstance(value, Node))
        split.backward.graph.output_node.update_args((tuple(given[i] for i in gradients),), {})
        for module in (split.forward, split.backward):
            run_passes("post_grad", module)
            _own_memory(module)
        return _Compiled(
            Block(split.forward),
            program.forward_outputs,
            Block(split.backward),
            split.places,
            tuple(zip(program.tangent_outputs, tangents, strict=True)),
            gradients,
        )


def _form(tensor: torch.Tensor) -> Hashable:
    """Return the properties of an input on which a block's graphs depend."""
    return type_text(tensor), tensor.requires_grad


def _autocasts() -> list[Hashable]:
    devices = ("cpu", "cuda")
    return [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices]


def _own_memory(module: GraphModule) -> None:
    """Let each result lie in memory that neither an input nor another result uses."""
    graph = module.graph
    taken = set(graph.placeholders)
    results: list[Any] = []
    for value in graph.output_node.args[0]:
        root = memory_root(value)
        if root in taken or root.op == "get_attr":
            value = root = copied(value)
        taken.add(root)
        results.append(value)
    graph.output_node.update_args((tuple(results),), {})
    module.recompile()


def copied(node: Node) -> Node:
    """Add a node that copies a value, at the end of a graph."""
    clone, graph = torch.ops.aten.clone.default, node.graph
    with graph.inserting_before(graph.output_node):
        copy = graph.call_function(clone, (node,))
    value = run_fake(clone, (node.meta["val"],), {})
    copy.meta.update(val=value, source=node.meta.get("source"))
    return copy


class _Call:
    """One call of a block while it is traced."""

    def __init__(self, tracer: Tracer, compiled: _Compiled) -> None:
        self.tracer = tracer
        self.compiled = compiled
        self.saved: list[Node] = []
        self.inputs: list[FakeTensor] = []

    def forward(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Record the forward graph's call."""
        compiled, nodes = self.compiled, [*map(self.tracer.read, inputs)]
        self.inputs = [fake_like(x) for x in inputs]
        made = self._record(compiled.forward, nodes)
        values = [*nodes, *map(self.tracer.read, made)]
        self.saved = [values[place] for place in compiled.places]
        return made[: compiled.results]

    def backward(self, tangents: Sequence[Any]) -> list[Any]:
        """Record the call of the backward graph, if there is one: a gradient for each input."""
        compiled, found = self.compiled, [None] * len(self.inputs)
        assert compiled.backward is not None
        given = [_laid_out(tangents[i], example) for i, example in compiled.tangents]
        made = self._record(compiled.backward, [*self.saved, *map(self.tracer.read, given)])
        for position, gradient in zip(compiled.gradients, made, strict=True):
            found[position] = gradient
        return found

    def _record(self, block: Block, nodes: list[Node]) -> tuple[Any, ...]:
        results = [node.meta["val"] for node in block.body.graph.output_node.args[0]]
        with disable_all_modes():
            fakes = tuple(map(fake_like, results))
        return self.tracer.record_call(block, nodes, fakes)


def _laid_out(tangent: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    """Return the tangent with the dimension order in memory for which backward was traced."""
    order = memory_order(example)
    assert order is not None
    back = sorted(range(len(order)), key=order.__getitem__)
    return tangent.permute(order).contiguous().permute(back)


class _Apply(torch.autograd.Function):
    """The autograd function that connects the calls of a forward and of a backward graph."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: Any) -> tuple[Any, ...]:
        results = call.forward(inputs)
        differentiable = {index for index, _ in call.compiled.tangents}
        ctx.call = call
        ctx.mark_non_differentiable(*(r for i, r in enumerate(results) if i not in differentiable))
        return results

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        return (None, *ctx.call.backward(tangents))
