"""Make a batch normalization with fixed statistics part of the convolution before it.

Law::

    batch_norm(conv(x, w, b), mean, var, weight, bias)  -->  conv(x, w * f, (b - mean) * f + bias)
                                                             f = weight / sqrt(var + epsilon)

The rules are in ``graph/patterns/batch_norm.py``. All but ``x`` must be constants of the graph, as
they are once parameters are frozen (``freeze_parameters``). Then the new weights are folded to
constants, too, and one convolution is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.patterns import FAMILIES, apply_rules
from minitorch2.graph.rewriting import Rewrite, graph_pass


@graph_pass
def fold_batch_norm(module: GraphModule) -> Iterator[Rewrite]:
    """Replace each pair of convolution and normalization by a convolution."""
    yield from apply_rules(module, FAMILIES["fold_batch_norm"])
