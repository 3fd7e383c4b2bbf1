"""Infer the types of a node's outputs: dtype, device, rank, sizes, gradients.

The operator itself runs on meta tensors. A symbol takes the place of a size that is not known.
The result's sizes are believed if no symbol was asked for its value; else only the rank is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import torch

from minitorch2.graph.fake_tensor import to_fake
from minitorch2.graph.symbols import ShapeEnv
from minitorch2.graph.symbols.ranges import Range
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
    if not all(isinstance(output.type, TensorType) for output in node.outputs):
        return None
    if node.kind == "prim::ListUnpack" and not aliases.has_writers(node.inputs[0]):
        node = node.inputs[0].node
    operator, tensors = _known_operator(node)
    return None if operator is None else _of_operator(node, operator, tensors, aliases)


def known_length(items: Value, aliases: AliasDb) -> int | None:
    """Return how many tensors a list has that an operator makes; None if sizes decide it."""
    operator, tensors = _known_operator(items.node)
    if operator is None or aliases.has_writers(items):
        return None
    if _is_exact(tensors):
        results = _results(items.node, operator, partial(_with_size, 0), aliases)
    else:
        results = _for_any_sizes(items.node, operator, aliases)
    return None if results is None else len(results)


def _known_operator(node: Node) -> tuple[Operator | None, list[TensorType]]:
    """Return an operator that can run on meta tensors, or None; and the types of its tensors."""
    operator = operator_of(node)
    tensors = [v.type for v in node.inputs if isinstance(v.type, TensorType)]
    is_known = tensors and all(t.dtype is not None and t.sizes is not None for t in tensors)
    if not is_known or overload_of(node) is None or is_random(node):
        return None, tensors
    return operator, tensors


def _is_exact(tensors: Sequence[TensorType]) -> bool:
    return all(isinstance(size, int) for t in tensors for size in t.sizes or ())


def _of_operator(
    node: Node, operator: Operator, tensors: list[TensorType], aliases: AliasDb
) -> list[TensorType] | None:
    is_exact = _is_exact(tensors)
    pointwise = torch.Tag.pointwise in tags_of(node)
    if not is_exact and not pointwise and node.kind in RANK_BY_SIZES:
        return None
    if is_exact or pointwise:
        make = partial(_with_size, 0) if is_exact else partial(_of_size, 1)
        results = _results(node, operator, make, aliases)
    else:
        results = _for_any_sizes(node, operator, aliases)
        is_exact = results is not None
        results = results or _results(node, operator, partial(_of_size, STAND_IN), aliases)
    if results is None:
        return None
    device = tensors[0].device if len({t.device for t in tensors}) == 1 else None
    found = []
    for result in results:
        grad = _requires_grad(tensors, result.dtype)
        sizes = _sizes(result, tensors, is_exact=is_exact, pointwise=pointwise)
        found.append(TensorType(result.dtype, device, grad, sizes))
    return found


Maker: TypeAlias = Callable[[TensorType], torch.Tensor]
"""What makes the argument of an operator for a type whose dtype and rank are known."""


def _of_size(size: int, known: TensorType) -> torch.Tensor:
    """Make a tensor of one size in all dimensions."""
    return _with_size(size, replace(known, sizes=(None,) * len(known.sizes or ())))


def _with_size(size: int, known: TensorType) -> torch.Tensor:
    """Make a tensor with a size in place of those that are not known."""
    sizes = [n if isinstance(n, int) else size for n in known.sizes or ()]
    return torch.empty(sizes, dtype=known.dtype, device="meta")


def _with_symbols(env: ShapeEnv, known: TensorType) -> torch.Tensor:
    """Make a fake with a symbol of its own for each size that is not known."""
    sizes: list[Any] = list(known.sizes or ())
    for dimension, size in enumerate(sizes):
        if not isinstance(size, int):
            symbol = env.new_symbol(f"s{len(env.symbols)}", STAND_IN, Range(1, math.inf))
            sizes[dimension] = env.size_of(symbol)
    return to_fake(_with_size(STAND_IN, known), sizes)


def _for_any_sizes(node: Node, operator: Operator, aliases: AliasDb) -> list[torch.Tensor] | None:
    """Run an operator on symbolic sizes; None if it asks for one, or cannot.

    No symbol is zero, so what the operator gives for sizes of zero is compared.
    """
    env = ShapeEnv(duck_shapes=False)
    results = _results(node, operator, partial(_with_symbols, env), aliases)
    if results is None or env.guards or env.stated:
        return None
    empty = _results(node, operator, partial(_with_size, 0), aliases)
    is_sure = empty is None or (len(empty) == len(results) and all(map(_may_be, results, empty)))
    return results if is_sure else None


def _may_be(symbolic: torch.Tensor, found: torch.Tensor) -> bool:
    """Return whether the sizes of a tensor are those of a symbolic one, for some symbols."""
    pairs = zip(symbolic.shape, found.shape, strict=False)
    is_alike = all(a == b for a, b in pairs if isinstance(a, int))
    return symbolic.dim() == found.dim() and is_alike


def _results(
    node: Node, operator: Operator, make: Maker, aliases: AliasDb
) -> list[torch.Tensor] | None:
    """Run an operator on tensors that are made; None if an input is not known, or it raises."""
    arguments = [
        make(value.type) if isinstance(value.type, TensorType) else constant_of(value, aliases)
        for value in node.inputs
    ]
    if any(argument is NOT_CONSTANT for argument in arguments):
        return None
    try:
        with torch.no_grad():
            results = operator(*arguments)
    except Exception:  # noqa: BLE001 - the sizes may not fit each other: then nothing is known
        return None
    found = results if isinstance(results, tuple | list) else [results]
    return list(found) if all(isinstance(r, torch.Tensor) for r in found) else None


def _sizes(
    result: torch.Tensor, tensors: Sequence[TensorType], *, is_exact: bool, pointwise: bool
) -> tuple[Size, ...]:
    if is_exact:
        return tuple(size if isinstance(size, int) else None for size in result.shape)
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
