"""Cut a backward graph where a bucket of gradients is full, so that the bucket is sent early.

Law, for a backward graph whose nodes are, in order, those of `first` and those of `second`::

    gradients = backward(saved, tangents)
        -->  some, passed = first(saved, tangents); others = second(saved, tangents, passed)

Nodes keep their order, and the part that computes a gradient gives it. A part ends behind the node
that fills a bucket. `DistributedDataParallel` fills buckets in the order in which gradients
arrive, up to the same sizes. No part ends while a collective is under way: its operands would be
free by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any, Final

import sympy
import torch

from minitorch2 import stages
from minitorch2.autograd.blocks import copied
from minitorch2.autograd.recompute import saved_bytes
from minitorch2.autograd.schemas import memory_root
from minitorch2.distributed.overlap_collectives import is_start, is_wait
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, map_nodes, nodes_in
from minitorch2.graph.symbols import bindings, expr_of, free_symbols

DEFAULT_BYTES: Final = 25 * 2**20
FIRST_BYTES: Final = 2**20
"""The size of the first bucket, if others have the default size: sending begins early."""


@dataclass(frozen=True)
class Part:
    """The values that a part of a backward graph reads and gives, as places in a row.

    The row begins with the arguments of the whole graph; each part appends what it passes on.
    ``reads`` are places in the row, and ``last`` those of them that no later part reads. A part
    returns the gradients of the inputs ``gradients``, and behind them what it passes on.
    """

    reads: tuple[int, ...]
    last: frozenset[int]
    gradients: tuple[int, ...]


def cut_backward(
    module: GraphModule, bucket_bytes: int
) -> tuple[list[GraphModule], tuple[Part, ...]]:
    """Return the graphs of the parts in order, and their places; the whole if no bucket is full."""
    for node in [*module.graph.nodes]:
        # A part passes tensors on, and not the tuples that some operators return.
        if node.target is getitem and node.prev is not node.args[0]:
            module.graph.move(node, node.args[0].next)
    groups = [*_groups(module.graph, bucket_bytes)]
    if len(groups) < 2:
        return [module], ()
    stages.count("parts_of_backward", len(groups))
    graphs, parts = zip(*_Cut(module, groups).parts(), strict=True)
    return [*graphs], parts


def _groups(graph: Graph, bucket_bytes: int) -> Iterator[list[Node]]:
    """Yield the nodes of each part, which fill a bucket."""
    given, group, is_full = {*nodes_in(graph.output_node.args)}, list[Node](), False
    filled = defaultdict[Any, float](float)
    first = FIRST_BYTES if bucket_bytes == DEFAULT_BYTES else bucket_bytes
    limits = defaultdict[Any, int](lambda: first)
    under_way = set[Node]()
    for node in graph.nodes:
        if node.op == "output":
            break
        if is_full and not under_way and node.target is not getitem:
            yield group
            group, is_full = [], False
        group.append(node)
        if is_start(node):
            under_way |= {*_waits(node)} or {node}
        under_way.discard(node)
        if node in given:
            kind = node.meta["val"].dtype, node.meta["val"].device
            filled[kind] += saved_bytes(node)
            if filled[kind] >= limits[kind]:
                filled[kind], limits[kind], is_full = 0, bucket_bytes, True
    yield group


def _waits(start: Node) -> Iterator[Node]:
    """Yield the nodes that wait for a collective."""
    return filter(is_wait, start.readers(lambda node: node.target is getitem))


class _Cut:
    """The parts of a backward graph, given the nodes of each."""

    def __init__(self, module: GraphModule, groups: Sequence[list[Node]]) -> None:
        self.module = module
        self.groups = groups
        self.part = {node: k for k, group in enumerate(groups) for node in group}
        self.given = module.graph.output_node.args[0]
        placeholders = module.graph.placeholders
        self.row = {node: place for place, node in enumerate(placeholders)}
        self.binding = self._binding(placeholders)
        self.reads = [[*self._reads(group)] for group in groups]
        self.last = {node: k for k, nodes in enumerate(self.reads) for node in nodes}
        self.readers = defaultdict[Node, set[int]](set)
        for node, k in self.part.items():
            for used in node.all_input_nodes:
                self.readers[memory_root(used)].add(k)
        for node in nodes_in(self.given):
            self.readers[memory_root(node)].add(self.part[node])

    def parts(self) -> Iterator[tuple[GraphModule, Part]]:
        """Yield each part's graph, and its places in the row."""
        for k, group in enumerate(self.groups):
            inputs = tuple(i for i, g in enumerate(self.given) if self.part.get(g) == k)
            passed = [n for n in group if n not in self.row and self.last.get(n, k) > k]
            reads = self.reads[k]
            places = tuple(self.row[node] for node in reads)
            self.row |= {node: len(self.row) + i for i, node in enumerate(passed)}
            last = frozenset(self.row[node] for node in reads if self.last[node] == k)
            yield self._extract(k, inputs, passed), Part(places, last, inputs)

    def _binding(self, placeholders: Sequence[Node]) -> dict[sympy.Symbol, Node]:
        """Return an argument of the whole graph that tells each size symbol."""
        found: dict[sympy.Symbol, Node] = {}
        for node in placeholders:
            for symbol in _symbols_told(node):
                found.setdefault(symbol, node)
        return found

    def _reads(self, group: Sequence[Node]) -> Iterator[Node]:
        """Yield the values of the row that a part reads, or returns, or takes sizes from."""
        own, used = {*group}, dict[Node, None]()
        outputs = [g for g in nodes_in(self.given) if g in own]
        for node in group:
            used |= dict.fromkeys(node.all_input_nodes)
        used |= dict.fromkeys(outputs)
        reads = [n for n in used if n in self.row or n not in own]
        reads = [n for n in reads if n.op != "get_attr"]
        yield from reads
        told = {symbol for node in reads for symbol in _symbols_told(node)}
        needed: set[sympy.Symbol] = set()
        for node in group:
            needed |= free_symbols((node.args, dict(node.kwargs), _sizes(node)))
        missing = sorted(needed - told, key=str)
        yield from dict.fromkeys(self.binding[s] for s in missing if s in self.binding)

    def _extract(self, k: int, inputs: Sequence[int], passed: Sequence[Node]) -> GraphModule:
        graph, copies = Graph(), dict[Node, Node]()
        for node in self.reads[k]:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = {**node.meta, "donated": self._is_donated(node, k)}
        held = {used for n in self.groups[k] for used in n.all_input_nodes if used.op == "get_attr"}
        for node in (*sorted(held, key=str), *self.groups[k]):
            if node.op != "placeholder":
                copies[node] = graph.copy_node(node, copies.__getitem__)
        gradients = [self.given[i] for i in inputs]
        graph.output(map_nodes((*gradients, *passed), copies.__getitem__))
        results = graph.output_node.args[0]
        own = [
            copied(result) if max(self.readers[memory_root(gradient)]) > k else result
            for gradient, result in zip(gradients, results, strict=False)
        ]
        graph.output_node.update_args(((*own, *results[len(own) :]),), {})
        return GraphModule(graph, self.module.attributes)

    def _is_donated(self, node: Node, k: int) -> bool:
        """Return whether a part may write to an argument: no other part reads its memory."""
        return bool(node.meta.get("donated")) and self.readers[node] == {k}


def _sizes(node: Node) -> tuple[Any, ...]:
    return tuple(getattr(node.meta.get("val"), "shape", ()))


def _symbols_told(node: Node) -> set[sympy.Symbol]:
    """Return the size symbols that an argument tells: it is one, or has one as a size."""
    value = node.meta.get("val")
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    symbolic = [expr_of(size) for size in sizes if isinstance(size, torch.SymInt)]
    return {symbol for symbol, _ in bindings((size, "") for size in symbolic)}
