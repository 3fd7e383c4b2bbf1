"""Remove the ``expand`` that a recording put before an operator which broadcasts by itself.

The recording marks this ``expand`` with ``implicit=True``. It holds for the recorded sizes only.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.script.ir.graph import Graph
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def remove_expands(graph: Graph) -> Iterator[Rewrite]:
    """Let the readers of an implicit ``expand`` read its input."""
    for node in list(graph.nodes()):
        if node.kind == "aten::expand" and len(node.inputs) > 2 and node.constant(2) is True:
            yield Rewrite("its readers broadcast", node)
            replace_node(node, node.inputs[:1])
