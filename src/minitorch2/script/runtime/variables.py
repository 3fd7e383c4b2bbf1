"""Python variables for the values of a graph: a name that a loop carries stays one variable.

A graph in single-assignment form has a new value for each assignment. As Python, `x` before, in and
after a loop is one variable again where no value is needed after the next one is written to it.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterator

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.runtime.templates import WRITTEN_NAMES


class Variables:
    """The variable of each value of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._taken: set[str] = {*keyword.kwlist, *WRITTEN_NAMES}
        self._counts: Counter[str] = Counter()
        self._names: dict[Value, str] = {}
        self._hints: dict[Value, str] = {}
        self._occupants: dict[str, list[Value]] = {}
        self._positions: dict[Node, int] = {}
        self._ends: dict[Node, int] = {}
        self._number(graph.block)
        for value in graph.inputs:
            self._settle(value, self.fresh(value.name))
        self._block(graph.block)

    def __getitem__(self, value: Value) -> str:
        """Return the name of the variable that holds a value."""
        return self._names[value]

    def __contains__(self, name: str) -> bool:
        """Return whether a name is taken."""
        return name in self._taken

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has: ``x.1`` is ``x``, then ``x_1``."""
        stem = re.sub(r"\W", "_", name.split(".")[0])
        stem = stem if stem and not stem[0].isdigit() else f"_{stem}"
        found = stem
        while found in self._taken:
            self._counts[stem] += 1
            found = f"{stem}_{self._counts[stem]}"
        self._taken.add(found)
        return found

    def _number(self, block: Block) -> None:
        for node in [*block.nodes, block.returns]:
            self._positions[node] = len(self._positions)
            for inner in node.blocks:
                self._number(inner)
            self._ends[node] = len(self._positions)

    def _settle(self, value: Value, name: str) -> None:
        self._names[value] = name
        self._occupants.setdefault(name, []).append(value)

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            for value in node.outputs:
                self._output(node, value)
            if node.kind == "prim::Loop":
                self._loop(node)
            elif node.kind == "prim::If":
                for inner in node.blocks:
                    self._hint(inner, inner.outputs, node.outputs)
            for inner in node.blocks:
                self._block(inner)

    def _output(self, node: Node, value: Value) -> None:
        hint = self._hints.get(value)
        at = self._ends[node] - 1 if node.kind == "prim::If" else self._positions[node]
        if hint is None or any(self._is_needed(v, node, at) for v in self._occupants[hint]):
            hint = self.fresh(value.name)
        self._settle(value, hint)

    def _loop(self, node: Node) -> None:
        (body,) = node.blocks
        trip, *carried = body.inputs
        self._settle(trip, self.fresh(trip.name))
        for value, output in zip(carried, node.outputs, strict=True):
            self._settle(value, self._names[output])
        self._hint(body, body.outputs[1:], node.outputs)

    def _hint(self, block: Block, values: tuple[Value, ...], targets: list[Value]) -> None:
        """Wish that what a block gives is computed in the variable that is to have it."""
        for value, target in zip(values, targets, strict=True):
            if value.node.block is block and value.node is not block.parameters:
                self._hints.setdefault(value, self._names[target])

    def _is_needed(self, value: Value, node: Node, at: int) -> bool:
        """Return whether a value may be read after `node` has written to its variable."""
        if value.node in node.owners():
            return False  # an output of what `node` lies in: it is yet to be written
        return any(self._is_later(use.user, value, node, at) for use in value.uses)

    def _is_later(self, user: Node, value: Value, node: Node, at: int) -> bool:
        around = dict(_owners(node))
        shared = [(owner, block) for owner, block in _owners(user) if owner in around]
        loops = (owner for owner, _ in shared if owner.kind == "prim::Loop")
        if any(loop not in value.node.owners() for loop in loops):
            return True
        if user is node or any(around[owner] is not block for owner, block in shared):
            return False
        return self._positions[user] > at


def _owners(node: Node) -> Iterator[tuple[Node, Block]]:
    """Yield the nodes that a node lies in, innermost first, each with the block of it."""
    block = node.block
    while block is not None and block.owner is not None:
        yield block.owner, block
        block = block.owner.block
