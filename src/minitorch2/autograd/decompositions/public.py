"""Decompositions of PyTorch's own public table, for operators that need none of ours.

The module lists them: an operator that is not here stays an operator. Random operators are left
out, as theirs would draw other numbers than eager's.
"""

from __future__ import annotations

import torch

from minitorch2.autograd.decompositions.registry import register_decomposition
from minitorch2.native.torch_internals.operators import DECOMPOSITION_TABLE

aten = torch.ops.aten

PUBLIC = (
    aten._chunk_cat.default,
    aten._unsafe_masked_index.default,
    aten._unsafe_masked_index_put_accumulate.default,
    aten.addr.default,
    aten.batch_norm_backward.default,
    aten.block_diag.default,
    aten.channel_shuffle.default,
    aten.linspace.Scalar_Tensor,
    aten.linspace.Tensor_Scalar,
    aten.linspace.Tensor_Tensor,
    aten.logspace.Scalar_Tensor,
    aten.logspace.Tensor_Scalar,
    aten.logspace.Tensor_Tensor,
    aten.max_unpool2d.default,
    aten.max_unpool3d.default,
    aten.multi_margin_loss.default,
    aten.multilabel_margin_loss_forward.default,
    aten.mvlgamma.default,
    aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default,
    aten.renorm.default,
    aten.rot90.default,
    aten.rrelu_with_noise_backward.default,
    aten.soft_margin_loss.default,
    aten.soft_margin_loss_backward.default,
    aten.special_erfcx.default,
    aten.special_log_ndtr.default,
    aten.trace.default,
    aten.unfold_backward.default,
    aten.upsample_trilinear3d.default,
    aten.vdot.default,
)
"""Functional operators whose form in the public table is one that lowers to loops."""

for _operator in PUBLIC:
    if _operator in DECOMPOSITION_TABLE:  # PyTorch 2.11 has some of them in C++ only
        register_decomposition(_operator)(DECOMPOSITION_TABLE[_operator])
