"""Questions about a tensor of a trace that are not operators: its sizes, its strides, its flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from minitorch2.script.tracing.sizes import SymbolicWriter
from minitorch2.script.tracing.traced_tensor import TracedTensor

aten = torch.ops.aten


def rank_of(writer: SymbolicWriter, tensor: torch.Tensor) -> int:
    """Return the number of dimensions; checked where sizes decide it."""
    if not isinstance(tensor, TracedTensor):
        return tensor.dim()
    rank = tensor.data_now.dim()
    if tensor.rank_varies:
        tensor.rank_varies = False
        writer.check_equal(tensor, "aten::dim", rank, f"the tensor has {rank} dimensions")
    return rank


def _sizes(writer: SymbolicWriter, tensor: Any, dimension: int | None = None) -> Any:
    rank_of(writer, tensor)
    if not isinstance(tensor, TracedTensor):
        return tensor.shape if dimension is None else tensor.shape[dimension]
    sizes = writer.sizes.of(tensor, "size")
    return sizes if dimension is None else sizes[dimension]


def _strides(writer: SymbolicWriter, tensor: Any, dimension: int | None = None) -> Any:
    if not isinstance(tensor, TracedTensor):
        return tensor.stride() if dimension is None else tensor.stride(dimension)
    strides = writer.sizes.of(tensor, "stride")
    return strides if dimension is None else strides[dimension]


def _count(writer: SymbolicWriter, tensor: Any) -> Any:
    count: Any = 1
    for size in _sizes(writer, tensor):
        count = count * size
    return count


def _is_contiguous(writer: SymbolicWriter, tensor: torch.Tensor, memory_format: Any = None) -> bool:
    format = torch.contiguous_format if memory_format is None else memory_format
    if not isinstance(tensor, TracedTensor):
        return tensor.is_contiguous(memory_format=format)
    answer: bool = tensor.data_now.is_contiguous(memory_format=format)
    if format is torch.contiguous_format:
        writer.check_equal(tensor, "aten::is_contiguous", answer, f"is_contiguous() is {answer}")
    return answer


def _of_data(name: str) -> Callable[..., Any]:
    """Answer from the data: only PyTorch's own kernels ask this."""

    def answer(writer: SymbolicWriter, tensor: Any, *args: Any) -> Any:
        data = tensor.data_now if isinstance(tensor, TracedTensor) else tensor
        return getattr(aten, name).default(data, *args)

    return answer


QUESTIONS: Final[dict[Any, Callable[..., Any]]] = {
    aten.dim.default: rank_of,
    aten.sym_size.default: _sizes,
    aten.sym_size.int: _sizes,
    aten.size.default: _sizes,
    aten.size.int: _sizes,
    aten.sym_stride.default: _strides,
    aten.sym_stride.int: _strides,
    aten.stride.default: _strides,
    aten.stride.int: _strides,
    aten.sym_numel.default: _count,
    aten.numel.default: _count,
    aten.is_contiguous.default: _is_contiguous,
    aten.is_contiguous.memory_format: _is_contiguous,
    aten.sym_storage_offset.default: _of_data("sym_storage_offset"),
    aten.storage_offset.default: _of_data("storage_offset"),
    aten.is_non_overlapping_and_dense.default: _of_data("is_non_overlapping_and_dense"),
}
