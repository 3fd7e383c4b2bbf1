"""Infer the types of a node's outputs: dtype, device, rank, sizes, gradients.

The operator itself runs on meta tensors. A stand-in takes the place of a size that is not known.
Then only facts that do not depend on it are believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.analysis.effects import is_random, overload_of, tags_of
from minitorch2.script.ir.graph import NOT_CONSTANT, Node, Value
from minitorch2.script.ir.types import Size, TensorType, Type, erase_facts
from minitorch2.script.operators.registry import Operator, operator_of
from minitorch2.script.passes.constants import constant_of

RANK_BY_SIZES: Final = frozenset(["aten::squeeze", "aten::squeeze_", "aten::nonzero", "aten::cat"])
"""Operators whose rank, for inputs of known rank, depends on sizes."""

STAND_IN: Final = 2


def infer_types(node: Node, aliases: AliasDb) -> list[Type]:
    """Return the types of a node's outputs, as far as they follow from those of its inputs."""
    found = _infer(node, aliases)
    if found is None or len(found) != len(node.outputs):
        return [erase_facts(output.type) for output in node.outputs]
    return [_lasting(t, v, aliases) for t, v in zip(found, node.outputs, strict=True)]


def _lasting(found: TensorType, value: Value, aliases: AliasDb) -> Type:
    """Return what stays true of a value whatever is written to it."""
    if not isinstance(value.type, TensorType) or aliases.changes_form(value):
        return erase_facts(value.type)
    grad = None if aliases.has_writers(value) else found.requires_grad
    return TensorType(found.dtype, found.device, grad, found.sizes)


def _infer(node: Node, aliases: AliasDb) -> list[TensorType] | None:
    if node.kind == "prim::ConstantChunk":
        return _chunks(node)
    operator = operator_of(node)
    if operator is None or overload_of(node) is None or is_random(node):
        return None
    if not all(isinstance(output.type, TensorType) for output in node.outputs):
        return None
    tensors = [v.type for v in node.inputs if isinstance(v.type, TensorType)]
    if not tensors or any(t.dtype is None or t.sizes is None for t in tensors):
        return None
    return _of_operator(node, operator, tensors, aliases)


def _of_operator(
    node: Node, operator: Operator, tensors: list[TensorType], aliases: AliasDb
) -> list[TensorType] | None:
    is_exact = all(isinstance(size, int) for t in tensors for size in t.sizes or ())
    pointwise = torch.Tag.pointwise in tags_of(node)
    if not is_exact and not pointwise and node.kind in RANK_BY_SIZES:
        return None
    stand_in = None if is_exact else 1 if pointwise else STAND_IN
    results = _results(node, operator, stand_in, aliases)
    if results is None:
        return None
    device = tensors[0].device if len({t.device for t in tensors}) == 1 else None
    found = []
    for result in results:
        grad = _requires_grad(tensors, result.dtype)
        sizes = _sizes(result, tensors, is_exact=is_exact, pointwise=pointwise)
        found.append(TensorType(result.dtype, device, grad, sizes))
    return found


def _results(
    node: Node, operator: Operator, stand_in: int | None, aliases: AliasDb
) -> list[torch.Tensor] | None:
    """Run an operator on meta tensors; None where an input is not known, or it raises."""
    arguments = [_argument(value, stand_in, aliases) for value in node.inputs]
    if any(argument is NOT_CONSTANT for argument in arguments):
        return None
    try:
        with torch.no_grad():
            results = operator(*arguments)
    except Exception:  # noqa: BLE001 - the stand-ins may not fit each other: then nothing is known
        return None
    found = results if isinstance(results, tuple | list) else [results]
    return list(found) if all(isinstance(r, torch.Tensor) for r in found) else None


def _argument(value: Value, stand_in: int | None, aliases: AliasDb) -> Any:
    if not isinstance(value.type, TensorType):
        return constant_of(value, aliases)
    assert value.type.sizes is not None
    sizes = [size if stand_in is None else stand_in for size in value.type.sizes]
    return torch.empty(sizes, dtype=value.type.dtype, device="meta")  # type: ignore[arg-type]


def _sizes(
    result: torch.Tensor, tensors: Sequence[TensorType], *, is_exact: bool, pointwise: bool
) -> tuple[Size, ...]:
    if is_exact:
        return tuple(result.shape)
    if not pointwise:
        return (None,) * result.dim()
    return tuple(_broadcast(tensors, -k) for k in range(result.dim(), 0, -1))


def _broadcast(tensors: Sequence[TensorType], dim: int) -> Size:
    """Return the size of a dimension, counted from the last, of tensors that are broadcast."""
    present = [t.sizes[dim] for t in tensors if t.sizes is not None and len(t.sizes) >= -dim]
    large = [size for size in present if isinstance(size, int) and size != 1]
    if large:
        return large[0]
    return present[0] if len(set(present)) == 1 else None


def _requires_grad(tensors: Sequence[TensorType], dtype: torch.dtype) -> bool | None:
    """Return False where no input requires a gradient; else the gradient mode decides."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return False
    return False if all(t.requires_grad is False for t in tensors) else None


def _chunks(node: Node) -> list[TensorType] | None:
    whole = node.inputs[0].type
    count, dim = node.attributes["chunks"], node.attributes["dim"]
    if not isinstance(whole, TensorType):
        return None
    sizes = whole.sizes
    if sizes is not None and -len(sizes) <= dim < len(sizes):
        cut = list(sizes)
        size = cut[dim]
        cut[dim] = size // count if isinstance(size, int) and size % count == 0 else None
        sizes = tuple(cut)
    grad = False if whole.requires_grad is False else None
    return [TensorType(whole.dtype, whole.device, grad, sizes)] * len(node.outputs)
