"""Aliasing in a graph: values that share memory, reads and writes of nodes, and valid moves.

The answers hold for every point of the graph (flow-insensitive; TorchScript overview, "Alias
Analysis"). They come from the alias annotations of the schemas. Passes ask them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from minitorch2.native.torch_internals.operators import OpOverload, has_kernel, has_kernel_for_key
from minitorch2.script.analysis.alias_tracker import AliasTracker, Element
from minitorch2.script.analysis.effects import (
    changes_form,
    has_side_effects,
    holds_mutable,
    is_mutable,
    kinds,
    may_raise,
)
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import ListType, TensorType, VariableType, is_module_type
from minitorch2.script.operators.registry import Operator, operator_of

CONSTRUCTS: Final = kinds("prim", "ListConstruct TupleConstruct DictConstruct CreateObject")
UNPACKS: Final = kinds("prim", "ListUnpack TupleUnpack TupleIndex TupleSlice")
LOADS: Final = kinds("prim", "GetAttr Constant")
"""Kinds that give what is there before and after a run of the graph."""

ATTRIBUTES: Final = kinds("prim", "GetAttr SetAttr")
"""Kinds that read and write what an object holds; modules are outside of every graph."""

SAME: Final = kinds(
    "prim", "unchecked_cast unchecked_unwrap_optional profile guard bailout ConstantChunk"
)
"""Kinds whose outputs are their first input, or views of it."""

FRESH: Final = kinds("prim", "Uninitialized isinstance format Print RaiseException")
BARRIERS: Final = kinds("prim", "bailout SetGradEnabled")
"""Kinds that write nothing, and that no other node may pass."""

FRESH_COMPOSITES: Final = kinds(
    "aten",
    "linear matmul conv1d conv2d conv3d softmax log_softmax layer_norm batch_norm bilinear"
    " relu6 selu cross_entropy_loss nll_loss stack mse_loss outer addr std var square",
)
"""Operators in terms of others that are known to give fresh tensors."""


class AliasDb:
    """The aliasing of one graph, as it was when this was made; moves keep it right.

    A value that a pass makes later has memory of its own.
    """

    def __init__(self, graph: Graph) -> None:
        self._tracker = AliasTracker()
        self._elements: dict[Value, Element] = {}
        self._writes: dict[Node, set[Element]] = {}
        self._unknown: set[Node] = set()
        for value in graph.inputs:
            self._point(value, (self._tracker.wildcard,))
        todo = nodes = list(graph.nodes())
        self._tracker.changed = True
        while self._tracker.changed:  # loops carry values back: until nothing is new
            self._tracker.changed = False
            for node in todo:
                self._node(node)
            if todo is nodes:  # a link is added once; what containers hold grows with them
                todo = [node for node in nodes if node in self._unknown or _has_container(node)]
        self.known_outside = {self._tracker.wildcard}.union(*map(self.memory, graph.outputs))
        self._written = {leaf for node in self._writes for leaf in self.own_writes(node)}
        self._reformed = {leaf for node in nodes for leaf in self._reforms(node)}

    # -- questions ------------------------------------------------------------------------------

    def memory(self, value: Value) -> frozenset[Element]:
        """Return the memory of a value and of what it holds."""
        if not is_mutable(value.type):
            return frozenset()
        return self._tracker.closure(self._element(value))

    def may_alias(self, a: Value, b: Value) -> bool:
        """Tell whether two values may be the same memory."""
        return is_mutable(a.type) and is_mutable(b.type) and bool(self._of(a) & self._of(b))

    def may_contain_alias(self, a: Value, b: Value) -> bool:
        """Tell whether two values, or what they hold, may be the same memory."""
        return bool(self.memory(a) & self.memory(b))

    def shared_with(self, value: Value) -> set[Value]:
        """Return the values that may be, or hold, memory of a value; the value is one of them."""
        return {value, *(v for v in list(self._elements) if self.may_contain_alias(v, value))}

    def has_writers(self, value: Value) -> bool:
        """Tell whether any node may write to the memory of a value, or of what it holds."""
        return bool(self.memory(value) & self._written)

    def changes_form(self, value: Value) -> bool:
        """Tell whether a node may change the sizes or the dtype of a tensor in place."""
        return bool(self.memory(value) & self._reformed)

    def is_known_outside(self, value: Value) -> bool:
        """Tell whether a value may be memory that is there before or after a run of the graph."""
        return self._tracker.wildcard in self.memory(value)

    def escapes(self, value: Value) -> bool:
        """Tell whether the caller may hold a value, or memory of it, when the graph has run."""
        return bool(self.memory(value) & self.known_outside)

    def may_replace(self, old: Iterable[Value], new: Iterable[Value]) -> bool:
        """Tell whether other values, equal at their definition, may stand for some values.

        No value may be written to. The caller must not get both: it could write to one of them.
        """
        pairs = list(zip(old, new, strict=True))
        if any(self.has_writers(value) for pair in pairs for value in pair):
            return False
        return not any(self.escapes(a) and self.escapes(b) for a, b in pairs)

    def own_writes(self, node: Node) -> frozenset[Element]:
        """Return the memory that the operator of a node may write to; without those inside."""
        return frozenset().union(*map(self._tracker.leaves, self._writes.get(node, ())))

    def writes(self, node: Node) -> set[Element]:
        """Return the memory that a node, or one inside of it, may write to."""
        return set().union(self.own_writes(node), *map(self.writes, _inner(node)))

    def reads(self, node: Node) -> set[Element]:
        """Return the memory that a node, or one inside of it, may read."""
        own = map(self.memory, node.inputs)
        results = (self.memory(v) for block in node.blocks for v in block.outputs)
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
        if self._is_observable(a) and self._is_observable(b):
            return True
        a_writes, b_writes = self.writes(a), self.writes(b)
        return bool(a_writes & (self.reads(b) | b_writes) or b_writes & self.reads(a))

    def _is_barrier(self, node: Node) -> bool:
        is_one = node in self._unknown or node.kind in BARRIERS
        return is_one or any(map(self._is_barrier, _inner(node)))

    def _is_observable(self, node: Node) -> bool:
        """Tell whether a caller sees when a node runs: it prints, draws, raises or writes."""
        is_seen = has_side_effects(node) or may_raise(node)
        is_seen = is_seen or self._tracker.wildcard in self.own_writes(node)
        return is_seen or any(map(self._is_observable, _inner(node)))

    # -- building -------------------------------------------------------------------------------

    def _element(self, value: Value) -> Element:
        return self._elements.setdefault(value, Element())

    def _of(self, value: Value) -> frozenset[Element]:
        return self._tracker.leaves(self._element(value))

    def _point(self, value: Value, targets: Iterable[Element]) -> None:
        if is_mutable(value.type):
            self._tracker.point(self._element(value), targets)

    def _node(self, node: Node) -> None:
        if node.blocks:
            self._flow(node)
        elif node.kind in CONSTRUCTS:
            held = [self._element(value) for value in node.inputs if is_mutable(value.type)]
            self._tracker.hold(self._element(node.output), held)
        elif node.kind in UNPACKS:
            self._unpack(node)
        elif node.kind in ATTRIBUTES and not is_module_type(node.inputs[0].type):
            self._object(node)
        elif node.kind in LOADS:
            self._point(node.output, [self._tracker.wildcard])
        elif node.kind in SAME:
            for value in node.outputs:
                self._point(value, [self._element(node.inputs[0])])
        elif node.kind in FRESH or node.kind in BARRIERS:
            return
        elif (operator := operator_of(node)) is not None:
            self._operator(node, operator)
        else:
            self._anything(node)

    def _reforms(self, node: Node) -> frozenset[Element]:
        """Return the memory whose form a node changes in place."""
        if changes_form(node):
            return self._of(node.inputs[0])
        return self.own_writes(node) if node in self._unknown else frozenset()

    def _flow(self, node: Node) -> None:
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

    def _object(self, node: Node) -> None:
        owner = self._element(node.inputs[0])
        if node.kind == "prim::GetAttr":
            self._point(node.output, self._tracker.contents(owner))
            return
        self._writes[node] = {owner}
        if is_mutable(node.inputs[1].type):
            self._tracker.hold(owner, [self._element(node.inputs[1])])

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
            if not is_mutable(value.type):
                continue
            element = self._element(value)
            for depth, level in enumerate(argument.alias.levels() if argument.alias else ()):
                inner = [element] if depth == 0 else [*self._tracker.contents(element)]
                for name in level.before:
                    sets.setdefault(name, []).extend(inner)
                if level.is_write:
                    self._writes.setdefault(node, set()).update(inner)
                if level.is_wildcard:
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


def _has_container(node: Node) -> bool:
    """Tell whether a node reads or gives what can be written to, besides tensors."""
    return any(
        not isinstance(v.type, TensorType) and holds_mutable(v.type)
        for v in (*node.inputs, *node.outputs)
    )


def _may_give_inputs_back(operator: Operator) -> bool:
    """Tell whether a result may be an argument though the schema does not say so.

    Operators in terms of others do, such as `dropout` in evaluation mode, and so does the ``+=`` of
    lists.
    """
    schema, function = operator.schema, operator.function
    if all(result.alias is not None for result in schema.returns):
        return False
    if not isinstance(function, OpOverload):
        is_own = schema.name.endswith("_")
        return is_own or any(isinstance(result.type, VariableType) for result in schema.returns)
    name = function._name
    if schema.name in FRESH_COMPOSITES:
        return False
    if not has_kernel(name):
        return True
    key = "CompositeImplicitAutograd"
    return bool(has_kernel_for_key(name, key))


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
