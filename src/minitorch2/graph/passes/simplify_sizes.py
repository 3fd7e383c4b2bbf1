"""Write sizes in the arguments of nodes in their simplest form.

    view(x, [s1, 4*s0])  -->  view(x, [s0, 4*s0])      after s1 == s0 was learned

A fact may be learned when some nodes are made already. A symbol that it replaced is the size of no
input any more, so no code could get its value.
"""

from __future__ import annotations

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.symbols import ShapeEnv, free_symbols, simplified


def simplify_sizes(module: GraphModule, env: ShapeEnv) -> bool:
    """Replace what is known to be equal; return whether anything changed."""
    if not env.knowledge.version:
        return False
    changed = False
    for node in module.graph.nodes:
        changed |= _simplify(node, env)
    return changed


def _simplify(node: Node, env: ShapeEnv) -> bool:
    arguments = (node.args, dict(node.kwargs))
    if not free_symbols(arguments) & env.knowledge.replacements.keys():
        return False
    node.update_args(*simplified(arguments, env))
    return True
