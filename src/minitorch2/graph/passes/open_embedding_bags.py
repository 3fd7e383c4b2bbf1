"""Look up the rows of embedding bags of equal size, and add them up, in loops.

Law::

    embedding_bag(x, w, mode="sum")  -->  embedding(x, w).sum(1)    if x is a matrix

The rules are in ``graph/patterns/bags.py``. Wide rows, large tables, bags that offsets cut, maxima,
renormalized rows, padding, sparse gradients and gradients scaled by frequency stay the library's.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.patterns import FAMILIES, apply_rules
from minitorch2.graph.rewriting import Rewrite, graph_pass


@graph_pass
def open_embedding_bags(module: GraphModule) -> Iterator[Rewrite]:
    """Replace each embedding bag of a matrix by rows that are added up."""
    yield from apply_rules(module, FAMILIES["open_embedding_bags"])
