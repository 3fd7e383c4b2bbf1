"""Arguments and results of a traced function: containers of tensors, taken apart and put together.

Only tensors are recorded. A container is taken apart at the entry of the graph, where its form is
checked, and results are put together before the graph's end (TorchScript overview, "Tracer").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from minitorch2.script.ir.graph import Node, Value
from minitorch2.script.ir.types import (
    BOOL,
    STR,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    type_of,
    union_of,
)
from minitorch2.script.tracing.graph_writer import SYMBOLIC
from minitorch2.script.tracing.sizes import SymbolicWriter
from minitorch2.script.tracing.traced_tensor import TracedTensor


def fields_of(value: Any) -> tuple[str, ...] | None:
    """Return the names of a NamedTuple's fields; None for another value."""
    return getattr(value, "_fields", None) if isinstance(value, tuple) else None


def type_of_example(value: Any) -> Type:
    """Return the type of an argument; all tensors have the same one.

    Raises:
        TypeError: the script language has no type for the value.
    """
    if isinstance(value, torch.Tensor):
        return TENSOR
    if value is None:
        return OptionalType(TENSOR)
    if isinstance(value, tuple):
        elements = tuple(map(type_of_example, value))
        if fields_of(value):
            return TupleType(elements, fields_of(value), type(value).__name__)
        return TupleType(elements)
    if isinstance(value, list):
        return ListType(type_of_example(value[0]) if value else TENSOR)
    if isinstance(value, dict):
        items = [type_of_example(item) for item in value.values()]
        return DictType(type_of(next(iter(value), "")), union_of(items) if items else TENSOR)
    return type_of(value)


class Unpacker:
    """Takes an argument apart; checks that other calls give the same form."""

    def __init__(self, writer: SymbolicWriter) -> None:
        self.writer = writer

    def unpack(self, example: Any, value: Value, source: str) -> Any:
        """Return what the traced function gets for an example.

        Args:
            value: what stands for the argument in the graph.
            source: the argument's name in messages.
        """
        if isinstance(example, torch.Tensor):
            return self._tensor(example, value, source)
        if isinstance(example, tuple):
            return self._tuple(example, value, source)
        if isinstance(example, list):
            return self._list(example, value, source)
        if isinstance(example, dict):
            return self._dict(example, value, source)
        kind = "aten::__is__" if example is None else "aten::eq"
        self._check(
            lambda: self.writer.emit(kind, value, self.writer.constant(example), type=BOOL),
            f"{source} is {example!r}",
        )
        return example

    def _tensor(self, example: torch.Tensor, value: Value, source: str) -> torch.Tensor:
        traced = self.writer.new_input(example, value, source)
        emit, equal = self.writer.emit, self.writer.equal
        rank, dtype = example.dim(), example.dtype

        def is_alike() -> Value:
            same_rank = equal(emit("aten::dim", value), rank)
            same_dtype = equal(emit("prim::dtype", value, type=type_of(dtype)), dtype)
            return emit("aten::__and__", same_rank, same_dtype, type=BOOL)

        self._check(is_alike, f"{source} has {rank} dimensions and {dtype}")
        return traced

    def _tuple(self, example: tuple[Any, ...], value: Value, source: str) -> Any:
        assert isinstance(value.type, TupleType)
        parts = self._parts("prim::TupleUnpack", value, value.type.elements, example, source)
        return type(example)(*parts) if fields_of(example) else tuple(parts)

    def _list(self, example: list[Any], value: Value, source: str) -> list[Any]:
        assert isinstance(value.type, ListType)
        emit, equal, count = self.writer.emit, self.writer.equal, len(example)
        self._check(
            lambda: equal(emit("aten::len", value), count),
            f"{source} has {count} elements",
        )
        types = [value.type.element] * len(example)
        return self._parts("prim::ListUnpack", value, types, example, source)

    def _parts(
        self, kind: str, value: Value, types: Sequence[Type], example: Sequence[Any], source: str
    ) -> list[Any]:
        graph = self.writer.graph
        with self.writer.inserting(at_entry=True):
            node = graph.insert(graph.create(kind, [value], types))
        parts = enumerate(zip(example, node.outputs, strict=True))
        return [self.unpack(item, part, f"{source}[{i}]") for i, (item, part) in parts]

    def _dict(self, example: dict[Any, Any], value: Value, source: str) -> dict[Any, Any]:
        emit, writer = self.writer.emit, self.writer
        keys = list(example)

        def same_keys() -> Value:
            listed = ListType(type_of(keys[0]) if keys else STR)
            found = emit("aten::keys", value, type=listed)
            return emit("aten::eq", found, writer.value_of(keys, listed), type=BOOL)

        self._check(same_keys, f"the keys of {source} are, in this order, {keys}")
        parts = {}
        for key, item in example.items():
            with writer.inserting(at_entry=True):
                kind = type_of_example(item)
                part = emit("aten::__getitem__", value, writer.constant(key), type=kind)
            parts[key] = self.unpack(item, part, f"{source}[{key!r}]")
        return parts

    def _check(self, condition: Any, claim: str) -> None:
        self.writer.check(condition, claim, at_entry=True)


def packed(writer: SymbolicWriter, result: Any) -> Value:
    """Return the value of the graph that stands for a result of the traced function.

    Raises:
        TraceError: the result has a part that no graph can make.
    """
    if isinstance(result, (torch.Tensor, *SYMBOLIC)) or result is None:
        return writer.value_of(result)
    if isinstance(result, bool | int | float | str | torch.dtype | torch.device):
        return writer.constant(result)
    if isinstance(result, tuple):
        return _container(writer, "prim::TupleConstruct", result)
    if isinstance(result, list) and result:
        return _container(writer, "prim::ListConstruct", result)
    if isinstance(result, Mapping) and type(result) is dict and result:
        return _dict(writer, result)
    raise writer.refuse(
        f"the traced function returns {type(result).__name__}, which a graph cannot make",
        "return tensors, numbers, tuples, and lists or dicts that are not empty",
    )


def data_of(result: Any) -> Any:
    """Return a result of a traced function with data for traced tensors, and numbers for sizes."""
    if isinstance(result, TracedTensor):
        return result.data_now
    if isinstance(result, SYMBOLIC):
        return result.node.hint
    if isinstance(result, dict):
        return {key: data_of(item) for key, item in result.items()}
    if isinstance(result, tuple | list):
        return [data_of(item) for item in result]
    return result


def _container(writer: SymbolicWriter, kind: str, result: Sequence[Any]) -> Value:
    values = [packed(writer, item) for item in result]
    types = tuple(value.type for value in values)
    if kind == "prim::ListConstruct":
        return _insert(writer, kind, values, ListType(union_of(types)))
    names = (fields_of(result), type(result).__name__) if fields_of(result) else ()
    return _insert(writer, kind, values, TupleType(types, *names))


def _dict(writer: SymbolicWriter, result: Mapping[Any, Any]) -> Value:
    pairs = [part for pair in result.items() for part in pair]
    values = [packed(writer, part) for part in pairs]
    items = union_of(value.type for value in values[1::2])
    return _insert(writer, "prim::DictConstruct", values, DictType(values[0].type, items))


def _insert(writer: SymbolicWriter, kind: str, values: list[Value], type: Type) -> Value:
    node: Node = writer.graph.create(kind, values, [type], range=writer.places.now())
    return writer.graph.insert(node).output
