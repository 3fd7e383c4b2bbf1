"""Subscripts of tensors: each index becomes a view, and tensors become ``aten::index``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitorch2.script.frontend.emission import Emission
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import BOOL, INT, TENSOR, ListType, OptionalType, TensorType
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange


@dataclass(frozen=True)
class Indexed:
    """A view of a tensor, and the tensors that index its first dimensions; None keeps one."""

    view: Value
    tensors: Sequence[Value | None]


def index_tensor(
    emission: Emission, tensor: Value, indices: Sequence[Any], where: SourceRange
) -> Value:
    """Emit ``tensor[indices]``."""
    indexed = view_of(emission, tensor, indices, where)
    if not indexed.tensors:
        return indexed.view
    listed = _index_list(emission, indexed.tensors, where)
    return emission.emit("aten::index", (indexed.view, listed), where)


def set_index(
    emission: Emission, tensor: Value, indices: Sequence[Any], value: Value, where: SourceRange
) -> None:
    """Emit ``tensor[indices] = value``."""
    indexed = view_of(emission, tensor, indices, where)
    is_tensor = isinstance(value.type, TensorType)
    if not indexed.tensors:
        kind = "aten::copy_" if is_tensor else "aten::fill_"
        emission.emit(kind, (indexed.view, value), where)
        return
    if not is_tensor:
        names = {
            name: emission.emit(f"prim::{name}", (tensor,), where) for name in ("dtype", "device")
        }
        value = emission.emit("aten::tensor", (value,), where, names)
    listed = _index_list(emission, indexed.tensors, where)
    emission.emit("aten::index_put_", (indexed.view, listed, value), where)


def _index_list(emission: Emission, tensors: Sequence[Value | None], where: SourceRange) -> Value:
    type_ = OptionalType(TENSOR)
    values = [
        emission.constant(None, where, type_)
        if value is None
        else emission.cast(value, type_, where)
        for value in tensors
    ]
    return emission.node("prim::ListConstruct", values, (ListType(type_),), where).output


def view_of(
    emission: Emission, tensor: Value, indices: Sequence[Any], where: SourceRange
) -> Indexed:
    """Emit what numbers, slices, None and ``...`` do; tensors are left for ``aten::index``."""
    at = next((i for i, index in enumerate(indices) if index is ...), len(indices))
    before, after = list(indices[:at]), list(indices[at + 1 :])
    view = _from_the_right(emission, tensor, after, where)
    tensors = list[Value | None]()
    dimension = 0
    for index in before:
        if _is_tensor(index):
            tensors += [None] * (dimension - len(tensors)) + [_as_tensor(emission, index, where)]
            dimension += 1
        else:
            view = _apply(emission, view, index, dimension, where)
            dimension += not _is_int(index)
    return Indexed(view, tensors)


def _from_the_right(
    emission: Emission, view: Value, indices: list[Any], where: SourceRange
) -> Value:
    """Emit the indices after ``...``, whose dimensions are counted from the last one."""
    kept = 0
    for index in reversed(indices):
        if _is_tensor(index):
            message = "a tensor as an index after `...` is no part of the language"
            fix = "write `:` for each dimension instead of `...`"
            raise ScriptError(message, where, code="script-index-after-ellipsis", fix=fix)
        view = _apply(emission, view, index, -1 - kept, where)
        kept += not _is_int(index)
    return view


def _apply(
    emission: Emission, view: Value, index: Any, dimension: int, where: SourceRange
) -> Value:
    dim = emission.constant(dimension, where)
    if index is None:
        return emission.emit("aten::unsqueeze", (view, dim), where)
    if isinstance(index, tuple):
        none, one = emission.constant(None, where), emission.constant(1, where)
        start, stop, step = index
        if start is None and stop is None and step is None:
            return view
        return emission.emit(
            "aten::slice", (view, dim, start or none, stop or none, step or one), where
        )
    if _is_int(index):
        return emission.emit("aten::select", (view, dim, index), where)
    message = f"a tensor cannot be indexed by a value of type {index.type}"
    raise ScriptError(message, where, code="script-index-type")


def _is_int(index: Any) -> bool:
    return isinstance(index, Value) and index.type == INT


def _is_tensor(index: Any) -> bool:
    return isinstance(index, Value) and (
        isinstance(index.type, TensorType | ListType)
        or index.type == BOOL
        or isinstance(index.type, OptionalType)
    )


def _as_tensor(emission: Emission, index: Value, where: SourceRange) -> Value:
    if isinstance(index.type, ListType) or index.type == BOOL:
        return emission.emit("aten::tensor", (index,), where)
    return index
