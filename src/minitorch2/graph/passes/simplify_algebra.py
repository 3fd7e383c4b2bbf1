"""Leave out operations without effect: ``x * 1``, ``-(-x)``, ``abs(abs(x))``, and so on.

The laws are the rules in ``graph/patterns/algebra.py``; each holds for every bit. For functional
graphs of aten operators.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.patterns import FAMILIES, apply_rules
from minitorch2.graph.rewriting import Rewrite, graph_pass


@graph_pass
def simplify_algebra(module: GraphModule) -> Iterator[Rewrite]:
    """Apply the rules once along the graph; inputs are simplified before their readers."""
    yield from apply_rules(module, FAMILIES["simplify_algebra"])
