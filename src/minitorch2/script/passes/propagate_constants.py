"""Compute what only depends on constants while compiling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.analysis.effects import is_pure
from minitorch2.script.ir.graph import NOT_CONSTANT, Graph, Node
from minitorch2.script.ir.types import OptionalType, is_subtype_of, type_of
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.passes.constants import constant_before, constant_of, is_immutable
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def propagate_constants(graph: Graph) -> Iterator[Rewrite]:
    """Replace operators on constants by their results: numbers, texts, and tuples of them.

    An operator that raises stays, so that it raises at its time.
    """
    aliases = AliasDb(graph)
    for node in list(graph.nodes()):
        result = fold(node, aliases)
        if result is not NOT_CONSTANT:
            yield Rewrite(f"is always {result!r}", node)
            replace_node(node, [constant_before(node, result, node.output)])


def fold(node: Node, aliases: AliasDb) -> Any:
    """Return what a node always gives, or NOT_CONSTANT."""
    operator = operator_of(node)
    if operator is None or operator.function is None or len(node.outputs) != 1:
        return NOT_CONSTANT
    arguments = [constant_of(value, aliases) for value in node.inputs]
    if not arguments or not is_pure(node) or any(a is NOT_CONSTANT for a in arguments):
        return NOT_CONSTANT
    try:
        result = operator(*arguments)
    except Exception:  # noqa: BLE001 - whatever the operator raises, it raises it when the program runs
        return NOT_CONSTANT
    fits = is_immutable(result) and is_subtype_of(type_of(result), node.output.type)
    return result if fits and not isinstance(node.output.type, OptionalType) else NOT_CONSTANT
