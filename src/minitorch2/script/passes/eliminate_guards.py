"""Remove guards whose outcome follows from others.

The sum of two tensors whose sizes are checked to be (2, 3) has these sizes: it needs no check
(TorchScript overview, "Profiling Programs").
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import TensorType
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.insert_guards import GUARD
from minitorch2.script.passes.rewriting import Rewrite, script_pass
from minitorch2.script.passes.shapes import infer_types


@script_pass
def eliminate_guards(graph: Graph) -> Iterator[Rewrite]:
    """Remove each guard of an operator's output whose type follows from the inputs' types."""
    aliases = AliasDb(graph)
    for node in [node for node in graph.nodes() if node.kind == GUARD]:
        value = node.inputs[0]
        if follows(value, node, aliases):
            yield Rewrite("follows from checked inputs", node)
            value.type = node.output.type
            replace_node(node, [value])


def follows(value: Value, guard: Node, aliases: AliasDb) -> bool:
    """Return whether a value is of the type that a guard checks, whatever the inputs are."""
    known = value.type
    if value.node.kind not in ("prim::Param", "prim::If", "prim::Loop", GUARD):
        known = infer_types(value.node, aliases)[value.index]
    checked = guard.output.type
    assert isinstance(checked, TensorType)
    return isinstance(known, TensorType) and checked.generalizes(known)
