"""Operators that stay library calls by choice: a tuned library is faster than generated loops.

They are planned calls, not fallbacks: where PyTorch has an `out=` variant the result is written
into memory that the schedule plans.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from minitorch2.graph.random_operators import bernoulli
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import current_table
from minitorch2.loopir.lowering.fallback import extern_call, report_call
from minitorch2.loopir.lowering.odd_products import align_rows, padded_product
from minitorch2.loopir.lowering.pointwise import add
from minitorch2.loopir.lowering.registry import lowering, make_pointwise, overloads_of
from minitorch2.native.torch_internals.operators import OpOverload

aten = torch.ops.aten

LIBRARY_CALLS = (
    "mm", "addmm", "bmm", "addmv", "mv", "dot", "_addmm_activation",
    "convolution", "convolution_backward", "_convolution",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_fused_attention_overrideable",
    "logcumsumexp", "sort", "topk",
    "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
    "avg_pool3d", "max_pool3d_with_indices", "_adaptive_avg_pool3d", "im2col", "col2im",
    "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward",
    "upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d",
    "upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward",
    "upsample_bilinear2d_backward", "upsample_bicubic2d_backward", "upsample_linear1d_backward",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d",
    "reflection_pad1d_backward", "reflection_pad2d_backward", "replication_pad1d_backward",
    "replication_pad2d_backward", "reflection_pad3d",
    "replication_pad3d", "grid_sampler_2d", "grid_sampler_2d_backward",
    # Random numbers come from eager's own generator, so that they are eager's numbers.
    "native_dropout", "rand", "rand_like", "randn", "randn_like", "randint", "randint_like",
    "randperm", "bernoulli", "normal_functional", "multinomial", "uniform", "exponential",
)  # fmt: skip
"""Names in `torch.ops.aten`; those that this PyTorch lacks are skipped."""


def library_call(target: OpOverload, *args: Any, **kwargs: Any) -> TensorBox:
    """Call the library for the result of the operator being lowered."""
    drawn = torch.Tag.nondeterministic_seeded in target.tags
    report_call("library_call", target, "eager's numbers" if drawn else "a library's is as fast")
    fake = current_table().result
    if (
        target is aten.addmm.default
        and not kwargs
        and fake.dtype in SLOW_BIAS.get(fake.device.type, ())
    ):
        return make_pointwise(add, (library_call(aten.mm.default, *args[1:]), args[0]))
    if target in (aten.mm.default, aten.addmm.default) and not kwargs:
        if (product := padded_product(target, *args)) is not None:
            return product
        align_rows(args[-2:])
    result: TensorBox = extern_call(target, args, kwargs, fake)
    return result


SLOW_BIAS: Final = {"cuda": (torch.float32,)}
"""Where the library has slow kernels for a product that adds a bias, by type of device: a product
without it is faster, and the reader of the sum adds it."""


def _register_library_call(overload: OpOverload) -> None:
    @lowering(overload)
    def call(*args: Any, **kwargs: Any) -> Any:
        return library_call(overload, *args, **kwargs)


for _name in LIBRARY_CALLS:
    if hasattr(aten, _name):
        for _overload in overloads_of(getattr(aten, _name)):
            _register_library_call(_overload)
for _overload in (bernoulli, aten.baddbmm.dtype):
    _register_library_call(_overload)
