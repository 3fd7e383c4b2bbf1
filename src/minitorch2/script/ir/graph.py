"""Graphs: values, nodes and blocks in static single assignment form, with nested control flow.

    graph ::= block                          its inputs and outputs are the graph's
    block ::= value* node* -> value*         between prim::Param, whose outputs are the inputs,
                                             and prim::Return, whose inputs are the outputs
    node  ::= value* = kind[attributes](value*) block*

A graph makes its nodes, and a node its blocks and outputs: nothing moves to another graph. A value
is defined once, and may be used to the end of its block, in blocks inside of it, too (TorchScript
overview, "Graph").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from minitorch2.errors import VerificationError
from minitorch2.script.ir.types import NONE, TENSOR, Type, type_of
from minitorch2.script.syntax.source import NOWHERE, SourceRange

NOT_CONSTANT: Final = object()
GRAPH_PRINTERS: Final[list[Callable[[Graph], str]]] = []
"""What prints a graph as text: `print_ir`, which reads graphs, puts it here."""


@dataclass(frozen=True, slots=True)
class Use:
    """One place where a value is read: an input of a node."""

    user: Node
    index: int


class Value:
    """A result of a node, or an input of a block.

    Attributes:
        name: a hint for the reader; the printer makes it unique. Empty values are numbered.
        uses: every place that reads the value; a snapshot that no later change alters.
    """

    def __init__(self, node: Node, name: str, type: Type) -> None:
        self.node = node
        self.name = name
        self.type = type
        self._uses: list[Use] = []

    @property
    def uses(self) -> list[Use]:
        """Return the places that read the value."""
        return list(self._uses)

    @property
    def index(self) -> int:
        """Return the position among the outputs of its node."""
        return self.node.outputs.index(self)

    def replace_all_uses_with(self, other: Value) -> None:
        """Let each reader of this value read another one."""
        for use in self.uses:
            use.user.replace_input(use.index, other)

    def constant(self) -> Any:
        """Return the number, text or object of a `prim::Constant`, else `NOT_CONSTANT`."""
        is_constant = self.node.kind == "prim::Constant"
        return self.node.attributes["value"] if is_constant else NOT_CONSTANT

    def __repr__(self) -> str:
        return f"%{self.name or id(self)} : {self.type}"


class Node:
    """One operation.

    Attributes:
        kind: a qualified name such as ``"aten::add"``; types of the inputs choose the overload.
        attributes: what is fixed: numbers, strings, tensors, graphs, and flat lists of them.
        block: the block that the node stands in; None before it is inserted, and after `destroy`.
    """

    def __init__(
        self, graph: Graph, kind: str, inputs: Iterable[Value], range: SourceRange
    ) -> None:
        self.graph = graph
        self.kind = kind
        self.range = range
        self.attributes: dict[str, Any] = {}
        self.outputs: list[Value] = []
        self.blocks: list[Block] = []
        self.block: Block | None = None
        self.is_destroyed = False
        self._inputs: list[Value] = []
        self._next: Node | None = None
        self._previous: Node | None = None
        for value in inputs:
            self.add_input(value)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Return the values that the node reads."""
        return tuple(self._inputs)

    @property
    def output(self) -> Value:
        """Return the only output."""
        (value,) = self.outputs
        return value

    @property
    def next(self) -> Node | None:
        """Return the node after this one; the last of a block is its `prim::Return`."""
        return self._next

    @property
    def previous(self) -> Node | None:
        """Return the node before this one; the first of a block is its `prim::Param`."""
        return self._previous

    # -- inputs -------------------------------------------------------------------------------

    def add_input(self, value: Value) -> None:
        """Append an input."""
        _require(value.node.graph is self.graph, f"{self.kind} reads a value of another graph")
        value._uses.append(Use(self, len(self._inputs)))
        self._inputs.append(value)

    def insert_input(self, index: int, value: Value) -> None:
        """Insert an input before the one at a position."""
        _require(value.node.graph is self.graph, f"{self.kind} reads a value of another graph")
        self._renumber(lambda: self._inputs.insert(index, value))

    def remove_input(self, index: int) -> None:
        """Remove the input at a position."""
        self._renumber(lambda: self._inputs.pop(index))

    def remove_all_inputs(self) -> None:
        """Remove every input."""
        self._renumber(self._inputs.clear)

    def replace_input(self, index: int, value: Value) -> Value:
        """Put another value at a position; return the one that was there."""
        _require(value.node.graph is self.graph, f"{self.kind} reads a value of another graph")
        old = self._inputs[index]
        old._uses.remove(Use(self, index))
        self._inputs[index] = value
        value._uses.append(Use(self, index))
        return old

    def _renumber(self, change: Callable[[], object]) -> None:
        """Change the list of inputs; uses carry positions, so they are made anew."""
        for index, value in enumerate(self._inputs):
            value._uses.remove(Use(self, index))
        change()
        for index, value in enumerate(self._inputs):
            value._uses.append(Use(self, index))

    def constant(self, index: int) -> Any:
        """Return the constant that the input at a position is, else `NOT_CONSTANT`."""
        return self._inputs[index].constant()

    # -- outputs and blocks -------------------------------------------------------------------

    def add_output(self, name: str = "", type: Type = TENSOR) -> Value:
        """Append an output, and return it."""
        self.outputs.append(Value(self, name, type))
        return self.outputs[-1]

    def remove_output(self, index: int) -> None:
        """Remove an output that nothing reads."""
        _require(not self.outputs[index].uses, f"a removed output of {self.kind} is still read")
        del self.outputs[index]

    def add_block(self) -> Block:
        """Append an empty block, and return it."""
        self.blocks.append(Block(self.graph, self))
        return self.blocks[-1]

    def remove_block(self, index: int) -> None:
        """Remove a block with all that it contains."""
        self.blocks.pop(index).destroy()

    # -- place --------------------------------------------------------------------------------

    def insert_before(self, other: Node) -> Node:
        """Insert this new node before another one; return this one."""
        previous = other._previous
        _require(previous is not None, f"nothing comes before {other.kind}")
        assert previous is not None
        return self.insert_after(previous)

    def insert_after(self, other: Node) -> Node:
        """Insert this new node after another one; return this one."""
        _require(self.block is None, f"{self.kind} stands in a block already: move it")
        _require(other.block is not None, f"{other.kind} stands in no block")
        _require(other.graph is self.graph, f"{self.kind} belongs to another graph")
        following = other._next
        assert following is not None
        self.block, self._previous, self._next = other.block, other, following
        other._next = following._previous = self
        return self

    def move_before(self, other: Node) -> None:
        """Take the node out of its place, and put it before another one."""
        if other is not self:
            self._unlink()
            self.insert_before(other)

    def move_after(self, other: Node) -> None:
        """Take the node out of its place, and put it after another one."""
        if other is not self:
            self._unlink()
            self.insert_after(other)

    def _unlink(self) -> None:
        """Leave the block. `_next` stays: iterations that stand here go on from it."""
        previous, following = self._previous, self._next
        if previous is not None and following is not None:
            previous._next, following._previous = following, previous
        self.block = None

    def destroy(self) -> None:
        """Remove the node, and the blocks in it, for good.

        Raises:
            VerificationError: something still reads an output.
        """
        read = [value for value in self.outputs if value.uses]
        _require(not read, f"{self.kind} is destroyed, and its output {read} is still read")
        while self.blocks:
            self.remove_block(-1)
        self.remove_all_inputs()
        self._unlink()
        self.is_destroyed = True

    def owners(self) -> Iterator[Node]:
        """Iterate over the nodes that this one is nested in, innermost first."""
        block = self.block
        while block is not None and block.owner is not None:
            yield block.owner
            block = block.owner.block

    def is_before(self, other: Node) -> bool:
        """Tell whether the node comes before another one in the text; owners come before blocks."""
        if self is other:
            return False
        mine = [*reversed(list(self.owners())), self]
        theirs = [*reversed(list(other.owners())), other]
        for a, b in zip(mine, theirs):
            if a is not b:
                return _comes_before(a, b)
        return len(mine) < len(theirs)

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self._inputs)} inputs, {len(self.outputs)} outputs>"


