"""Our own metadata rules for common operators whose meta kernels in PyTorch are Python.

A rule answers with a meta tensor, or with None where it does not apply and PyTorch's kernel must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.graph import random_operators
from minitorch2.graph.fake_pointwise import pointwise_result
from minitorch2.graph.fake_reductions import FAKE_REDUCTIONS, elementwise_loss, plain_batch_norm
from minitorch2.graph.symbols.unbacked import is_dense
from minitorch2.native.torch_internals.operators import OpOverload, suggest_memory_format
from minitorch2.native.torch_internals.pytree import tree_map

aten = torch.ops.aten
_CHANNELS_LAST: Final = torch.channels_last


def addmm(bias: Tensor, a: Tensor, b: Tensor, **scales: Any) -> Tensor | None:
    """Return the metadata of ``a @ b``; the bias must expand to it."""
    result: Tensor = aten.mm.default(a, b)
    bias.expand(result.shape)  # raises where the operator would
    return result


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Concatenate inputs of one rank to a contiguous result; None for channels-last ones."""
    first = tensors[0]
    if not all(t.dim() == first.dim() and (t.dim() < 4 or is_dense(t)) for t in tensors):
        return None
    dim = dim % max(first.dim(), 1)
    others = [d for d in range(first.dim()) if d != dim]
    if first.dim() == 0 or any(t.shape[d] != first.shape[d] for t in tensors[1:] for d in others):
        return None  # PyTorch's kernel says what is wrong
    shape: list[Any] = list(first.shape)
    shape[dim] = sum(t.shape[dim] for t in tensors)
    dtype = reduce(torch.promote_types, (t.dtype for t in tensors))
    return torch.empty(shape, dtype=dtype, device="meta")


def extreme(x: Tensor) -> Tensor:
    """Return the metadata of the greatest or least element, and check that there is an element."""
    torch._check(x.numel() > 0, lambda: "max() or min() of a tensor without elements")  # type: ignore[no-untyped-call]
    return torch.empty((), dtype=x.dtype, device="meta")


def padded_to_jagged(padded: Tensor, offsets: Any, length: Any = None) -> Tensor | None:
    """Return the rows of a padded tensor, one after another; None if only data tell the length."""
    return None if length is None else padded.new_empty((length, *padded.shape[2:]))


def convolution(x: Tensor, weight: Tensor, *arguments: Any) -> Tensor | None:
    """Keep the input's order in memory; PyTorch's kernel, on meta tensors, gives row-major."""
    if x.dim() != 4 or x.is_contiguous() or not x.is_contiguous(memory_format=_CHANNELS_LAST):
        return None
    result = aten.convolution.default(x, weight, *arguments)
    return torch.empty_like(result, memory_format=_CHANNELS_LAST)


def convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, sizes: Any, *arguments: Any
) -> tuple[Tensor | None, ...] | None:
    """Return channels-last gradients for a channels-last convolution.

    PyTorch's kernel says that they are row-major.
    """
    if x.dim() != 4 or x.is_contiguous() or not x.is_contiguous(memory_format=_CHANNELS_LAST):
        return None
    mask = arguments[-1]
    like = [x, weight, weight.new_empty(sizes if sizes else (0,))]
    formats = (_CHANNELS_LAST, _CHANNELS_LAST, torch.contiguous_format)
    return tuple(
        torch.empty_like(tensor, memory_format=order) if wanted else None
        for tensor, order, wanted in zip(like, formats, mask, strict=True)
    )


def batch_norm(func: OpOverload, x: Tensor, *arguments: Any) -> Any:
    """Return a row-major or channels-last result, whatever the strides of the input.

    PyTorch's kernel, on meta tensors, keeps the input's strides.
    """
    if is_dense(x):
        return plain_batch_norm(x, *arguments)
    result, *statistics = func(x, *arguments)
    return torch.empty_like(result, memory_format=suggest_memory_format(x)), *statistics


def upsampled_backward(
    keeps_order: bool, gradient: Tensor, size: Sequence[Any], shape: Sequence[Any], *arguments: Any
) -> Tensor | None:
    """Return a gradient of the input's shape, where sizes are symbolic.

    PyTorch's kernel takes numbers only. ``keeps_order`` says whether a gradient in channels-last
    order gives another one.
    """
    if all(type(n) is int for n in (*gradient.shape, *size, *shape)):
        return None
    if len(shape) != gradient.dim() or tuple(gradient.shape) != (*shape[:2], *size):
        return None
    order = suggest_memory_format(gradient) if keeps_order else torch.contiguous_format
    return torch.empty(shape, dtype=gradient.dtype, device="meta", memory_format=order)


def kept(func: OpOverload, place: int, *arguments: Any, **options: Any) -> Any:
    """Return results with all strides of an input.

    PyTorch's kernel, on meta tensors, forgets those of dimensions of one element or none.
    """
    results, x = func(*arguments, **options), arguments[place]
    is_ordered = options.get("memory_format") not in (None, torch.preserve_format)
    has_short = any(type(n) is int and n < 2 for n in x.shape)
    if is_ordered or not has_short or not aten.is_non_overlapping_and_dense(x):
        return results
    return tree_map(
        lambda r: torch.empty_strided(x.shape, x.stride(), dtype=r.dtype, device="meta"), results
    )


