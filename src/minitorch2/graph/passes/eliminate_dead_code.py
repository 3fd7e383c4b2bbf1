"""Remove nodes that nothing reads.

Law::

    x = f(a)        # no reader, no effect        -->        (nothing)

A node stays if it draws random numbers, writes to an argument, may raise because of values, or
calls unknown code. To drop it would change the random generator's state, or lose a write or an
exception.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.raising import must_run
from minitorch2.graph.rewriting import Rewrite, graph_pass
from minitorch2.graph.symbol_nodes import Liveness


@graph_pass
def eliminate_dead_code(module: GraphModule) -> Iterator[Rewrite]:
    """Erase nodes without readers and effects, transitively.

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
    live = Liveness()
    for node in reversed(module.graph.nodes):
        if node.users or must_run(node) or live.is_read(node):
            live.note(node.args, dict(node.kwargs))
        else:
            yield Rewrite("nobody reads it", node)
            module.graph.erase(node)
