"""Names of tensor attributes and methods, grouped by the way in which capture models them."""

from __future__ import annotations

import operator
from typing import Any, Final

import torch


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


METADATA: Final = words(
    "dtype device layout ndim requires_grad itemsize nbytes is_cuda is_cpu is_xpu is_mps is_sparse"
    " is_sparse_csr is_quantized is_mkldnn is_meta is_nested names"
)
"""Attributes that are known while capturing."""

METADATA_METHODS: Final = words(
    "dim ndimension size stride numel nelement element_size is_floating_point is_complex is_signed"
    " is_contiguous get_device storage_offset has_names dim_order"
)
"""Methods that are known while capturing."""

TENSOR_ATTRIBUTES: Final = words("T mT H mH real imag data")
"""Attributes that are tensors computed from this one."""

SCALAR_READS: Final = words(
    "item is_nonzero __int__ __float__ __bool__ __complex__ __index__"
    " __array__ __format__ __repr__ __str__"
)
"""Methods that need the data."""

NUMBER_READS: Final[dict[str, Any]] = {
    "item": None,
    "__int__": torch.sym_int,
    "__float__": torch.sym_float,
}
"""The methods of these that give a number, which may stay in the graph, and its conversion."""

KNOWN_READS: Final = words(
    "item tolist is_nonzero __int__ __float__ __bool__ __complex__ __index__"
)
"""The methods that are answered for a scalar whose value is known."""

IMPURE_METHODS: Final = words(
    "backward retain_grad requires_grad_ set_"
    " share_memory_ storage apply_ map_ map2_ pin_memory"
    " record_stream __reduce_ex__ __deepcopy__ __dlpack__ refine_names detach_ set_data"
    " to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_mkldnn"
)
"""Methods with effects that a graph does not express."""

LAZY_BITS: Final = words("is_conj is_neg is_inference resolve_conj resolve_neg")
"""Methods about what PyTorch marks tensors with and fake tensors do not have: a conjugation or
negation that is put off, and that a tensor was made in inference mode."""

ATTRIBUTE_HOOKS: Final = words("__getattribute__ __getattr__ __setattr__")
"""Special methods that decide about all attributes."""

BINARY: Final[dict[str, Any]] = {
    f"__{name}__": getattr(operator, f"__{name}__")
    for name in words("add sub mul truediv floordiv mod pow matmul lshift rshift and or xor")
}
"""Special methods of binary operators; reflected and in-place ones are derived from them."""

UNARY: Final[dict[str, Any]] = {
    "__neg__": operator.neg,
    "__pos__": operator.pos,
    "__invert__": operator.invert,
}

COMPARISONS: Final[dict[str, Any]] = {
    f"__{name}__": getattr(operator, name) for name in ("lt", "le", "eq", "ne", "gt", "ge")
}

LEGACY_TYPES: Final[dict[Any, torch.dtype]] = {
    cls: cls.dtype
    for name in words("Float Double Half BFloat16 Char Short Int Long Byte Bool")
    if isinstance(cls := getattr(torch, f"{name}Tensor"), type(torch.FloatTensor))
}
"""Dtypes of the classes of CPU tensors of old, such as `torch.FloatTensor`."""

LEGACY_NAMES: Final = {dtype: f"torch.{cls.__name__}" for cls, dtype in LEGACY_TYPES.items()}
"""The answers of ``x.type()`` for CPU tensors."""
