"""Put runs of pointwise operators, with the chunks and concatenations between, into one kernel.

For graphs that need no gradient, and for the inside of `prim::DifferentiableGraph` (TorchScript
overview, "Post-derivative optimization").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch

from minitorch2.script.analysis.effects import is_random, tags_of, written_inputs
from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.ir.types import TensorType
from minitorch2.script.passes.regions import make_regions
from minitorch2.script.passes.rewriting import Rewrite, script_pass

KIND: Final = "prim::FusionGroup"
SPLITS: Final = frozenset(["prim::ConstantChunk", "aten::cat", "prim::ListConstruct"])


@script_pass
def fuse_graphs(graph: Graph, smallest: int = 2) -> Iterator[Rewrite]:
    """Make a `prim::FusionGroup` of each run with at least ``smallest`` pointwise operators."""

    def is_worth(run: list[Node]) -> bool:
        return sum(is_pointwise(node) for node in run) >= smallest

    yield from make_regions(graph.block, KIND, is_fusible, is_worth)
    for node in list(graph.nodes()):
        if node.kind == "prim::DifferentiableGraph":
            inner = make_regions(node.attributes["Subgraph"].block, KIND, is_fusible, is_worth)
            yield from inner


def is_pointwise(node: Node) -> bool:
    """Return whether a node computes each element of one tensor from elements in its place."""
    if torch.Tag.pointwise not in tags_of(node) or is_random(node):
        return False
    return not written_inputs(node) and isinstance(node.output.type, TensorType)


def is_fusible(node: Node) -> bool:
    """Return whether a node can be part of a kernel of pointwise operators."""
    return node.kind in SPLITS or is_pointwise(node)
