"""Inputs and results of a program that eager's operators keep for backward.

    q = queue.clone()        # eager keeps the copy: the program may write to `queue`
    return x.exp()           # eager keeps the result: a write to it makes backward raise

A compiled graph may save any of its inputs and results. It saves a value that eager keeps, too, as
it is: PyTorch tells of a write. It saves a copy of any other one, which the program may write to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch2.graph.fake_tensor import FakeTensor, storage_key
from minitorch2.graph.graph import Graph
from minitorch2.graph.higher_order import Block, HigherOrder
from minitorch2.graph.history import history, kept_by
from minitorch2.graph.node import Node
from minitorch2.graph.wrapper_tensors import plain_parts


def kept_values(graph: Graph, inputs: Sequence[Any], results: Sequence[Any]) -> frozenset[int]:
    """Return the places in ``(*inputs, *results)`` of what a write would make unusable in eager.

    Args:
        graph: the captured graph.
        inputs, results: the fakes of a run of it, with their history; other values are kept.
    """
    functions = {each for x in results if isinstance(x, FakeTensor) for each in history(x)}
    kept = {part for function in functions for x in kept_by(function) for part in plain_parts(x)}
    memory = {storage_key(part) for part in kept if isinstance(part, FakeTensor)}
    given = {used for node in graph.nodes if _keeps_operands(node) for used in node.all_input_nodes}
    by_call = {i for i, node in enumerate(graph.placeholders) if node in given}

    def is_kept(value: Any) -> bool:
        return not isinstance(value, FakeTensor) or storage_key(value) in memory

    places = enumerate((*inputs, *results))
    return frozenset(by_call | {i for i, value in places if is_kept(value)})


def _keeps_operands(node: Node) -> bool:
    """Return whether backward runs a node again: a checkpoint, a branch, a loop, a block."""
    return isinstance(node.target, Block | HigherOrder) or getattr(
        node.target, "is_recomputed", False
    )
