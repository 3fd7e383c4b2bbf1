"""Values of nodes that depend on no input of their graph, computed at compile time on the CPU.

A causal mask is `torch.ones(n, n).tril()` in many programs. Its value decides how attention is
computed. A node is constant if it is deterministic, has static sizes, and reads constants only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import torch

from minitorch2.graph.effects import is_deterministic, is_mutating
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.node import Argument, Node, map_items
from minitorch2.graph.symbols import free_symbols

MOST_ELEMENTS: Final = 1 << 24
"""A larger tensor is not computed."""


class _OnCPU(Interpreter):
    """The interpreter that makes every tensor on the CPU."""

    def load(self, argument: Argument) -> Any:
        """Return an argument, and the CPU for each device in it."""
        if isinstance(argument, torch.device):
            return torch.device("cpu")
        return (
            self.values[argument] if isinstance(argument, Node) else map_items(argument, self.load)
        )


def constant_masks(module: GraphModule) -> Iterator[tuple[Node, torch.Tensor]]:
    """Yield the constant matrices that a node with other inputs reads, and their values."""
    runner, constants = _OnCPU(module), set[Node]()
    for node in module.graph.nodes:
        if is_mutating(node) and not constants.isdisjoint(node.all_input_nodes):
            return  # the write may reach other constants through views
        if constants.issuperset(node.all_input_nodes) and _is_constant(node):
            constants.add(node)
    read = {node for node in constants if not constants.issuperset(node.users) and _is_matrix(node)}
    for node in module.graph.nodes if read else ():
        if node in constants and runner.values.keys() >= set(node.all_input_nodes):
            with suppress(Exception):  # the program itself raises it when it runs
                runner.values[node] = runner.run_node(node)
                if node in read:
                    yield node, runner.values[node]


def _is_constant(node: Node) -> bool:
    shape = getattr(node.meta.get("val"), "shape", None)
    is_known = node.op in ("call_function", "call_method") and is_deterministic(node)
    if not is_known or shape is None or free_symbols((node.args, node.kwargs, tuple(shape))):
        return False
    return bool(math.prod(shape) <= MOST_ELEMENTS)


def _is_matrix(node: Node) -> bool:
    value: torch.Tensor = node.meta["val"]
    return value.dim() >= 2
