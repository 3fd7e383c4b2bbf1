"""Decompositions: operators as Python functions of simpler operators, one family a file.

``DECOMPOSITIONS`` is the table that our own backends use; :func:`register_decomposition` adds to it
or to a table of one's own. Matrix products, convolutions, pooling, attention kernels, gathers and
scatters stay operators. So do random operators, unless kernels draw their own numbers
(`randomness`, a table of its own).
"""

import torch

from minitorch2.autograd.decompositions import (
    activations,
    foreach,
    losses,
    normalizations,
    pointwise,
    pooling,
    public,
    recurrent,
    reductions,
    scatters,
    tensors,
)
from minitorch2.autograd.decompositions.registry import (
    DECOMPOSITIONS,
    Decomposition,
    Operator,
    register_decomposition,
)

aten = torch.ops.aten

REQUIRED_DECOMPOSITIONS: dict[Operator, Decomposition] = {
    operator: DECOMPOSITIONS[operator]
    for operator in (
        # Several views at once: functionalization knows one view at a time.
        aten.split.Tensor,
        aten.split_with_sizes.default,
        aten.unsafe_split.Tensor,
        aten.unsafe_split_with_sizes.default,
        aten.unbind.int,
        # They write their running statistics, and their schemas do not say so.
        aten.native_batch_norm.default,
        aten.cudnn_batch_norm.default,
        # Its workspace is there only while gradients are recorded.
        aten.mkldnn_rnn_layer.default,
    )
}
"""Applied whatever table is given: without them a trace could not be functional."""
