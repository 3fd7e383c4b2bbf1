"""Operators that stay library calls by choice: a tuned library is faster than generated loops.

They are planned calls, not fallbacks: where PyTorch has an `out=` variant the result is written
into memory that the schedule plans.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload

from minitorch2.loopir.buffers import current_table
from minitorch2.loopir.lowering.fallback import extern_call
from minitorch2.loopir.lowering.registry import lowering, overloads_of

aten = torch.ops.aten

LIBRARY_CALLS = (
    "mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "_addmm_activation", "linear",
    "convolution", "convolution_backward", "_convolution",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_fused_attention_overrideable",
    "embedding_dense_backward", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort",
    "topk", "index_put", "scatter", "scatter_add", "scatter_reduce", "index_add",
    "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
    "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward",
    "native_batch_norm", "native_batch_norm_backward", "upsample_nearest2d",
    "upsample_bilinear2d",
)  # fmt: skip
"""Names in `torch.ops.aten`; those that this PyTorch lacks are skipped."""


def _register_library_call(overload: OpOverload) -> None:
    @lowering(overload)
    def call(*args: Any, **kwargs: Any) -> Any:
        return extern_call(overload, args, kwargs, current_table().result)


for _name in LIBRARY_CALLS:
    if hasattr(aten, _name):
        for _overload in overloads_of(getattr(aten, _name)):
            _register_library_call(_overload)
