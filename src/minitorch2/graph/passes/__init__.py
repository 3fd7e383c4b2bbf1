"""Passes over graphs, one a file. Each takes a GraphModule, edits it in place and says whether it
changed it.

======================================  ========================================================
pass                                    law (``before --> after``)
======================================  ========================================================
``eliminate_dead_code``                 ``x = f(a)`` with no reader and no effect ``-->`` nothing
``eliminate_common_subexpressions``     ``x = f(a); y = f(a)`` ``-->`` ``x = f(a); y = x``
``fold_constants``                      ``f(constants)`` ``-->`` the constant it computes
``simplify_sizes``                      a size that was found equal to another ``-->`` the other
``simplify_views``                      ``view(view(x, a), b)`` ``-->`` ``view(x, b)``, and so on
======================================  ========================================================
"""

from minitorch2.graph.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from minitorch2.graph.passes.eliminate_dead_code import eliminate_dead_code
from minitorch2.graph.passes.fold_constants import fold_constants
from minitorch2.graph.passes.simplify_sizes import simplify_sizes
from minitorch2.graph.passes.simplify_views import simplify_views

__all__ = [
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "fold_constants",
    "simplify_sizes",
    "simplify_views",
]
