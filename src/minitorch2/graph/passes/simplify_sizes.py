"""Write sizes in the arguments of nodes in their simplest form.

    view(x, [s1, 4*s0])  -->  view(x, [s0, 4*s0])      after s1 == s0 was learned

A fact may be learned when some nodes are made already. A symbol that it replaced is the size of no
input any more, so no code could get its value.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.graph.fake_tensor import env_of
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.rewriting import Rewrite, graph_pass
from minitorch2.graph.symbols import ShapeEnv, free_symbols, simplified


@graph_pass
def simplify_sizes(module: GraphModule, env: ShapeEnv) -> Iterator[Rewrite]:
    """Replace sizes that are known to be equal to others."""
    if not env.knowledge.version:
        return
    for node in module.graph.nodes:
        arguments = (node.args, dict(node.kwargs))
        replaced = free_symbols(arguments) & env.knowledge.replacements.keys()
        if replaced:
            yield Rewrite(f"another size for {', '.join(sorted(map(str, replaced)))}", node)
            node.update_args(*simplified(arguments, env))


def settle_sizes(module: GraphModule) -> None:
    """Simplify the sizes of a graph that is about to be compiled.

    Its passes, or the compilation of its other half, may have learned facts since it was traced.
    """
    examples = [node.meta.get("val") for node in module.graph.placeholders]
    env = env_of(size for value in examples for size in getattr(value, "shape", (value,)))
    if env is not None:
        simplify_sizes(module, env)
