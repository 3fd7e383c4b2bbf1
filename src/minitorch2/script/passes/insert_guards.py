"""Turn what was seen of tensors into what is checked: profile nodes become `prim::guard` nodes.

The type of a guard's output is the type that it checks. Behind it the tensor is of that type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.types import TENSOR
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.insert_profiles import PROFILE
from minitorch2.script.passes.rewriting import Rewrite, script_pass

GUARD = "prim::guard"


@script_pass
def insert_guards(graph: Graph) -> Iterator[Rewrite]:
    """Replace each profile node by a guard of the type that it saw.

    One that never ran, or that watches a tensor whose form changes in place, is only removed.
    """
    aliases = AliasDb(graph)
    for node in [node for node in graph.nodes() if node.kind == PROFILE]:
        value = node.inputs[0]
        seen = node.attributes["record"].type or TENSOR
        checked = replace(seen, requires_grad=None)  # the executor chooses plans by it
        if checked == TENSOR or aliases.changes_form(value):
            yield Rewrite("nothing is known for certain", node)
            replace_node(node, [value])
            continue
        yield Rewrite(f"was always {checked}", node)
        guard = node.graph.create(GUARD, [value], [checked], range=node.range)
        guard.insert_before(node).output.name = node.output.name
        replace_node(node, guard.outputs)
