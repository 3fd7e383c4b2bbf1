"""Checks that a graph obeys its grammar; passes' tests run it before and after each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from minitorch2.errors import VerificationError
from minitorch2.script.ir.graph import Block, Graph, Node, Use, Value

# Rules about the types of single nodes; the room of operators adds its own.
NODE_RULES: Final[list[Callable[[Node], list[str]]]] = []


class Verifier:
    """Checks one graph: scoping, single definition, uses, ownership, and the rules of nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.defined: set[Value] = set()

    def check_block(self, block: Block, visible: frozenset[Value]) -> None:
        """Check a block, given the values that it sees."""
        _require(block.graph is self.graph, f"a block belongs to another graph, {block.graph.name}")
        scope = set(visible)
        self._define(block.parameters, scope)
        for node in self._linked(block):
            self.check_node(node, scope)
            self._define(node, scope)
        self._check_inputs(block.returns, scope)

    def _linked(self, block: Block) -> Iterator[Node]:
        """Iterate over the nodes, and check that the list of them is sound."""
        nodes = [block.parameters, *block.nodes, block.returns]
        for previous, node in pairwise(nodes):
            sound = previous.next is node and node.previous is previous
            _require(sound, f"{previous.kind} and {node.kind} are not linked")
        return iter(nodes[1:-1])

    def check_node(self, node: Node, scope: set[Value]) -> None:
        """Check a node, the blocks in it, and graphs in its attributes."""
        _require(node.graph is self.graph, f"{node.kind} belongs to another graph")
        _require(not node.is_destroyed, f"{node.kind} is destroyed, and stands in a block")
        self._check_inputs(node, scope)
        for block in node.blocks:
            _require(block.owner is node, f"a block of {node.kind} has another owner")
            self.check_block(block, frozenset(scope))
        for name, value in node.attributes.items():
            if isinstance(value, Graph):
                verify(value)
            elements = value if isinstance(value, list | tuple) else (value,)
            nested = any(isinstance(each, list | tuple | dict) for each in elements)
            _require(not nested, f"{node.kind}: its attribute {name} holds a container")
        for message in (each for rule in NODE_RULES for each in rule(node)):
            _require(False, f"{node.kind}: {message}")

    def _check_inputs(self, node: Node, scope: set[Value]) -> None:
        for index, value in enumerate(node.inputs):
            _require(value in scope, f"{node.kind} reads {value}, which is not visible there")
            count = value.uses.count(Use(node, index))
            _require(count == 1, f"{value} has {count} uses for input {index} of {node.kind}")

    def _define(self, node: Node, scope: set[Value]) -> None:
        for value in node.outputs:
            _require(value.node is node, f"{value} of {node.kind} has another node")
            _require(value not in self.defined, f"{value} is defined twice")
            for use in value.uses:
                inputs = use.user.inputs
                known = use.index < len(inputs) and inputs[use.index] is value
                _require(known and not use.user.is_destroyed, f"{value} has a use that is none")
        self.defined.update(node.outputs)
        scope.update(node.outputs)


def verify(graph: Graph) -> None:
    """Check that a graph is well-formed, with the graphs in its attributes.

    Raises:
        VerificationError: it is not; the graph's text follows the sentence.
    """
    try:
        Verifier(graph).check_block(graph.block, frozenset())
    except VerificationError as error:
        if "graph(" not in error.cause:
            error.cause += f"\n{graph}"
        raise


def _require(holds: object, message: str) -> None:
    if not holds:
        raise VerificationError(message, code="script-graph")
