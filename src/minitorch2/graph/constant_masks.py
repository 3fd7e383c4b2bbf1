"""Masks that depend on no input of their graph, computed at compile time on the CPU.

A causal mask is `torch.ones(n, n).tril()` in many programs. Its value decides how attention is
computed.
"""

from __future__ import annotations

import math
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

    def can_run(self, node: Node) -> bool:
        """Return whether a node reads constants only and gives the same whenever it runs."""
        shape = getattr(node.meta.get("val"), "shape", None)
        if node.op not in ("call_function", "call_method") or shape is None:
            return False
        is_static = not free_symbols((node.args, node.kwargs, tuple(shape)))
        is_known = self.values.keys() >= set(node.all_input_nodes) and is_deterministic(node)
        return is_static and is_known and bool(math.prod(shape) <= MOST_ELEMENTS)


def constant_masks(module: GraphModule) -> dict[Node, torch.Tensor]:
    """Return the values of constant nodes; none if one is written to, as views may share it."""
    runner = _OnCPU(module)
    for node in module.graph.nodes:
        if is_mutating(node) and not runner.values.keys().isdisjoint(node.all_input_nodes):
            return {}
        if runner.can_run(node):
            with suppress(Exception):  # the program itself raises it when it runs
                runner.values[node] = runner.run_node(node)
    return runner.values
