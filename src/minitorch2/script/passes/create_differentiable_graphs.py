"""Put runs of tensor operators into `prim::DifferentiableGraph` nodes.

Each is compiled with its gradients, and autograd of PyTorch works between them (TorchScript
overview, "Derivative Splitting").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch

from minitorch2.native.torch_internals.operators import OpOverload
from minitorch2.script.analysis.effects import overload_of, tags_of
from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.ir.types import INT, ListType, TensorType
from minitorch2.script.passes.regions import make_regions
from minitorch2.script.passes.rewriting import Rewrite, script_pass

KIND: Final = "prim::DifferentiableGraph"
LISTS: Final = frozenset(["prim::ListConstruct", "prim::ListUnpack", "prim::ConstantChunk"])
LOOKS_AT_DATA: Final = frozenset(
    [torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view]
)
_aten = torch.ops.aten
SIZED_BY_DATA: Final[frozenset[OpOverload]] = frozenset(
    [
        _aten.where.default,
        _aten.nonzero_numpy.default,
        _aten.repeat_interleave.self_Tensor,
        _aten.combinations.default,
        _aten.narrow.Tensor,
    ]
)
"""Operators whose results have sizes that depend on data, although PyTorch does not tag them so."""


@script_pass
def create_differentiable_graphs(graph: Graph, smallest: int = 2) -> Iterator[Rewrite]:
    """Make a region of each run of at least ``smallest`` operators that may need a gradient."""

    def is_worth(run: list[Node]) -> bool:
        return count_operators(run) >= smallest and may_need_gradient(run)

    yield from make_regions(graph, KIND, is_tensor_operator, is_worth)


def count_operators(run: list[Node]) -> int:
    """Return how many of some nodes compute tensors; lists and chunks only hold them."""
    return sum(node.kind.startswith("aten::") for node in run)


def may_need_gradient(nodes: list[Node]) -> bool:
    """Return whether any tensor that some nodes read may require a gradient."""
    types = [value.type for node in nodes for value in node.inputs]
    return any(t.requires_grad is not False for t in types if isinstance(t, TensorType))


def is_tensor_operator(node: Node) -> bool:
    """Return whether a node computes tensors from tensors, in a form known before it runs."""
    if node.kind in LISTS:
        return all(_is_of_tensors_or_sizes(output.type) for output in node.outputs)
    overload = overload_of(node)
    if overload is None or overload in SIZED_BY_DATA or LOOKS_AT_DATA & tags_of(node):
        return False
    inputs = any(_holds_tensors(value.type) for value in node.inputs)
    return inputs and all(_holds_tensors(output.type) for output in node.outputs)


def _holds_tensors(kind: object) -> bool:
    inner = kind.element if isinstance(kind, ListType) else kind
    return isinstance(inner, TensorType)


def _is_of_tensors_or_sizes(kind: object) -> bool:
    return _holds_tensors(kind) or (isinstance(kind, ListType) and kind.element == INT)
