"""Metadata of pointwise operators without their meta kernels.

PyTorch's meta kernels of pointwise operators are Python (50-100 us each, and the first one imports
seconds' worth of modules). All that they find out is: the shape by broadcasting, the strides by the
elementwise rule, and the dtype by type promotion. The dtype is asked of the real operator on
tensors of one element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import torch

from minitorch2.graph.symbols.expression import SYMBOLIC, expr_of
from minitorch2.graph.symbols.unbacked import is_dense
from minitorch2.native.torch_internals.operators import OpOverload as Operator
from minitorch2.native.torch_internals.operators import elementwise_strides
from minitorch2.native.torch_internals.pytree import tree_map_only

aten = torch.ops.aten
_CHANNELS_LAST: Final = {4: (torch.channels_last,), 5: (torch.channels_last_3d,)}


@cache
def is_plain_pointwise(func: Operator) -> bool:
    """Return whether an operator gives one new tensor, element by element."""
    schema = func._schema
    return (
        (torch.Tag.pointwise in func.tags or func is torch.ops.aten.hardswish.default)  # no tag
        and torch.Tag.nondeterministic_seeded not in func.tags
        and len(schema.returns) == 1
        and not schema.is_mutable
        and all(argument.name not in ("memory_format", "device") for argument in schema.arguments)
    )


def pointwise_result(
    func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> torch.Tensor | None:
    """The meta tensor that ``func`` gives for meta tensors; None where only its kernel can say.

    Raises RuntimeError, as the operator does, for shapes that do not broadcast.
    """
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if not tensors or any(isinstance(value, (list, tuple)) for value in args):
        return None
    if any(isinstance(value, torch.Tensor) for value in kwargs.values()):
        return None
    probes = [_probe(v.dtype, v.dim()) if isinstance(v, torch.Tensor) else _known(v) for v in args]
    result = func(*probes, **{name: _known(value) for name, value in kwargs.items()})
    if not isinstance(result, torch.Tensor):
        return None
    if any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape):
        shape = _broadcast([t.shape for t in tensors])
    else:
        shape = torch.broadcast_shapes(*[t.shape for t in tensors])  # type: ignore[no-untyped-call]
        if 1 in shape:
            strides = _strides_of_kernel(tensors, shape, result.stride())
            return torch.empty_strided(shape, strides, dtype=result.dtype, device="meta")
    if all(map(is_dense, tensors)):  # so are they in the result's order
        return torch.empty(shape, dtype=result.dtype, device="meta")
    strides = _strides(tensors, shape)
    return torch.empty_strided(shape, strides, dtype=result.dtype, device="meta")


def _broadcast(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the common shape of symbolic shapes; guard that sizes that meet are equal or 1."""
    result: list[Any] = [1] * max(map(len, shapes))
    for shape in shapes:
        for d in range(-len(shape), 0):
            if expr_of(result[d]) == 1:
                result[d] = shape[d]
            elif expr_of(shape[d]) not in (1, expr_of(result[d])) and shape[d] != result[d]:
                if shape[d] == 1:
                    continue
                if result[d] != 1:
                    raise RuntimeError(f"shapes {shapes} do not broadcast")
                result[d] = shape[d]
    return tuple(result)


@cache
def _probe(dtype: torch.dtype, rank: int) -> torch.Tensor:
    """Return ones: legal divisors, exponents and logarithms. Never written to.

    A kernel shows in the strides what it does with those of dimensions of one element.
    """
    size, strides = (2, *[1] * (rank - 1)), (1, *[_STRANGE] * (rank - 1))
    form = (size, strides) if rank > 1 else ([1] * rank, [_STRANGE] * rank)
    return torch.ones(2, dtype=dtype).as_strided(*form)


def result_without_elements(func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what the real kernel gives where there is nothing to compute; None elsewhere."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if not all(type(n) is int for t in tensors for n in (*t.shape, *t.stride())):
        return None
    counts = [tensor.numel() for tensor in tensors]
    is_asked = func in _ASKED or _IN_ORDER.intersection(func.tags)
    if all(counts) or sum(counts) > _MOST_ELEMENTS or not is_asked:
        return None
    result = func(*tree_map_only(torch.Tensor, partial(_empty, "cpu"), tuple(args)), **kwargs)
    return tree_map_only(torch.Tensor, partial(_empty, "meta"), result)


def _empty(device: str, like: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)


def _known(number: Any) -> Any:
    """Return a number of the same type in place of a symbolic one: its type decides the dtype."""
    if isinstance(number, SYMBOLIC):
        return number.node.pytype(2)
    return number


_STRANGE: Final = 7
_MOST_ELEMENTS: Final = 4096
_IN_ORDER: Final = {torch.Tag.pointwise, getattr(torch.Tag, "reduction", torch.Tag.pointwise)}
_ASKED: Final = {  # by their real kernels, where there are no elements
    aten.fill.Scalar, aten.fill.Tensor, aten.huber_loss.default, aten._cdist_backward.default,
    aten.convolution_backward.default, aten.pixel_unshuffle.default,
}  # fmt: skip


def _strides_of_kernel(
    tensors: Sequence[torch.Tensor], shape: Sequence[int], shown: Sequence[int]
) -> Sequence[int]:
    """Return all strides of a result, those of dimensions of one element included.

    ``shown`` are the strides of a probe's result, which tell three ways apart. The kernel keeps the
    first input's; it gives plain ones if all inputs are plain; or it orders the dimensions, since
    a number takes part.
    """
    first = tensors[0]
    if all(t.shape == shape for t in tensors):
        if _STRANGE in shown and aten.is_non_overlapping_and_dense(first):
            return first.stride()
        if shown[1:2] == (2,):
            tensors = [*tensors, torch.empty((), device="meta")]
        else:
            for order in (torch.contiguous_format, *_CHANNELS_LAST.get(len(shape), ())):
                if all(t.is_contiguous(memory_format=order) for t in tensors):
                    return torch.empty(shape, device="meta", memory_format=order).stride()
    return _strides(tensors, shape)


def _strides(tensors: Sequence[torch.Tensor], shape: Sequence[int]) -> Sequence[int]:
    return elementwise_strides(*[tensor.expand(shape) for tensor in tensors])
