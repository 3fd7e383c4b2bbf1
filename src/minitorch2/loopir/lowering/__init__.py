"""One small function per operator that no decomposition takes apart: aten -> loops.

    registry.py       the table and its decorators  pointwise.py      arithmetic, comparison, logic
    mathematics.py    functions of floats           special.py        special functions
    scan.py           running sums and extremes     search.py         membership, boundaries
    linear.py         cross products, distances
    conversion.py     copies and dtypes             view.py           views
    creation.py       tensors from nothing          reduction.py      sums, means, maxima
    reduction_loops.py  loops of these              moments.py        variances
    normalization.py  norms                         combine.py        concatenation, padding
    indexing.py       gather, index, embedding      scatter.py        their inverse: stores
    matmul.py         library calls by choice
    odd_products.py   products of padded operands, for GPUs
    fallback.py       any operator without a lowering runs as eager PyTorch runs it

Importing this package fills `LOWERINGS`.
"""

from minitorch2.loopir.lowering import (
    combine,
    conversion,
    creation,
    indexing,
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
