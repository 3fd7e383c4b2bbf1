"""Split a joint graph into a forward and a backward graph.

Any split is legal as long as backward gets the values it needs (the slides: "No single way to do
this"). They are the forward's inputs, its outputs, or extra *saved* values. There are two ways
here:

- :func:`default_partition` computes in forward all that does not need a tangent;
- :func:`min_cut_partition` saves the fewest bytes, recomputing cheap operators in backward
  (PyTorch 2 paper, section 3.9): the bytes saved are the capacity of a cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy
import torch

from minitorch2 import config
from minitorch2.autograd.blocks import Split, copied
from minitorch2.autograd.joint import TracedProgram
from minitorch2.autograd.min_cut import Roles, saved_within
from minitorch2.autograd.schemas import memory_root
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.memory_order import memory_order
from minitorch2.graph.node import Node, append_with_inputs, map_nodes, nodes_in
from minitorch2.graph.raising import must_run
from minitorch2.graph.symbol_nodes import Liveness, is_symbol_node
from minitorch2.graph.symbols import bindings, expr_of, free_symbols
from minitorch2.graph.symbols.expression import is_unbacked


@dataclass(frozen=True)
class SavedInput:
    """Backward reads the forward's input ``index``."""

    index: int


@dataclass(frozen=True)
class SavedOutput:
    """Backward reads the forward graph's output ``index`` (one of the program's, or an extra
    one).
    """

    index: int


@dataclass(frozen=True)
class Partition:
    """A forward and a backward graph.

    ``forward(inputs...) -> (program outputs..., extra saved values...)`` and ``backward(saved...,
    tangents...) -> gradients...``, where ``saved`` tells the source of each value. The values in
    ``donated`` (positions in ``saved``) have memory that nothing else refers to: backward may write
    to it. The placeholders are marked in the same way: ``meta["donated"]``.
    """

    forward: GraphModule
    backward: GraphModule
    saved: tuple[SavedInput | SavedOutput, ...]
    saved_nodes: tuple[Node, ...]
    donated: tuple[int, ...]

    @property
    def saved_tensors(self) -> int:
        """The number of tensors saved for backward."""
        return sum(isinstance(node.meta["val"], torch.Tensor) for node in self.saved_nodes)


Partitioner: TypeAlias = Callable[[TracedProgram], Partition]


def default_partition(program: TracedProgram) -> Partition:
    """Save every value that backward reads; forward computes all nodes that need no tangent.

    For ``sin(sin(x))`` that is the slides' split: ``cos(y)`` and ``cos(x)`` are saved.
    """
    roles = Roles.of(program)
    return _split(
        program, roles, [n for n in roles.forward if n in roles.read and n.op != "get_attr"]
    )


def min_cut_partition(program: TracedProgram) -> Partition:
    """Save the set of values with the fewest bytes from which backward can recompute the rest.

    The option ``memory_budget`` is the fraction of those bytes that may be saved; costly operators
    are recomputed to meet it.
    """
    roles = Roles.of(program)
    return _split(program, roles, saved_within(roles, config.current().memory_budget))


def split_block(partition: Partitioner, program: TracedProgram) -> Split | None:
    """Split a repeated block; return None if backward reads sizes that no tensor has."""
    parts = partition(program)
    given = parts.backward.graph.placeholders
    if not all(isinstance(node.meta["val"], torch.Tensor) for node in given):
        return None
    places = (p.index + (isinstance(p, SavedOutput) and program.inputs) for p in parts.saved)
    return Split(parts.forward, parts.backward, tuple(places))


def _outputs(program: TracedProgram) -> tuple[Any, ...]:
    return tuple(program.module.graph.output_node.args[0][: program.forward_outputs])


def _gradients(program: TracedProgram) -> tuple[Any, ...]:
    return tuple(program.module.graph.output_node.args[0][program.forward_outputs :])


# The split


def _split(program: TracedProgram, roles: Roles, saved: list[Node]) -> Partition:
    """Return the two graphs, given the nodes to save."""
    placeholders = program.module.graph.placeholders
    inputs, tangents = placeholders[: program.inputs], placeholders[program.inputs :]
    outputs, gradients = _outputs(program), _gradients(program)
    order = _backward_order(program, roles, {*saved, *tangents})
    symbols = _unbound_symbols([*saved, *tangents], order, gradients)
    loose = {n for n in saved if memory_root(n) in roles.loose}
    loose = {n for n in loose if memory_order(n.meta["val"]) is not None}  # a copy closes gaps
    kept = [copied(n) if n in loose else n for n in saved]
    roles.forward.update(dict.fromkeys(kept))
    places, extra = _places([*kept, *symbols], inputs, outputs)
    forward = _extract(program, inputs, _forward_order(program, roles, extra), (*outputs, *extra))
    backward = _extract(program, [*saved, *symbols, *tangents], order, gradients)
    donated = _donated(kept, {*nodes_in(outputs)}, {*nodes_in(extra)})
    arguments = backward.graph.placeholders
    for position in donated:
        arguments[position].meta["donated"] = True
    return Partition(forward, backward, tuple(places), tuple(saved), donated)