def huber_loss(x: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor | None:
    """Return the loss of each element as pointwise operators do, or a number."""
    func, args = aten.huber_loss.default, (x, target, reduction, delta)
    return elementwise_loss(func, *args) if reduction else pointwise_result(func, args, {})


def column_major(x: Tensor) -> Tensor:
    """Return matrices of the same sizes whose columns lie together, as LAPACK writes them."""
    if x.dim() < 2:
        return x
    strides = torch.empty(x.mT.shape, device="meta").mT.stride()
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device="meta")


def real_spectrum(result: Tensor, x: Tensor, dims: Sequence[int], *options: Any) -> Tensor:
    """Return a transform in the order of memory of CPU libraries: transformed dimensions last."""
    others = [dim for dim in range(x.dim()) if dim not in dims]
    steps, sets = x.stride(), (others, dims[:-1], dims[-1:])
    order = [dim for some in sets for dim in sorted(some, key=lambda dim: -steps[dim])]
    plain = torch.empty([result.shape[dim] for dim in order], dtype=result.dtype, device="meta")
    return plain.permute([order.index(dim) for dim in range(x.dim())])


def decomposed(results: Sequence[Tensor], *arguments: Any) -> tuple[Tensor, ...]:
    """Return a decomposition with its last vectors as a CPU orders them; others are GPUs'."""
    return *results[:-1], column_major(results[-1])


def dense(results: Any, *arguments: Any) -> Any:
    """Return a result, or the last of several, in the order of its dimensions if it is not None."""
    if not isinstance(results, tuple):
        return number_for_each(results)
    return (*results[:-1], None if results[-1] is None else number_for_each(results[-1]))


def nonzero_static(result: Tensor, x: Tensor, **_: Any) -> Tensor:
    """Return positions as a CPU stores them: those of a number have no dimension."""
    return result if x.dim() else number_for_each(result)


def size(x: Tensor) -> list[int]:
    """Return the sizes as plain integers, for nested batches of `torch.vmap`."""
    return [int(length) for length in x.shape]


def number_for_each(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """Return a number for each element, where PyTorch has no meta kernel (torch 2.11 has none for
    the fused layer of inference).
    """
    return torch.empty(x.shape, dtype=x.dtype, device="meta")


def binomial(count: Tensor, probability: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """Return the metadata of the successes drawn for each element: the broadcast of both inputs."""
    return number_for_each(count + probability)


_UPSAMPLINGS: Final = {
    "upsample_nearest1d": False, "_upsample_nearest_exact1d": False, "upsample_linear1d": False,
    "upsample_nearest2d": True, "_upsample_nearest_exact2d": True, "upsample_bilinear2d": True,
    "_upsample_bilinear2d_aa": True, "upsample_bicubic2d": False, "_upsample_bicubic2d_aa": False,
    "upsample_nearest3d": False, "_upsample_nearest_exact3d": False, "upsample_trilinear3d": True,
}  # fmt: skip
"""For each operator, whether its gradient keeps a channels-last order."""
_KEPT: Final = (
    aten.empty_like.default, aten.zeros_like.default, aten.ones_like.default,
    aten.full_like.default, aten.rand_like.default, aten.randn_like.default,
    aten.randint_like.default, aten.randint_like.low_dtype, aten.flip.default,
    aten.sort.default, aten.sort.stable, aten.index_put.default, aten._conj_physical.default,
    aten._unsafe_masked_index_put_accumulate.default, aten._prelu_kernel.default,
    aten.log_sigmoid_backward.default,
)  # fmt: skip
METADATA_OPERATORS: Final = {aten.size.default: size}
"""Operators that ask for what tensors know: nothing is left to compute."""

ON_CPU: Final[dict[OpOverload, Callable[..., Any]]] = {
    aten._linalg_svd.default: decomposed, aten.linalg_eig.default: decomposed,
    aten._fft_r2c.default: real_spectrum,
    aten.tril.default: number_for_each, aten.triu.default: number_for_each,
    aten.col2im.default: dense, aten.native_layer_norm_backward.default: dense,
    aten.nonzero_static.default: nonzero_static,
}  # fmt: skip
"""What a CPU gives in another order of memory than a kernel on meta tensors says."""

FAKE_KERNELS: Final[dict[OpOverload, Callable[..., Any]]] = {
    **FAKE_REDUCTIONS,
    **{func: partial(kept, func, 0) for func in _KEPT},
    **{
        func: partial(kept, func, 1)
        for func in (aten.binary_cross_entropy_backward.default, aten.nll_loss2d_backward.default)
    },
    aten._sample_dirichlet.default: number_for_each,
    aten._dirichlet_grad.default: number_for_each,
    aten.binomial.default: binomial,
    aten.huber_loss.default: huber_loss,
    aten.addmm.default: addmm,
    aten.cat.default: cat,
    aten._padded_dense_to_jagged_forward.default: padded_to_jagged,
    aten.max.default: extreme,
    aten.min.default: extreme,
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
    aten._transformer_encoder_layer_fwd.default: number_for_each,
    **dict.fromkeys(
        (
            random_operators.random_state,
            random_operators.swap_random_state,
            random_operators.manual_seed,
            random_operators.seeded_state,
        ),
        random_operators.fake_state,
    ),
    **{
        getattr(aten, f"{name}_backward").default: partial(upsampled_backward, keeps_order)
        for name, keeps_order in _UPSAMPLINGS.items()
    },
    **{
        func: partial(batch_norm, func)
        for func in (
            aten.native_batch_norm.default,
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit.no_stats,
            aten._native_batch_norm_legit_no_training.default,
        )
    },
}
