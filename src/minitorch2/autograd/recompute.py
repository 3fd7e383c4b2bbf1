"""The partitioner's prices: nodes that backward may recompute, and the cost of saving a value."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable
from typing import Any, Final

import sympy
import torch

from minitorch2.autograd.schemas import alias_facts
from minitorch2.graph.effects import is_impure
from minitorch2.graph.node import Node
from minitorch2.graph.symbols import expr_of
from minitorch2.native.torch_internals.operators import OpOverload

aten = torch.ops.aten

_CREATIONS: Final = frozenset(
    {aten.full.default, aten.arange.start_step, aten.empty_like.default, aten._to_copy.default}
)
_PAIRS: Final = (aten.var_mean.correction, aten.max.dim, aten.min.dim)
"""Reductions with two results, which are loops like all others."""
_PRODUCTS: Final = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)


def is_recomputable(node: Node) -> bool:
    """Return whether running the node again in backward is cheap and gives the same value.

    That holds for pointwise operators, views and constants, which fuse into their readers. It does
    not hold for matrix products, reductions, gathers, random operators and nodes with effects.
    """
    if node.op == "get_attr":
        return True
    if node.op != "call_function" or is_impure(node):
        return False
    if node.target is operator.getitem or node.target in _CREATIONS:
        return True
    if node.target is aten.constant_pad_nd.default:
        # Windows of padded images would each compute again what precedes them; indices are short.
        return not node.meta["val"].is_floating_point()
    if _copies_an_input(node):
        return False
    if not isinstance(node.target, OpOverload):
        return False
    return torch.Tag.pointwise in node.target.tags or alias_facts(node.target).is_view


def _copies_an_input(node: Node) -> bool:
    """Return whether a node copies an input, which may be written to before backward runs."""
    return node.target is aten.clone.default and node.args[0].op == "placeholder"


def could_recompute(node: Node) -> bool:
    """Return whether running the node again gives the same value, at whatever cost."""
    if node.op != "call_function" or is_impure(node):
        return is_recomputable(node)
    return not _copies_an_input(node)


def effort(node: Node) -> float:
    """Estimate the arithmetic operations of a node, the cost of recomputing it."""
    inputs = [n.meta["val"] for n in node.all_input_nodes]
    read = sum(_numel(value) for value in inputs if isinstance(value, torch.Tensor))
    contracted = _contracted(node, inputs)
    return read if contracted is None else 2 * contracted * _numel(node.meta["val"])


def _contracted(node: Node, inputs: list[Any]) -> int | None:
    """Return the number of products summed for an element of a matrix product or convolution."""
    if node.target in _PRODUCTS:
        return _hint(inputs[-1].shape[-2])
    if node.target is aten.convolution.default:
        return _numel(inputs[1]) // _hint(inputs[1].shape[0])
    return None


def price(node: Node, is_held: bool, stored: Collection[Node]) -> float:
    """Return the cost of saving the node's value, in bytes of memory traffic and of memory held.

    A value that is stored in memory anyway (`stored_anyway`), or a view of one, is only held
    longer. Any other value would live in registers of a fused kernel: saving also writes it, so it
    counts twice. An input or output of the program (`is_held`) is probably in use elsewhere, and
    counts half.
    """
    if is_held:
        return saved_bytes(node) / 2
    base = node
    while _is_view(base):
        base = base.all_input_nodes[0]
    return saved_bytes(node) * (1 if base in stored else 2)


def stored_anyway(forward: Iterable[Node]) -> set[Node]:
    """Return the values that forward writes to memory whether they are saved or not.

    These are results of library calls and reductions, and the inputs of library calls. A value read
    both before and after such a call is stored, too, as are the residual sums of a transformer.
    """
    calls: dict[Node, int] = {}  # so many library calls in a row came before
    for node in forward:
        before = max((calls[used] for used in node.all_input_nodes), default=0)
        calls[node] = before + _is_library_call(node)
    stored = set()
    for node in calls:
        readers = [user for user in node.readers(_is_view) if user in calls]
        after = {calls[user] > calls[node] for user in readers}
        is_pointwise = is_recomputable(node) and node.target is not operator.getitem
        if not is_pointwise or len(after) == 2 or any(map(_is_library_call, readers)):
            stored.add(node)
    return stored


def is_written_again(node: Node, backward: Collection[Node]) -> bool:
    """Return whether recomputing the value in backward writes it, for a library call that reads it.

    A GPU's time is its memory traffic, so there the write costs as much as saving the value. On a
    CPU the memory that is not held is worth it.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type == "cpu" or _is_view(node):
        return False
    return any(user in backward and _is_library_call(user) for user in node.readers(_is_view))


def _is_library_call(node: Node) -> bool:
    """Return whether a library's kernel computes the node; it shares no loops with others."""
    if is_recomputable(node) or node.op != "call_function" or node.target in _PAIRS:
        return False
    value = node.meta.get("val")
    return isinstance(value, tuple) or node.target in (*_PRODUCTS, aten.convolution.default)


def _is_view(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and alias_facts(node.target).is_view


def saved_bytes(node: Node) -> float:
    """Return the bytes that saving the node's value holds; infinite for a tuple of results."""
    value = node.meta.get("val")
    if node.op == "get_attr":
        return 0
    if not isinstance(value, torch.Tensor):
        return math.inf
    return max(1, _numel(value)) * value.element_size()


def result_bytes(node: Node) -> float:
    """Return the bytes of all results of the node."""
    value = node.meta.get("val")
    results = value if isinstance(value, tuple) else (value,)
    tensors = [t for t in results if isinstance(t, torch.Tensor)]
    return max(1, sum(_numel(t) * t.element_size() for t in tensors))


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
