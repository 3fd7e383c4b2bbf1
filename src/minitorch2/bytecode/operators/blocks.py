"""Blocks that a program repeats: equal parts of the captured graph become calls of one graph.

A call of a function under `minitorch2.nested_compile_region` is captured like any other call, so
guards, side effects and graph breaks stay as they are. The nodes that it recorded carry a note.
When the graph is done, parts that are equal and stand alone are *outlined*:

    block ::= the nodes of one call, next to each other
    before: h = linear(x, w0, b0); r0 = relu(h); k = linear(r0, w1, b1); r1 = relu(k)
    after:  c = Block(g)(x, w0, b0); r0 = c[0];  d = Block(g)(r0, w1, b1); r1 = d[0]

A part stands alone if it changes no tensors but its own, and if its outputs share no memory with
its inputs. A part without an equal one stays where it is, and is fused with its neighbours.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sympy

from minitorch2 import stages
from minitorch2.graph.canonical import graph_hash
from minitorch2.graph.effects import is_impure, is_random, written_by
from minitorch2.graph.fake_tensor import FakeTensor, storage_key
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import Block
from minitorch2.graph.node import Node
from minitorch2.graph.printer import symbol_sizes, type_text
from minitorch2.graph.runtime_checks import is_check
from minitorch2.graph.symbol_nodes import is_symbol_node
from minitorch2.graph.symbols import bindings, free_symbols

_CALL: Final = "block"
"""The note on a node: the outermost marked call that recorded it."""
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class _Call:
    name: str
    number: int


def note_call(graph: Graph, last: Node | None, name: str) -> None:
    """Note that the nodes behind `last` were recorded by a call of the function `name`.

    Notes of calls inside of it are overwritten: their nodes are part of the larger block.
    """
    call = _Call(name, next(_NUMBERS))
    for node in reversed(graph.nodes):
        if node is last:
            return
        if node.op.startswith("call"):
            node.meta[_CALL] = call


def outline_blocks(graph: Graph) -> None:
    """Make equal blocks of a captured graph calls of one graph."""
    alike: defaultdict[Hashable, list[_Part]] = defaultdict(list)
    replaced: dict[Node, Node] = {}
    for nodes in _noted(graph):
        part = _Part.of(graph, nodes)
        if part is not None:
            alike[part.key].append(part)
    for parts in alike.values():
        if len(parts) > 1:
            block = Block(parts[0].body)
            stages.count("blocks_shared", len(parts) - 1)
            for part in parts:
                replaced |= part.replace(block, replaced)


def _noted(graph: Graph) -> Iterator[list[Node]]:
    """Yield the nodes of each noted call that lie next to each other."""
    calls: defaultdict[_Call, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if _CALL in node.meta:
            calls[node.meta[_CALL]].append(node)
    for nodes in calls.values():
        between, own = nodes[0], set(nodes)
        while between in own or between.op in ("placeholder", "get_attr"):
            own.discard(between)
            between = between.next
        if not own:
            yield nodes


@dataclass(frozen=True)
class _Part:
    """The nodes of one call, as a graph of their own.

    Attributes:
        key: equal for parts that one graph can stand for.
        inputs: the nodes whose values the graph takes.
        outputs: the nodes that other nodes read, in the order of the graph's results.
    """

    nodes: list[Node]
    body: GraphModule
    key: Hashable
    inputs: list[Node]
    outputs: list[Node]

    @staticmethod
    def of(graph: Graph, nodes: list[Node]) -> _Part | None:
        """Return the part that these nodes are; None if it does not stand alone."""
        own = set(nodes)
        read = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in own)
        outputs = [node for node in nodes if any(user not in own for user in node.users)]
        inputs = _with_sizes(graph, nodes, list(read))
        if inputs is None or not _stands_alone(nodes, inputs, outputs):
            return None
        body = _extracted(nodes, inputs, outputs)
        try:
            digest = graph_hash(body)
        except TypeError:  # it holds an object that only this process can load
            return None
        forms = tuple((type_text(n.meta["val"]), n.meta["val"].requires_grad) for n in inputs)
        return _Part(nodes, body, (digest, forms), inputs, outputs)

    def replace(self, block: Block, replaced: Mapping[Node, Node]) -> dict[Node, Node]:
        """Put a call of the block in the place of the nodes; return the new node of each output.

        Args:
            replaced: the new nodes of outputs of parts that have been replaced already.
        """
        first, graph = self.nodes[0], self.nodes[0].graph
        made: dict[Node, Node] = {}
        with graph.inserting_before(self.nodes[-1].next):
            inputs = tuple(replaced.get(node, node) for node in self.inputs)
            call = graph.call_function(block, inputs)
            values = tuple(node.meta["val"] for node in self.outputs)
            call.meta.update(val=values, source=first.meta.get("source"))
            for position, node in enumerate(self.outputs):
                made[node] = graph.call_function(operator.getitem, (call, position))
                made[node].meta.update(val=values[position], source=node.meta.get("source"))
        own = set(self.nodes)
        for node, result in made.items():
            for user in [user for user in node.users if user not in own]:
                user.replace_input(node, result)
        for node in reversed(self.nodes):
            graph.erase(node)
        return made


def _with_sizes(graph: Graph, nodes: list[Node], inputs: list[Node]) -> list[Node] | None:
    """Return the inputs, and inputs of the whole graph that are sizes the part computes with."""
    wanted = free_symbols([(node.args, dict(node.kwargs)) for node in nodes])
    for node in graph.placeholders:
        missing = wanted - bound_symbols(inputs)
        if not missing:
            break
        if not missing.isdisjoint(bound_symbols([node])):
            inputs = [*inputs, node]
    return None if wanted - bound_symbols(inputs) else inputs


def bound_symbols(nodes: Sequence[Node]) -> set[sympy.Symbol]:
    """Return the symbols that the values of these nodes tell."""
    return {symbol for symbol, _ in bindings(size for n in nodes for size in symbol_sizes(n))}


def _stands_alone(nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> bool:
    """Return whether the nodes only compute their outputs, in memory of their own."""
    if any(is_check(n) or is_symbol_node(n) or _has_other_effects(n, inputs) for n in nodes):
        return False
    values = [node.meta.get("val") for node in (*inputs, *outputs)]
    keys = [storage_key(value) for value in values if isinstance(value, FakeTensor)]
    if not outputs or len(keys) < len(values):
        return False
    given, made = keys[: len(inputs)], keys[len(inputs) :]
    return len({*made}) == len(made) and not {*made} & {*given}


def _has_other_effects(node: Node, inputs: list[Node]) -> bool:
    """Return whether a node does more than draw numbers and write to the part's own tensors."""
    written = list(written_by(node))
    if not written:
        return is_impure(node) and not is_random(node)
    outside = {storage_key(n.meta["val"]) for n in inputs if isinstance(n.meta["val"], FakeTensor)}
    values = [n.meta.get("val") for n in written]
    return any(not isinstance(v, FakeTensor) or storage_key(v) in outside for v in values)


def _extracted(nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Return a graph of copies of the nodes."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta.update(val=node.meta["val"], source=node.meta.get("source"))
    for node in nodes:
        copies[node] = graph.copy_node(node, copies.__getitem__)
        copies[node].meta["inside"] = True
    graph.output(tuple(copies[node] for node in outputs))
    return GraphModule(graph)
