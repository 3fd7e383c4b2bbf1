"""One small function per operator: aten -> loops. Importing this package fills `LOWERINGS`.

registry.py       the table and its decorators    pointwise.py      arithmetic, comparison, logic
mathematics.py    functions of floats             special.py        special functions
activation.py     activations, their backward     search.py         membership, boundaries
scan.py           running sums and extremes       interpolation.py  enlarged images
linear.py         outer products, distances, losses
conversion.py     copies and dtypes               view.py           views
creation.py       tensors from nothing            reduction.py      sums, maxima, variances
reduction_loops.py  how they become loops         normalization.py  softmax, logsumexp, norms
indexing.py       gather, index, embedding        scatter.py        their inverse: stores
combine.py        concatenation, padding
matmul.py         library calls by choice
fallback.py       any operator without a lowering runs as eager PyTorch runs it
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
    "linear", "lowering", "mathematics", "matmul", "normalization", "pointwise", "reduction",
    "scan", "scatter", "search", "special", "view",
]  # fmt: skip
