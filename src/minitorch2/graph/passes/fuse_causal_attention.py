"""Tell attention that its mask is causal, where the graph computes the mask of constants.

Law, if the mask is the lower triangle::

    softmax(q @ k.mT * scale + mask) @ v  -->  attention(q, k, v, is_causal=True)
    attention(q, k, v, mask)              -->  attention(q, k, v, is_causal=True)

A causal mask is `torch.ones(n, n).tril()` in many programs. It depends on no input of the graph, so
its value is computed at compile time, on the CPU. The operator then leaves half of the work out.
The ways to write the left side are rules in ``graph/patterns/attention.py``.
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
from minitorch2.graph.patterns import FAMILIES, apply_rules
from minitorch2.graph.rewriting import Rewrite, graph_pass
from minitorch2.graph.symbols import free_symbols

MOST_ELEMENTS: Final = 1 << 24
"""A larger tensor is not computed."""


@graph_pass
def fuse_causal_attention(module: GraphModule) -> Iterator[Rewrite]:
    """Let one operator do causal attention if the graph computes the mask of constants."""
    names = [str(node.target) for node in module.graph.nodes]
    if not any("softmax" in name or "scaled_dot_product" in name for name in names):
        return
    constants = constant_values(module)
    masks = [node for node, value in constants.items() if value.dim() >= 2]
    for node in masks:
        node.meta["val"].known = constants[node]
    is_changed = False
    for rewrite in apply_rules(module, FAMILIES["fuse_causal_attention"]) if masks else ():
        yield rewrite
        is_changed = True
    for node in masks:
        node.meta["val"].known = None
    for node in reversed(constants) if is_changed else ():
        if not node.users:  # it has been computed, so there is no error that it would raise
            module.graph.erase(node)


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


def constant_values(module: GraphModule) -> dict[Node, torch.Tensor]:
    """Return the values of constant nodes; none if one is written to, as views may share it."""
    runner = _OnCPU(module)
    for node in module.graph.nodes:
        if is_mutating(node) and not runner.values.keys().isdisjoint(node.all_input_nodes):
            return {}
        if runner.can_run(node):
            with suppress(Exception), torch.device("cpu"):  # the program itself raises when it runs
                runner.values[node] = runner.run_node(node)
    return runner.values
