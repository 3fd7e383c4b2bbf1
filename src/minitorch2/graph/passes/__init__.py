"""Passes over graphs, one in each file.

Each takes a GraphModule, edits it in place and returns whether it changed it. As a generator of
rewrites a pass can be logged, limited and switched off (``graph/rewriting.py``). The places where
passes run are in ``graph/pipeline.py``.

======================================  ========================================================
pass                                    law (``before --> after``)
======================================  ========================================================
``eliminate_dead_code``                 ``x = f(a)`` with no reader and no effect ``-->`` nothing
``eliminate_common_subexpressions``     ``x = f(a); y = f(a)`` ``-->`` ``x = f(a); y = x``
``fold_constants``                      ``f(constants)`` ``-->`` the constant it computes
``simplify_sizes``                      a size that was found equal to another ``-->`` the other
``simplify_views``                      ``view(view(x, a), b)`` ``-->`` ``view(x, b)``, and so on
``simplify_algebra``                    ``x * 1`` ``-->`` ``x``, ``-(-x)`` ``-->`` ``x``, and so on
``merge_concatenations``                ``cat(split(x))`` ``-->`` ``x``, and so on
``fuse_attention``                      ``softmax(q @ k.mT) @ v`` ``-->`` one operator
``fuse_causal_attention``               attention with a causal mask ``-->`` one that knows it
``freeze_parameters``                   a parameter ``-->`` a constant
``fold_batch_norm``                     ``batch_norm(conv(x, w))`` ``-->`` ``conv(x, w * factor)``
``open_embedding_bags``                 bags of equal size ``-->`` rows that are added up
======================================  ========================================================
"""

from minitorch2.graph.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from minitorch2.graph.passes.eliminate_dead_code import eliminate_dead_code
from minitorch2.graph.passes.fold_batch_norm import fold_batch_norm
from minitorch2.graph.passes.fold_constants import fold_constants
from minitorch2.graph.passes.freeze_parameters import freeze_parameters
from minitorch2.graph.passes.fuse_attention import fuse_attention
from minitorch2.graph.passes.fuse_causal_attention import fuse_causal_attention
from minitorch2.graph.passes.merge_concatenations import merge_concatenations
from minitorch2.graph.passes.open_embedding_bags import open_embedding_bags
from minitorch2.graph.passes.simplify_algebra import simplify_algebra
from minitorch2.graph.passes.simplify_sizes import simplify_sizes
from minitorch2.graph.passes.simplify_views import simplify_views

__all__ = [
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "fold_batch_norm",
    "fold_constants",
    "freeze_parameters",
    "fuse_attention",
    "fuse_causal_attention",
    "merge_concatenations",
    "open_embedding_bags",
    "simplify_algebra",
    "simplify_sizes",
    "simplify_views",
]
