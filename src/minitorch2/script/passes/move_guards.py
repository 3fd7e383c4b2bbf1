"""Move guards to the definitions of what they check, and merge those that meet there.

A guard that moved may fail where the old one would not have run: then the slow program runs, which
is as right (TorchScript overview, "Profiling Programs": moveGuardsToDefs, coalesceGuards).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import Size, TensorType
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.insert_guards import GUARD
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def move_guards(graph: Graph) -> Iterator[Rewrite]:
    """Put one guard behind each definition of a guarded tensor, for all of its readers."""
    for node in [node for node in graph.nodes() if node.kind == GUARD]:
        value = node.inputs[0]
        first = _guard_behind(value)
        if first is node:
            continue
        if first is None:
            yield Rewrite("is checked where it is defined", node)
            node.move_after(value.node)
        else:
            yield Rewrite("is checked once", node)
            both = merge(first.output.type, node.output.type)
            replace_node(node, first.outputs)
            first.output.type = both


def _guard_behind(value: Value) -> Node | None:
    """Return the guard of a value that stands among the guards behind its definition."""
    node = value.node.next
    while node is not None and node.kind in (GUARD, "prim::Constant"):
        if node.kind == GUARD and node.inputs[0] is value:
            return node
        node = node.next
    return None


Fact = TypeVar("Fact")


def merge(a: object, b: object) -> TensorType:
    """Return the type of a tensor that is of both types; where they disagree, nothing is known."""
    assert isinstance(a, TensorType) and isinstance(b, TensorType)
    return TensorType(
        _either(a.dtype, b.dtype),
        _either(a.device, b.device),
        _either(a.requires_grad, b.requires_grad),
        _either_sizes(a.sizes, b.sizes),
    )


def _either(a: Fact | None, b: Fact | None) -> Fact | None:
    known = [fact for fact in (a, b) if fact is not None]
    return known[0] if len(set(known)) == 1 else None


def _either_sizes(
    a: tuple[Size, ...] | None, b: tuple[Size, ...] | None
) -> tuple[Size, ...] | None:
    if a is None or b is None:
        return a if b is None else b
    if len(a) != len(b):
        return None
    pairs: list[tuple[Size, Size]] = list(zip(a, b, strict=True))
    return tuple(x if y is None or x == y else y if x is None else None for x, y in pairs)
