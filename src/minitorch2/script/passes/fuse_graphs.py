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
from minitorch2.script.passes.create_differentiable_graphs import count_operators
from minitorch2.script.passes.regions import Admission, make_regions
from minitorch2.script.passes.rewriting import Rewrite, script_pass

KIND: Final = "prim::FusionGroup"
SPLITS: Final = frozenset(["prim::ConstantChunk", "aten::cat", "prim::ListConstruct"])


def is_pointwise(node: Node) -> bool:
    """Return whether a node computes each element of one tensor from elements in its place."""
    if torch.Tag.pointwise not in tags_of(node) or is_random(node):
        return False
    return not written_inputs(node) and isinstance(node.output.type, TensorType)


def is_fusible(node: Node) -> bool:
    """Return whether a node can be part of a kernel of pointwise operators."""
    return node.kind in SPLITS or is_pointwise(node)


@script_pass
def fuse_graphs(
    graph: Graph, smallest: int = 2, admits: Admission = is_fusible
) -> Iterator[Rewrite]:
    """Make a `prim::FusionGroup` of each run with at least ``smallest`` operators.

    Args:
        admits: whether a node can be part of a group.
    """
    differentiable = [n for n in graph.nodes() if n.kind == "prim::DifferentiableGraph"]
    for each in (graph, *(node.attributes["Subgraph"] for node in differentiable)):
        yield from make_regions(each, KIND, admits, lambda run: count_operators(run) >= smallest)
