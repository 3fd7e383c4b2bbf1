"""Watch the tensors that a graph reads: a `prim::profile` node before each use.

Its ``record`` merges the types of all tensors that pass (TorchScript overview, "Profiling
Programs").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from minitorch2.script.ir.graph import Block, Graph, Node
from minitorch2.script.ir.types import TensorType
from minitorch2.script.passes.rewriting import Rewrite, script_pass

PROFILE = "prim::profile"
_KNOWN = (PROFILE, "prim::Constant")  # watched already, or always the same


class Record(Protocol):
    """A profile node's memory: the type of all tensors seen; None before the first."""

    @property
    def type(self) -> TensorType | None:
        """Return the most exact type that every tensor seen is of."""


@script_pass
def insert_profiles(graph: Graph, make_record: Callable[[], Record]) -> Iterator[Rewrite]:
    """Put a profile node before each use of a tensor by an operator, with a record of its own."""
    yield from _watch(graph.block, make_record)


def _watch(block: Block, make_record: Callable[[], Record]) -> Iterator[Rewrite]:
    for node in list(block.nodes):
        for inner in node.blocks:
            yield from _watch(inner, make_record)
        if not node.blocks:
            yield from _watch_inputs(node, make_record)


def _watch_inputs(node: Node, make_record: Callable[[], Record]) -> Iterator[Rewrite]:
    for index, value in enumerate(node.inputs):
        if isinstance(value.type, TensorType) and value.node.kind not in _KNOWN:
            yield Rewrite(f"input {index} is watched", node)
            watched = node.graph.create(PROFILE, [value], [value.type], range=node.range)
            watched.attributes["record"] = make_record()
            watched.insert_before(node).output.name = value.name
            node.replace_input(index, watched.output)
