"""An ordered list of nodes with one output: see the grammar in ``graph/node.py``.

PyTorch's counterpart is ``torch.fx.Graph``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from minitorch2.errors import VerificationError
from minitorch2.foundation.blocks import replacing
from minitorch2.graph.names import PackedCallable
from minitorch2.graph.node import Argument, Node, Target, map_items, map_nodes
from minitorch2.graph.scope import Scope
from minitorch2.graph.symbols.expression import SYMBOL_NAME
from minitorch2.graph.tabular import format_tabular
from minitorch2.native.torch_internals.operators import OpOverload

_RESERVED = frozenset(["torch", "operator", "self", "math"])


class Graph:
    """Nodes in execution order, kept as a doubly linked list so that insertion is O(1).

    >>> import operator
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output((graph.call_function(operator.add, (x, 1)),))
    >>> [node.name for node in graph.nodes]
    ['x', 'add', 'output']
    """

    def __init__(self) -> None:
        self._root = Node(self, "", "root", "root")
        self._insert_before = self._root
        self._names = Scope(_RESERVED)

    # Reading

    @property
    def nodes(self) -> NodeList:
        """The nodes in execution order; erasing the current node while iterating is allowed."""
        return NodeList(self)

    @property
    def placeholders(self) -> list[Node]:
        """The input nodes, in the order of the call's arguments."""
        return [node for node in self.nodes if node.op == "placeholder"]

    @property
    def output_node(self) -> Node:
        """The output node. Raises VerificationError when the graph has none."""
        last = self._root.prev
        if last.op != "output":
            raise VerificationError("the graph has no output node")
        return last

    # Building

    def placeholder(self, name: str) -> Node:
        """Append an input."""
        return self.create_node("placeholder", name, name=name)

    def get_attr(self, name: str) -> Node:
        """Append a read of the GraphModule's attribute with this dotted name."""
        return self.create_node("get_attr", name, name=name)

    def call_function(
        self,
        target: Callable[..., Any],
        args: tuple[Argument, ...] = (),
        kwargs: Mapping[str, Argument] | None = None,
    ) -> Node:
        """Append ``target(*args, **kwargs)``."""
        return self.create_node("call_function", target, args, kwargs)

    def call_method(
        self, name: str, args: tuple[Argument, ...], kwargs: Mapping[str, Argument] | None = None
    ) -> Node:
        """Append ``args[0].name(*args[1:], **kwargs)``."""
        return self.create_node("call_method", name, args, kwargs)

    def call_module(
        self,
        name: str,
        args: tuple[Argument, ...] = (),
        kwargs: Mapping[str, Argument] | None = None,
    ) -> Node:
        """Append a call of the submodule with this dotted name."""
        return self.create_node("call_module", name, args, kwargs)

    def output(self, value: Argument) -> Node:
        """Append the output; nothing may follow it."""
        return self.create_node("output", "output", (value,), name="output")

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] = (),
        kwargs: Mapping[str, Argument] | None = None,
        name: str | None = None,
    ) -> Node:
        """Insert a node at the insertion point (the end, by default) and return it."""
        node = Node(self, self.unique_name(name or _base_name(target)), op, target, args, kwargs)
        self._link(node, self._insert_before)
        return node

    def copy_node(self, node: Node, function: Callable[[Node], Argument]) -> Node:
        """Insert a copy of another graph's node, its inputs mapped by ``function``.

        Its meta is a shallow copy.
        """
        args, kwargs = map_nodes(node.args, function), map_nodes(node.kwargs, function)
        copy = self.create_node(node.op, node.target, args, kwargs, name=node.name)
        copy.meta = dict(node.meta)
        return copy

    def tabular(self) -> str:
        """Return the graph as a table: opcode, name, target, args."""
        return format_tabular(self.nodes)

    def print_tabular(self) -> None:
        """Write `tabular` to standard output, as the slides' backend does."""
        sys.stdout.write(self.tabular() + "\n")

    def copy(self) -> Graph:
        """Return an independent graph with the same nodes and names."""
        result = Graph()
        copies: dict[Node, Node] = {}
        for node in self.nodes:
            copies[node] = result.copy_node(node, copies.__getitem__)
        return result

    # Editing

    def erase(self, node: Node) -> None:
        """Remove a node that nothing reads. Raises VerificationError when it still has users."""
        if node.users:
            raise VerificationError(f"cannot erase {node.name}: it is read by {list(node.users)}")
        node.update_args((), {})
        self._unlink(node)

    def move(self, node: Node, successor: Node) -> None:
        """Put a node in front of another one; what it reads must stay in front of it."""
        self._unlink(node)
        self._link(node, successor)

    def inserting_before(self, node: Node | None) -> AbstractContextManager[object]:
        """Put new nodes in front of ``node`` (None: at the end)."""
        return replacing(self, "_insert_before", node or self._root)

    def inserting_after(self, node: Node) -> AbstractContextManager[object]:
        """Put new nodes behind ``node``, in the order they are made."""
        return self.inserting_before(node.next)

    def unique_name(self, base: str) -> str:
        """``base`` as a fresh identifier: builtins and keywords get ``_1``, repeats count up."""
        return self._names.fresh(base)

    def _link(self, node: Node, successor: Node) -> None:
        node.prev, node.next = successor.prev, successor
        successor.prev.next = node
        successor.prev = node

    def _unlink(self, node: Node) -> None:
        node.prev.next, node.next.prev = node.next, node.prev
        if self._insert_before is node:
            self._insert_before = node.next

    def __len__(self) -> int:
        return sum(1 for _ in self.nodes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a flat table: a linked list would exceed the recursion limit. meta is
        dropped.
        """
        index = {node: i for i, node in enumerate(self.nodes)}
        table = [
            (
                n.op,
                n.name,
                n.target if isinstance(n.target, str) else PackedCallable.of(n.target),
                *map_nodes((n.args, dict(n.kwargs)), lambda m: _Ref(index[m])),
            )
            for n in self.nodes
        ]
        return _graph_from_table, (table,)


class NodeList:
    """The nodes of a graph as a sized, reversible iterable."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root.next
        while node is not root:
            yield node
            node = node.next

    def __reversed__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root.prev
        while node is not root:
            yield node
            node = node.prev

    def __getitem__(self, index: int) -> Node:
        return list(self)[index]


class _Ref:
    """A node's position, in the pickled table."""

    def __init__(self, index: int) -> None:
        self.index = index


def _graph_from_table(table: list[tuple[Any, ...]]) -> Graph:
    graph = Graph()
    nodes: list[Node] = []
    for op, name, target, args, kwargs in table:
        if isinstance(target, PackedCallable):
            target = target.resolve()
        args, kwargs = _unpack(args, nodes), _unpack(kwargs, nodes)
        nodes.append(graph.create_node(op, target, args, kwargs, name=name))
    return graph


def _unpack(value: Argument, nodes: list[Node]) -> Argument:
    if isinstance(value, _Ref):
        return nodes[value.index]
    return map_items(value, lambda item: _unpack(item, nodes))


def _base_name(target: Target) -> str:
    """Return a node's name before numbering: ``torch.abs`` -> abs, ``blocks.0`` -> blocks_0.

    The overload is left out: ``aten.sin.default`` -> sin. A function whose name looks like a
    symbol's gets an underscore.
    """
    name = _name_of(target)
    return f"{name}_" if SYMBOL_NAME.fullmatch(name) else name


def _name_of(target: Target) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, OpOverload):
        return target._schema.name.split("::")[1]
    return str(getattr(target, "__name__", type(target).__name__)).lstrip("_") or "call"