def _donated(saved: list[Node], outputs: set[Node], extra: set[Node]) -> tuple[int, ...]:
    """Return the saved values whose memory holds no other value that forward returns.

    Only on the CPU: on a GPU such memory may belong to recorded launches, which are repeated.
    """
    roots = Counter(map(memory_root, outputs | extra))

    def is_alone(node: Node) -> bool:
        root = memory_root(node)
        if root.op != "call_function" or node not in extra or roots[root] > 1:
            return False
        value = node.meta["val"]
        return memory_order(value) is not None and value.device.type == "cpu"

    return tuple(position for position, node in enumerate(saved) if is_alone(node))


def _places(
    values: list[Any], inputs: list[Node], outputs: tuple[Any, ...]
) -> tuple[list[SavedInput | SavedOutput], list[Any]]:
    """Return the place of each value that backward reads, and extra outputs of forward for them."""
    of_inputs = {node: index for index, node in enumerate(inputs)}
    of_outputs = {node: index for index, node in enumerate(outputs) if isinstance(node, Node)}
    places: list[SavedInput | SavedOutput] = []
    extra: list[Any] = []
    for value in values:
        if value in of_inputs:
            places.append(SavedInput(of_inputs[value]))
        elif value in of_outputs:
            places.append(SavedOutput(of_outputs[value]))
        else:
            places.append(SavedOutput(len(outputs) + len(extra)))
            extra.append(value)
    return places, extra


def _forward_order(program: TracedProgram, roles: Roles, extra: list[Any]) -> list[Node]:
    """Return the nodes of forward in the joint graph's order: for outputs, or with effects."""
    needed = set(nodes_in((_outputs(program), extra)))
    live = Liveness()
    live.note(_outputs(program), extra)
    order: list[Node] = []
    for node in reversed(roles.forward):
        is_needed = node in needed or must_run(node) or live.is_read(node)
        if node.op != "placeholder" and is_needed:
            needed.update(node.all_input_nodes)
            live.note(node.args, dict(node.kwargs))
            order.append(node)
    return order[::-1]


def _backward_order(program: TracedProgram, roles: Roles, given: set[Node]) -> list[Node]:
    """Return the nodes of backward in the joint graph's order.

    A recomputed value comes right before its first reader.
    """
    gradients = list(nodes_in(_gradients(program)))
    needed, live = set(gradients), Liveness()
    live.note(_gradients(program))
    for node in reversed(program.module.graph.nodes):
        if node in roles.backward and (must_run(node) or live.is_read(node)):
            needed.add(node)
        if node in needed and node not in given:
            needed.update(node.all_input_nodes)
            live.note(node.args, dict(node.kwargs))
    done, order = set(given), list[Node]()
    for node in program.module.graph.nodes:
        if node in roles.backward and node in needed:
            append_with_inputs(node, done, order)
    for node in gradients:
        append_with_inputs(node, done, order)
    return order


def _unbound_symbols(
    given: list[Node], order: list[Node], gradients: tuple[Any, ...]
) -> list[sympy.Symbol]:
    """Return the size symbols that backward uses, and neither computes nor has as a size given.

    A size out of data, which no argument names, is read off the first result that has it.
    """
    used: set[sympy.Symbol] = free_symbols(gradients)
    for node in order:
        used |= free_symbols((node.args, dict(node.kwargs)))
        shape = free_symbols(tuple(getattr(node.meta["val"], "shape", ())))
        used |= {symbol for symbol in shape if not is_unbacked(symbol)}
    made = {node.name for node in order if is_symbol_node(node)}
    sizes = [expr_of(size) for node in given for size in getattr(node.meta["val"], "shape", ())]
    bound = {symbol for symbol, _ in bindings((size, "") for size in sizes)}
    return sorted((s for s in used - bound if str(s) not in made), key=str)


def _extract(
    program: TracedProgram, inputs: Sequence[Any], order: list[Node], outputs: tuple[Any, ...]
) -> GraphModule:
    """Build a graph with placeholders for ``inputs`` (nodes or symbols), ``order`` and outputs."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for value in inputs:
        placeholder = graph.placeholder(str(value))
        if isinstance(value, Node):
            placeholder.meta = dict(value.meta)
            copies[value] = placeholder
        else:
            placeholder.meta["val"] = program.symbols[value]
    for node in order:
        copies[node] = graph.copy_node(node, copies.__getitem__)
    graph.output(map_nodes(outputs, copies.__getitem__))
    return GraphModule(graph, program.module.attributes)
