"""Find which values may share memory, by the alias annotations of operators.

Two values may alias if they are in one class. Annotations of operators put values into one class,
and so do containers, branches and loops. The caller's values are one class (TorchScript overview,
"Handling Mutability").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import torch

from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.operators.schema import FunctionSchema
from minitorch2.script.passes.effects import (
    has_side_effects,
    is_mutable,
    kinds,
    overload_of,
    schema_of,
    tags_of,
    written_inputs,
)

OUTSIDE: Final = object()
"""The class of all that the caller knows, and of what no annotation describes."""

FRESH_COMPOSITES: Final = kinds(
    "aten",
    "linear matmul conv1d conv2d conv3d softmax log_softmax layer_norm batch_norm bilinear"
    " relu6 selu cross_entropy_loss nll_loss stack mse_loss outer addr std var square",
)
"""Operators in terms of others that are known to give fresh tensors."""

FORM_CHANGES: Final = kinds(
    "aten", "resize_ resize_as_ set_ requires_grad_ detach_ swapaxes_ swapdims_ set_data"
)
"""Operators that change a tensor's sizes or flags in place; others have the tag inplace_view."""

WRITES_NOTHING: Final = kinds("prim", "profile guard bailout Print RaiseException SetGradEnabled")
"""Kinds with effects other than writes to memory."""

Place = object


class Memory:
    """Classes of values of a graph that may share memory; made anew when the graph changes."""

    def __init__(self, graph: Graph) -> None:
        self._parents: dict[Place, Place] = {}
        nodes = list(graph.nodes())
        self._join([OUTSIDE, *graph.inputs])
        for node in nodes:
            for group in _groups(node):
                self._join(group)
        self._written = {self.location(v) for node in nodes for v in written_inputs(node)}
        self._known = {self.location(v) for v in graph.outputs if is_mutable(v.type)}
        self._known.add(self.location(OUTSIDE))
        self._reformed = {self.location(n.inputs[0]) for n in nodes if _changes_form(n)}
        if any(_may_write_anything(node) for node in nodes):
            self._written.add(self.location(OUTSIDE))
            self._reformed.add(self.location(OUTSIDE))

    def location(self, place: Place) -> Place:
        """Return what stands for the class of a value."""
        root = place
        while (parent := self._parents.get(root, root)) is not root:
            root = parent
        while place is not root:
            self._parents[place], place = root, self._parents[place]
        return root

    def _join(self, places: Iterable[Place]) -> None:
        mutable = [p for p in places if not isinstance(p, Value) or is_mutable(p.type)]
        for place in mutable:
            self._parents.setdefault(place, place)
            self._parents[self.location(place)] = self.location(mutable[0])

    def may_alias(self, a: Value, b: Value) -> bool:
        """Return whether a write to one value may be seen through the other."""
        return is_mutable(a.type) and is_mutable(b.type) and self.location(a) == self.location(b)

    def is_written(self, value: Value) -> bool:
        """Return whether any node of the graph may write to what a value holds."""
        return is_mutable(value.type) and self.location(value) in self._written

    def changes_form(self, value: Value) -> bool:
        """Return whether a node may change the sizes or the dtype of a tensor in place."""
        return is_mutable(value.type) and self.location(value) in self._reformed

    def escapes(self, value: Value) -> bool:
        """Return whether the caller may hold the value, or what shares memory with it."""
        return is_mutable(value.type) and self.location(value) in self._known

    def is_known_outside(self, value: Value) -> bool:
        """Return whether a value shares memory with an input or with what no schema describes."""
        return self.location(value) == self.location(OUTSIDE)

    def shared_with(self, value: Value) -> set[Value]:
        """Return all values that may share memory with a value, itself included."""
        here = self.location(value)
        others = [
            v for v in list(self._parents) if isinstance(v, Value) and self.location(v) is here
        ]
        return {value, *others}

    def may_replace(self, old: Iterable[Value], new: Iterable[Value]) -> bool:
        """Return whether other values, equal at their definition, may stand for some values.

        No value may be written to. The caller must not get both: it could write to one of them.
        """
        pairs = list(zip(old, new, strict=True))
        if any(self.is_written(v) for v in chain(*pairs)):
            return False
        return not any(self.escapes(a) and self.escapes(b) for a, b in pairs)


def _may_write_anything(node: Node) -> bool:
    """Return whether a node has effects that no schema describes, such as a call of Python."""
    is_unknown = schema_of(node) is None and has_side_effects(node)
    return is_unknown and node.kind not in WRITES_NOTHING


def _changes_form(node: Node) -> bool:
    """Return whether a node changes sizes, dtype or gradient flags of its first input in place."""
    return torch.Tag.inplace_view in tags_of(node) or node.kind in FORM_CHANGES


def _groups(node: Node) -> Iterator[list[Place]]:
    """Yield groups of values that may share memory because of a node."""
    schema = schema_of(node)
    if node.kind == "prim::If":
        for output, *results in zip(node.outputs, *(b.outputs for b in node.blocks), strict=True):
            yield [output, *results]
    elif node.kind == "prim::Loop":
        body = node.blocks[0]
        carried = (node.outputs, node.inputs[2:], body.inputs[1:], body.outputs[1:])
        yield from map(list, zip(*carried, strict=True))
    elif schema is not None and not _is_doubtful(node):
        yield from _annotated(node, schema)
    else:
        outside = [OUTSIDE] if _may_write_anything(node) else []
        inner = [v for block in node.blocks for v in (*block.inputs, *block.outputs)]
        yield [*outside, *node.inputs, *node.outputs, *inner]


def _annotated(node: Node, schema: FunctionSchema) -> Iterator[list[Place]]:
    """Yield one group for each alias set of a schema; the wildcard's set is the caller's."""
    sets: dict[str, list[Place]] = {}
    places = chain(
        zip(schema.arguments, node.inputs, strict=False),
        zip(schema.returns, node.outputs, strict=False),
    )
    for argument, value in places:
        for level in argument.alias.levels() if argument.alias else ():
            for name in level.before | level.after:
                sets.setdefault(name, []).append(value)
    sets.setdefault("*", []).append(OUTSIDE)
    yield from sets.values()


def _is_doubtful(node: Node) -> bool:
    """Return whether an operator may give an input back though its schema does not say so.

    Operators in terms of others do, such as `dropout` of a module in evaluation mode, and new
    lists share the elements of old ones.
    """
    if node.kind in FRESH_COMPOSITES or not any(is_mutable(v.type) for v in node.outputs):
        return False
    overload = overload_of(node)
    if overload is None:
        return True
    schema = overload._schema
    name = f"{schema.name}.{schema.overload_name}".rstrip(".")
    if not torch._C._dispatch_has_kernel(name):
        return True
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))
