"""One small function per operator: aten -> loops. Importing this package fills `LOWERINGS`.

    registry.py   the table and its decorators      pointwise.py  elementwise operators
    reduction.py  sums, maxima, means, variances    view.py       views
    creation.py   tensors from nothing              indexing.py   gather, index, embedding
    combine.py    concatenation, padding            matmul.py     library calls
    fallback.py   any operator without a lowering runs as eager PyTorch runs it
"""

from minitorch2.loopir.lowering import pointwise, reduction
from minitorch2.loopir.lowering.registry import LOWERINGS, lowering

__all__ = ["LOWERINGS", "lowering", "pointwise", "reduction"]
