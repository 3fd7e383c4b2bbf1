"""Remove what nobody reads.

Law::

    x = f(a)        # no reader, no effect        -->        (nothing)

A node that draws random numbers, mutates an argument or calls unknown code stays: dropping it would
move the random generator or lose a write.
"""

from __future__ import annotations

from minitorch2.graph.effects import is_impure
from minitorch2.graph.graph_module import GraphModule


def eliminate_dead_code(module: GraphModule) -> bool:
    """Erase pure nodes without readers, transitively; return whether any was erased.

    >>> import torch
    >>> from minitorch2.graph.graph import Graph
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> dead = graph.call_function(torch.sin, (x,))
    >>> noise = graph.call_function(torch.rand, (3,))
    >>> _ = graph.output((x,))
    >>> eliminate_dead_code(GraphModule(graph)), [node.name for node in graph.nodes]
    (True, ['x', 'rand', 'output'])
    """
    before = len(module.graph)
    for node in reversed(module.graph.nodes):
        if not node.users and not is_impure(node):
            module.graph.erase(node)
    changed = len(module.graph) != before
    if changed:
        module.recompile()
    return changed
