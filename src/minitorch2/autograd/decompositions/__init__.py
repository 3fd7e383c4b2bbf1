"""Decompositions: operators as Python functions of simpler operators, one family a file.

``DECOMPOSITIONS`` is the table that our own backends use; :func:`register_decomposition` adds to it
or to a table of one's own. What stays an operator: matrix products, convolutions, pooling, attention
kernels, random operators, gathers and scatters.
"""

from minitorch2.autograd.decompositions import (  # noqa: F401  (importing fills the table)
    activations,
    losses,
    normalizations,
    pointwise,
    reductions,
    tensors,
)
from minitorch2.autograd.decompositions.registry import (
    DECOMPOSITIONS,
    Decomposition,
    register_decomposition,
)

__all__ = ["DECOMPOSITIONS", "Decomposition", "register_decomposition"]