def _comes_before(a: Node, b: Node) -> bool:
    """Compare two nodes that the same node owns, in one of its blocks or in two."""
    if a.block is not b.block:
        assert a.block and b.block and a.block.owner
        blocks = a.block.owner.blocks
        return blocks.index(a.block) < blocks.index(b.block)
    node = a.next
    while node is not None and node is not b:
        node = node.next
    return node is b


class NodeList:
    """The nodes of a block in order.

    An iteration survives that the node it stands at is destroyed. It sees nodes that are inserted
    after that node. If the node is moved, the iteration goes on from its new place.
    """

    def __init__(self, block: Block) -> None:
        self._block = block

    def __iter__(self) -> Iterator[Node]:
        node = self._block.parameters.next
        while node is not None and node is not self._block.returns:
            if node.block is self._block:
                yield node
            node = node.next

    def __reversed__(self) -> Iterator[Node]:
        node = self._block.returns.previous
        while node is not None and node is not self._block.parameters:
            if node.block is self._block:
                yield node
            node = node.previous

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: int) -> Node:
        return list(self)[index]


class Block:
    """A sequence of nodes with inputs and outputs; the body of a graph, a branch or a loop.

    Attributes:
        owner: the node that the block belongs to; None for the block of a graph.
        parameters: the `prim::Param` node, whose outputs are the block's inputs.
        returns: the `prim::Return` node, whose inputs are the block's outputs.
    """

    def __init__(self, graph: Graph, owner: Node | None) -> None:
        self.graph = graph
        self.owner = owner
        self.parameters = Node(graph, "prim::Param", (), NOWHERE)
        self.returns = Node(graph, "prim::Return", (), NOWHERE)
        self.parameters.block = self.returns.block = self
        self.parameters._next, self.returns._previous = self.returns, self.parameters

    @property
    def inputs(self) -> list[Value]:
        """Return the values that the block is entered with."""
        return self.parameters.outputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        """Return the values that the block gives."""
        return self.returns.inputs

    @property
    def nodes(self) -> NodeList:
        """Return the nodes in order, those of inner blocks left out."""
        return NodeList(self)

    def add_input(self, name: str = "", type: Type = TENSOR) -> Value:
        """Append an input, and return it."""
        return self.parameters.add_output(name, type)

    def remove_input(self, index: int) -> None:
        """Remove an input that nothing reads."""
        self.parameters.remove_output(index)

    def add_output(self, value: Value) -> None:
        """Append an output."""
        self.returns.add_input(value)

    def replace_output(self, index: int, value: Value) -> None:
        """Put another value at a position of the outputs."""
        self.returns.replace_input(index, value)

    def remove_output(self, index: int) -> None:
        """Remove the output at a position."""
        self.returns.remove_input(index)

    def insert(self, node: Node) -> Node:
        """Insert a new node at the end, and return it."""
        return node.insert_before(self.returns)

    def all_nodes(self) -> Iterator[Node]:
        """Iterate over the nodes in the order of the text, those of inner blocks with them."""
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.all_nodes()

    def destroy(self) -> None:
        """Destroy every node, last ones first, and give up the outputs."""
        self.returns.remove_all_inputs()
        for node in list(self.nodes)[::-1]:
            node.destroy()

    def copy_from(self, source: Block, values: dict[Value, Value]) -> None:
        """Append copies of a block's inputs, nodes and outputs, of this graph or another one.

        Args:
            source: the block that is copied.
            values: what stands here for values of the source's surroundings; values of the source
                are added.
        """
        for value in source.inputs:
            values[value] = self.add_input(value.name, value.type)
        for node in source.nodes:
            self.insert(self.graph.copy_node(node, values))
        for value in source.outputs:
            self.add_output(values[value])


