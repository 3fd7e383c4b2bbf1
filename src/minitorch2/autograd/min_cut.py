"""The choice of values that a joint graph saves for backward: a minimum cut within a budget.

The network (PyTorch 2 paper, section 3.9) splits each forward node in two, ``in -> out``, with the
price of saving it as capacity. The capacity of an edge ``source -> in`` is the price of recomputing
the node, infinite where that is forbidden. An edge ``out -> sink`` means that backward reads the
node, and a use is an edge that cannot be cut. The nodes that the minimum cut goes through are
saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from minitorch2.autograd.joint import TracedProgram
from minitorch2.autograd.max_flow import sink_side
from minitorch2.autograd.recompute import (
    could_recompute,
    effort,
    is_recomputable,
    is_written_again,
    price,
    result_bytes,
    saved_bytes,
    stored_anyway,
)
from minitorch2.graph.effects import is_random
from minitorch2.graph.node import Node, nodes_in
from minitorch2.graph.symbol_nodes import is_symbol_node
from minitorch2.graph.symbols import free_symbols

Place: TypeAlias = tuple[Node | None, str]
_SOURCE: Final[Place] = None, "source"
_SINK: Final[Place] = None, "sink"


@dataclass(frozen=True)
class Roles:
    """``backward``: the nodes that depend on a tangent; ``forward``: all others, in graph order.

    ``read``: the forward nodes that backward reads (a gradient may also be a forward value itself).
    ``held``: inputs and outputs of the program that may be saved as they are; of ``loose`` ones a
    copy is saved (`kept_values`). ``repeated``: the nodes that the program itself
    wants recomputed in backward (checkpoints).
    """

    forward: dict[Node, None]
    backward: set[Node]
    read: set[Node]
    held: set[Node]
    loose: set[Node]
    repeated: set[Node]

    @staticmethod
    def of(program: TracedProgram) -> Roles:
        """Return the roles of the nodes of a joint graph."""
        graph = program.module.graph
        values = graph.output_node.args[0]
        gradients = set(nodes_in(values[program.forward_outputs :]))
        backward: set[Node] = set(graph.placeholders[program.inputs :])
        late: set[str] = set()  # sizes that only backward computes
        for node in graph.nodes:
            symbols = {*map(str, free_symbols((node.args, dict(node.kwargs))))}
            if not backward.isdisjoint(node.all_input_nodes) or not late.isdisjoint(symbols):
                backward.add(node)
                late |= {node.name} if is_symbol_node(node) else set()
        backward.discard(graph.output_node)
        forward = {n: None for n in graph.nodes if n not in backward and n.op != "output"}
        read = {n for n in forward if n in gradients or any(user in backward for user in n.users)}
        given = (*graph.placeholders[: program.inputs], *values[: program.forward_outputs])
        held = {n for i, n in enumerate(given) if i in program.kept and isinstance(n, Node)}
        loose = set(nodes_in(given)) - held
        return Roles(
            forward, backward, read, held, loose, _inside_checkpoints(forward) - held - loose
        )

    def kept_bytes(self, saved: Collection[Node]) -> float:
        """Return the bytes that these saved nodes hold besides the program's inputs and outputs."""
        return sum(saved_bytes(node) for node in saved if node not in self.held)


def _inside_checkpoints(forward: Iterable[Node]) -> set[Node]:
    """Return the nodes read inside one ``torch.utils.checkpoint`` only, and by derivatives.

    The program asks not to save them. Random values, and values computed from them, may be saved.
    """
    inside: set[Node] = set()
    for node in filter(could_recompute, forward):
        if any(is_random(used) for used in node.all_input_nodes):
            continue
        if "derivative" in node.meta:
            is_inside = any(used in inside for used in node.all_input_nodes)
        else:
            is_inside = "checkpoint" in node.meta and not _leaves_checkpoint(node)
        if is_inside:
            inside.add(node)
    return inside


def _leaves_checkpoint(node: Node) -> bool:
    """Return whether the program reads the node outside of the checkpoint that computes it.

    The next part of the program starts from such values: reading them does not repeat this part.
    """
    region = node.meta.get("checkpoint")
    readers = (user.meta for user in node.users if "derivative" not in user.meta)
    return region is not None and any(meta.get("checkpoint") != region for meta in readers)


def saved_within(roles: Roles, budget: float) -> list[Node]:
    """Return the nodes to save, of at most ``budget`` times the bytes of the plain minimum cut.

    Backward recomputes costly operators until the budget is met, first those that free most bytes
    for their effort. A budget of 0 recomputes all nodes that may be repeated.
    """
    saved = minimum_saved(roles, is_recomputable)
    if budget >= 1:
        return saved
    allowed = budget * roles.kept_bytes(saved)
    costly = sorted(
        (n for n in roles.forward if could_recompute(n) and not is_recomputable(n)),
        key=lambda node: effort(node) / result_bytes(node),
    )
    few, many = 0, len(costly)  # within the budget with `many`, not with fewer than `few`
    while few < many:
        count = (few + many) // 2
        fits = roles.kept_bytes(_saved_with(roles, costly[:count])) <= allowed
        few, many = (few, count) if fits else (count + 1, many)
    return _saved_with(roles, costly[:many])


def _saved_with(roles: Roles, repeated: list[Node]) -> list[Node]:
    allowed = set(repeated)
    return minimum_saved(roles, lambda node: node in allowed or is_recomputable(node))


def minimum_saved(roles: Roles, may_recompute: Callable[[Node], bool]) -> list[Node]:
    """Return the nodes of least price from which backward can compute all values that it reads."""
    relevant = _ancestors_of_backward(roles)
    stored = stored_anyway(roles.forward)
    edges: list[tuple[Place, Place, float]] = []
    for node in relevant:
        cost = price(node, node in roles.held, stored)
        capacity = math.inf if node in roles.repeated else cost
        edges.append(((node, "in"), (node, "out"), capacity))
        if _leaves_checkpoint(node) or not (node in roles.repeated or may_recompute(node)):
            edges.append((_SOURCE, (node, "in"), math.inf))
        elif is_written_again(node, roles.backward):
            edges.append((_SOURCE, (node, "in"), saved_bytes(node)))
        if node in roles.read:
            edges.append(((node, "out"), _SINK, math.inf))
        for user in node.users:
            if user in relevant:
                edges.append(((node, "out"), (user, "in"), math.inf))
    unknown = sink_side(edges, _SOURCE, _SINK)
    return [node for node in relevant if (node, "in") not in unknown and (node, "out") in unknown]


def _ancestors_of_backward(roles: Roles) -> dict[Node, None]:
    """Return the forward nodes that backward reads, directly or through others, in graph order."""
    needed: set[Node] = set()
    for node in reversed(roles.forward):
        if node in roles.read or any(user in needed for user in node.users):
            needed.add(node)
    return {node: None for node in roles.forward if node in needed}
