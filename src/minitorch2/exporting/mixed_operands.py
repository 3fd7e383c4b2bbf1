"""Operands of several dtypes or devices: the errors that only a real call of an operator raises.

Tensors without data do not tell all of them: a product of float32 and float64 has a form, and no
kernel. The operators in question are called once, on zeros of the example's sizes.
"""

from __future__ import annotations

from typing import Any, Final

import sympy
import torch

from minitorch2.errors import ExportError
from minitorch2.exporting.capturing import without_meaning
from minitorch2.graph.effects import bare_name
from minitorch2.graph.graph import Graph
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals.pytree import tree_leaves, tree_map

_OF_ONE_DTYPE: Final = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "addr", "convolution",
     "native_layer_norm", "native_group_norm"}
)  # fmt: skip
"""The operators whose kernels may refuse operands of several dtypes."""


def try_mixed_operands(graph: Graph) -> None:
    """Call the operators of a graph whose operands are mixed, on zeros.

    Raises:
        ExportError: an operator refuses them; with the words of eager PyTorch, and the line.
    """
    for node in graph.nodes:
        if callable(node.target) and _is_mixed(node):
            args, kwargs = tree_map(_example, (node.args, node.kwargs))
            if any(isinstance(leaf, sympy.Basic) for leaf in tree_leaves((args, kwargs))):
                continue  # a size that varies: the call itself will tell
            try:
                node.target(*args, **kwargs)
            except (RuntimeError, TypeError, ValueError) as error:
                raise ExportError(
                    f"eager PyTorch refuses this call, too: {type(error).__name__}: {error}",
                    code="export",
                    fix="give an example that the program computes: of its dtype, on its device",
                    user_line=node.meta.get("source"),
                ) from None


def _is_mixed(node: Node) -> bool:
    values = [n.meta.get("val") for n in node.all_input_nodes]
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    devices = {v.device.type for v in tensors if v.dim()}
    dtypes = {v.dtype for v in tensors}
    return len(devices) > 1 or (len(dtypes) > 1 and bare_name(node) in _OF_ONE_DTYPE)


def _example(leaf: Any) -> Any:
    return without_meaning(leaf.meta["val"]) if isinstance(leaf, Node) else leaf