class Graph:
    """A function in static single assignment form; it makes its nodes."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.block = Block(self, None)
        self.insertion_point = self.block.returns

    @property
    def inputs(self) -> list[Value]:
        """Return the parameters of the graph."""
        return self.block.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        """Return the results of the graph."""
        return self.block.outputs

    def add_input(self, name: str = "", type: Type = TENSOR) -> Value:
        """Append a parameter, and return it."""
        return self.block.add_input(name, type)

    def add_output(self, value: Value) -> None:
        """Append a result."""
        self.block.add_output(value)

    def create(
        self,
        kind: str,
        inputs: Iterable[Value] = (),
        outputs: int | Sequence[Type] = 1,
        *,
        range: SourceRange = NOWHERE,
    ) -> Node:
        """Make a node that stands nowhere yet.

        Args:
            kind: a qualified name.
            inputs: what the node reads.
            outputs: types of the outputs, or a number of tensors.
            range: the place in the user's program.
        """
        node = Node(self, kind, inputs, range)
        for type_ in (TENSOR,) * outputs if isinstance(outputs, int) else outputs:
            node.add_output(type=type_)
        return node

    def insert(self, node: Node) -> Node:
        """Insert a new node at the insertion point, and return it."""
        return node.insert_before(self.insertion_point)

    @contextmanager
    def inserting_before(self, node: Node) -> Iterator[None]:
        """Let new nodes come before a node, in the `with` block."""
        saved, self.insertion_point = self.insertion_point, node
        try:
            yield
        finally:
            self.insertion_point = saved

    def inserting_at_end(self, block: Block) -> Any:
        """Let new nodes come at the end of a block, in the `with` block."""
        return self.inserting_before(block.returns)

    def constant(
        self, value: Any, *, type: Type | None = None, range: SourceRange = NOWHERE
    ) -> Value:
        """Insert a `prim::Constant` with a Python value, and return its output."""
        known = type_of(value) if type is None else type
        node = self.create("prim::Constant", (), (known,), range=range)
        node.attributes["value"] = value
        return self.insert(node).output

    def nodes(self) -> Iterator[Node]:
        """Iterate over all nodes in the order of the text, those of inner blocks with them."""
        return self.block.all_nodes()

    def copy_node(self, node: Node, values: dict[Value, Value]) -> Node:
        """Make a copy of a node of any graph, which stands nowhere yet.

        Args:
            node: what is copied, with its blocks. Graphs in attributes are copied as well.
            values: what stands here for each value that the node reads; its outputs are added.
        """
        made = self.create(node.kind, (values[value] for value in node.inputs), 0, range=node.range)
        copies = {k: v.copy() if isinstance(v, Graph) else v for k, v in node.attributes.items()}
        made.attributes.update(copies)
        for block in node.blocks:
            made.add_block().copy_from(block, values)
        for value in node.outputs:
            values[value] = made.add_output(value.name, value.type)
        return made

    def copy(self) -> Graph:
        """Return a graph with the same text, which shares no node with this one."""
        return self.copy_with_values()[0]

    def copy_with_values(self) -> tuple[Graph, dict[Value, Value]]:
        """Return a copy, and the copy's value for each value of this graph."""
        made, values = Graph(self.name), dict[Value, Value]()
        made.block.copy_from(self.block, values)
        return made, values

    def insert_graph(self, callee: Graph, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Insert copies of another graph's nodes at the insertion point.

        Args:
            callee: the graph; it stays as it is.
            arguments: what stands for its inputs.

        Returns:
            The values that stand for its outputs.
        """
        values = dict(zip(callee.inputs, arguments, strict=True))
        for node in callee.block.nodes:
            self.insert(self.copy_node(node, values))
        return tuple(values[value] for value in callee.outputs)

    def __str__(self) -> str:
        return GRAPH_PRINTERS[-1](self)


def is_none(value: Value) -> bool:
    """Tell whether a value is the constant None."""
    return value.type == NONE or value.constant() is None


def _require(holds: object, message: str) -> None:
    if not holds:
        raise VerificationError(message, code="script-graph")
