"""One small function per operator: aten -> loops.

    registry.py       the table and its decorators  pointwise.py      arithmetic, comparison, logic
    mathematics.py    functions of floats           special.py        special functions
    activation.py     activations, their backward   search.py         membership, boundaries
    scan.py           running sums and extremes     interpolation.py  enlarged images
    linear.py         outer products, distances, losses
    conversion.py     copies and dtypes             view.py           views
    creation.py       tensors from nothing          reduction.py      sums, means, maxima
    reduction_loops.py  loops of these              moments.py        variances
    normalization.py  softmax, logsumexp, norms     combine.py        concatenation, padding
    indexing.py       gather, index, embedding      scatter.py        their inverse: stores
    matmul.py         library calls by choice
    fallback.py       any operator without a lowering runs as eager PyTorch runs it

Importing this package fills `LOWERINGS`.
"""

from minitorch2.loopir.lowering import (
    activation,
    combine,
    conversion,
    creation,
    indexing,
    interpolation,
    linear,
    mathematics,
    matmul,
    moments,
    normalization,
    pointwise,
    reduction,
    scan,
    scatter,
    search,
    special,
    view,
)
from minitorch2.loopir.lowering.registry import LOWERINGS, lowering

__all__ = [
    "LOWERINGS", "activation", "combine", "conversion", "creation", "indexing", "interpolation",
    "linear", "lowering", "mathematics", "matmul", "moments", "normalization", "pointwise",
    "reduction", "scan", "scatter", "search", "special", "view",
]  # fmt: skip
