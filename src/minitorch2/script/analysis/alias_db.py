"""Aliasing in a graph: values that share memory, reads and writes of nodes, and valid moves.

The answers hold for every point of the graph (flow-insensitive; TorchScript overview, "Alias
Analysis"). They come from the alias annotations of the schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import torch

from minitorch2.script.analysis.alias_tracker import AliasTracker, Element
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import (
    ANY,
    ClassType,
    DictType,
    FutureType,
    ListType,
    TensorType,
    Type,
    VariableType,
    walk_types,
)
from minitorch2.script.operators.registry import Operator, operator_of

MUTABLE: Final = (TensorType, ListType, DictType, ClassType, FutureType, VariableType)
CONSTRUCTS: Final = ("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct")
UNPACKS: Final = ("prim::ListUnpack", "prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice")
# Nothing is known of what these give, but they do nothing else.
LOADS: Final = ("prim::GetAttr",)
SAME: Final = (
    *("prim::unchecked_cast", "prim::unchecked_unwrap_optional"),
    *("prim::profile", "prim::guard"),
)
ORDERED: Final = ("prim::Print", "prim::RaiseException", "aten::warn")
FRESH: Final = ("prim::Constant", "prim::Uninitialized", "prim::isinstance", *ORDERED)
FLOW: Final = ("prim::If", "prim::Loop")


def is_mutable(given: Type) -> bool:
    """Tell whether values of a type are, or hold, memory that can be written to."""
    return any(isinstance(each, MUTABLE) or each == ANY for each in walk_types(given))


class AliasDb:
    """The aliasing of one graph, as it was when this was made; moves keep it right."""

    def __init__(self, graph: Graph) -> None:
        self._tracker = AliasTracker()
        self._elements: dict[Value, Element] = {}
        self._writes: dict[Node, set[Element]] = {}
        self._unknown: set[Node] = set()
        for value in graph.inputs:
            self._point(value, (self._tracker.wildcard,))
        self._tracker.changed = True
        while self._tracker.changed:  # loops carry values back: until nothing is new
            self._tracker.changed = False
            self._block(graph.block)
        self._written = {leaf for node in graph.nodes() for leaf in self._own_writes(node)}

    # -- questions ------------------------------------------------------------------------------

    def may_alias(self, a: Value, b: Value) -> bool:
        """Tell whether two values may be the same memory."""
        return is_mutable(a.type) and is_mutable(b.type) and bool(self._of(a) & self._of(b))

    def may_contain_alias(self, a: Value, b: Value) -> bool:
        """Tell whether two values, or what they hold, may be the same memory."""
        return bool(self._memory(a) & self._memory(b))

    def has_writers(self, value: Value) -> bool:
        """Tell whether any node may write to the memory of a value, or of what it holds."""
        return bool(self._memory(value) & self._written)

    def writes(self, node: Node) -> set[Element]:
        """Return the memory that a node, or one inside of it, may write to."""
        return set().union(self._own_writes(node), *map(self.writes, _inner(node)))

    def reads(self, node: Node) -> set[Element]:
        """Return the memory that a node, or one inside of it, may read."""
        own = map(self._memory, node.inputs)
        results = (self._memory(v) for block in node.blocks for v in block.outputs)
        return set().union(*own, *results, *map(self.reads, _inner(node)))

    # -- moves ----------------------------------------------------------------------------------

    def move_after_topologically_valid(self, node: Node, other: Node) -> bool:
        """Move a node behind a later one of its block, if no run of the graph can tell.

        Nodes between that depend on the node move with it.

        Returns:
            Whether it was moved.
        """
        moved = self._moved(node, other, _between(node, other))
        for each in reversed(moved):
            each.move_after(other)
        return bool(moved)

    def move_before_topologically_valid(self, node: Node, other: Node) -> bool:
        """Move a node before an earlier one of its block, with the nodes that it depends on.

        Returns:
            Whether it was moved.
        """
        moved = self._moved(node, other, _between(other, node)[::-1])
        for each in reversed(moved):
            each.move_before(other)
        return bool(moved)

    def _moved(self, node: Node, other: Node, between: Sequence[Node]) -> list[Node]:
        """Return the nodes that move, the given one first; none if they cannot pass."""
        moved = [node]
        for each in between:
            if any(self.depends(each, one) for one in moved):
                moved.append(each)
        stays = other.block is node.block and other is not node
        return moved if stays and not any(self.depends(other, one) for one in moved) else []

    def depends(self, a: Node, b: Node) -> bool:
        """Tell whether the order of two nodes of a block can be observed."""
        if _uses(a, b) or _uses(b, a) or self._is_barrier(a) or self._is_barrier(b):
            return True
        if _is_ordered(a) and _is_ordered(b):
            return True
        a_writes, b_writes = self.writes(a), self.writes(b)
        return bool(a_writes & (self.reads(b) | b_writes) or b_writes & self.reads(a))

    def _is_barrier(self, node: Node) -> bool:
        return node in self._unknown or any(map(self._is_barrier, _inner(node)))

    # -- building -------------------------------------------------------------------------------

    def _element(self, value: Value) -> Element:
        return self._elements.setdefault(value, Element())

    def _of(self, value: Value) -> frozenset[Element]:
        return self._tracker.leaves(self._element(value))

    def _memory(self, value: Value) -> set[Element]:
        return self._tracker.closure(self._element(value)) if is_mutable(value.type) else set()

    def _own_writes(self, node: Node) -> set[Element]:
        written = self._writes.get(node, set())
        return set().union(*map(self._tracker.leaves, written))

    def _point(self, value: Value, targets: Iterable[Element]) -> None:
        if is_mutable(value.type):
            self._tracker.point(self._element(value), targets)

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            self._node(node)

    def _node(self, node: Node) -> None:
        operator = (
            None
            if node.kind in (*CONSTRUCTS, *UNPACKS, *SAME, *FRESH, *FLOW)
            else (operator_of(node))
        )
        if node.kind in FLOW:
            self._flow(node)
        elif node.kind in CONSTRUCTS:
            held = [self._element(value) for value in node.inputs if is_mutable(value.type)]
            self._tracker.hold(self._element(node.output), held)
        elif node.kind in UNPACKS:
            self._unpack(node)
        elif node.kind in LOADS:
            self._point(node.output, [self._tracker.wildcard])
        elif node.kind in SAME:
            self._point(node.output, [self._element(node.inputs[0])])
        elif operator is not None:
            self._operator(node, operator)
        elif node.kind not in FRESH:
            self._anything(node)

    def _flow(self, node: Node) -> None:
        for block in node.blocks:
            self._block(block)
        results = [block.outputs for block in node.blocks]
        if node.kind == "prim::Loop":
            (body,) = node.blocks
            results = [node.inputs[2:], body.outputs[1:]]
            for value, *given in zip(body.inputs[1:], *results):
                self._point(value, map(self._element, given))
        for value, *given in zip(node.outputs, *results):
            self._point(value, map(self._element, given))

    def _unpack(self, node: Node) -> None:
        source = node.inputs[0]
        held = self._tracker.contents(self._element(source))
        outside = [self._tracker.wildcard] if isinstance(source.type, ListType) else []
        for value in node.outputs:
            self._point(value, [*held, *outside])
            if node.kind == "prim::TupleSlice":
                self._tracker.hold(self._element(value), held)

    def _anything(self, node: Node) -> None:
        """Let a node that nothing is known of do anything with what it is given."""
        self._unknown.add(node)
        for value in node.inputs:
            if is_mutable(value.type):
                self._tracker.escape(self._element(value))
        for value in node.outputs:
            self._point(value, [self._tracker.wildcard])
        self._writes[node] = {self._tracker.wildcard}

    def _operator(self, node: Node, operator: Operator) -> None:
        sets: dict[str, list[Element]] = {}
        for argument, value in zip(operator.schema.arguments, node.inputs):
            element = self._element(value)
            for depth, level in enumerate(argument.alias.levels() if argument.alias else ()):
                inner = [element] if depth == 0 else [*self._tracker.contents(element)]
                for name in level.before:
                    sets.setdefault(name, []).extend(inner)
                if level.is_write:
                    self._writes.setdefault(node, set()).update(inner)
                if level.is_wildcard and is_mutable(value.type):
                    self._tracker.escape(element)
        sets["*"] = [self._tracker.wildcard]
        self._results(node, operator, sets)

    def _results(self, node: Node, operator: Operator, sets: dict[str, list[Element]]) -> None:
        doubtful = _may_give_inputs_back(operator)
        given = [self._element(value) for value in node.inputs if is_mutable(value.type)]
        for result, value in zip(operator.schema.returns, node.outputs):
            if not is_mutable(value.type):
                continue
            levels = list(result.alias.levels()) if result.alias else []
            if any(level.is_wildcard for level in levels):
                self._escape_contents(given)
            for depth, level in enumerate(levels):
                targets = [each for name in level.before for each in sets.get(name, ())]
                if depth == 0:
                    self._point(value, targets)
                else:
                    self._tracker.hold(self._element(value), targets)
            if doubtful:
                self._point(value, [*given, Element()] if not self._element(value).targets else ())
            if any(map(is_mutable, value.type.contained())) and len(levels) < 2:
                self._escape_contents(given)  # a copy of a list holds what the list holds
                self._tracker.hold(self._element(value), [self._tracker.wildcard])

    def _escape_contents(self, containers: Iterable[Element]) -> None:
        """Let what containers hold be known outside: an operator gives some of it."""
        for container in containers:
            for each in self._tracker.contents(container):
                self._tracker.escape(each)


def _may_give_inputs_back(operator: Operator) -> bool:
    """Tell whether a result may be an argument though the schema does not say so.

    Operators in terms of others do, such as `dropout` in evaluation mode.
    """
    if not isinstance(operator.function, torch._ops.OpOverload):
        return any(isinstance(result.type, VariableType) for result in operator.schema.returns)
    key, name = "CompositeImplicitAutograd", operator.function._name
    annotated = all(result.alias is not None for result in operator.schema.returns)
    if annotated or not torch._C._dispatch_has_kernel(name):
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _is_ordered(node: Node) -> bool:
    """Tell whether a node prints, raises or draws random numbers, or one inside of it does."""
    operator = None if node.blocks else operator_of(node)
    tags = getattr(operator.function, "tags", ()) if operator else ()
    draws = torch.Tag.nondeterministic_seeded in tags
    return draws or node.kind in ORDERED or any(map(_is_ordered, _inner(node)))


def _inner(node: Node) -> list[Node]:
    return [each for block in node.blocks for each in block.nodes]


def _uses(a: Node, b: Node) -> bool:
    """Tell whether a node, or one inside of it, reads an output of another."""
    users = (use.user for value in b.outputs for use in value.uses)
    return any(user is a or a in user.owners() for user in users)


def _between(first: Node, last: Node) -> list[Node]:
    found, node = list[Node](), first.next
    while node is not None and node is not last:
        found.append(node)
        node = node.next
    return found
