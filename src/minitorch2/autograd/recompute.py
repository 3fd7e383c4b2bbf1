"""Which values backward may compute again, and what saving one costs: the partitioner's prices."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import sympy
import torch

from minitorch2.autograd.schemas import alias_facts
from minitorch2.graph.effects import is_impure
from minitorch2.graph.node import Node
from minitorch2.graph.symbols import expr_of

aten = torch.ops.aten

_CREATIONS: Final = frozenset(
    {aten.full.default, aten.arange.start_step, aten.empty_like.default, aten._to_copy.default}
)


def is_recomputable(node: Node) -> bool:
    """Whether running the node again in backward is cheap and gives the same value.

    Pointwise operators, views and constants are: they fuse into their readers. Matrix products,
    reductions, gathers, random operators and whatever has effects are not.
    """
    if node.op == "get_attr":
        return True
    if node.op != "call_function" or is_impure(node):
        return False
    if node.target is operator.getitem or node.target in _CREATIONS:
        return True
    if _copies_an_input(node):
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in node.target.tags or alias_facts(node.target).is_view


def _copies_an_input(node: Node) -> bool:
    """The input may be written to before backward runs."""
    return node.target is aten.clone.default and node.args[0].op == "placeholder"


def could_recompute(node: Node) -> bool:
    """Whether running the node again gives the same value, at whatever cost."""
    if node.op != "call_function" or is_impure(node):
        return is_recomputable(node)
    return not _copies_an_input(node)


def effort(node: Node) -> float:
    """Roughly the arithmetic operations of a node: what computing it again costs."""
    inputs = [n.meta["val"] for n in node.all_input_nodes]
    read = sum(_numel(value) for value in inputs if isinstance(value, torch.Tensor))
    contracted = _contracted(node, inputs)
    return read if contracted is None else 2 * contracted * _numel(node.meta["val"])


def _contracted(node: Node, inputs: list[Any]) -> int | None:
    """How many products are summed up for an element of a matrix product or a convolution."""
    if node.target in (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default):
        return _hint(inputs[-1].shape[-2])
    if node.target is aten.convolution.default:
        return _numel(inputs[1]) // _hint(inputs[1].shape[0])
    return None


def price(node: Node, is_held: bool) -> float:
    """What saving the node's value costs, in bytes of memory traffic and memory held.

    Inputs and results of matrix products, reductions and other kernels are in memory anyway:
    saving them holds them longer. A pointwise value would live in registers of a fused kernel only:
    saving it writes it as well, so it counts twice. What ``is_held`` as an input or output of the
    program is probably in use elsewhere, and counts half.
    """
    if is_held:
        return saved_bytes(node) / 2
    stored_anyway = not is_recomputable(node) or node.target is operator.getitem
    return saved_bytes(node) * (1 if stored_anyway or _is_view(node) else 2)


def _is_view(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and alias_facts(node.target).is_view


def saved_bytes(node: Node) -> float:
    """The bytes that saving the node's value holds; infinite for what is no tensor (a tuple of
    results).
    """
    value = node.meta.get("val")
    if node.op == "get_attr":
        return 0
    if not isinstance(value, torch.Tensor):
        return math.inf
    return max(1, _numel(value)) * value.element_size()


def _numel(value: torch.Tensor) -> int:
    total = 1
    for size in value.shape:
        total *= _hint(size)
    return total


def _hint(size: Any) -> int:
    expr = expr_of(size)
    if not isinstance(expr, sympy.Expr):
        return int(expr)
    env = size.node.shape_env
    return int(env.hint(expr)) if env.has_hint(expr) else _UNKNOWN_SIZE


_UNKNOWN_SIZE: Final = 1024
"""The price of a saved value supposes this of a size that only data will tell."""
