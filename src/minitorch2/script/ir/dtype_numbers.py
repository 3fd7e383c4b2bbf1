"""The numbers that stand for element types, layouts and memory formats in files."""

from __future__ import annotations

from typing import Any, Final

import torch

DTYPE_NUMBERS: Final[dict[torch.dtype, int]] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex32: 8,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
}
DTYPES_BY_NUMBER: Final = {number: dtype for dtype, number in DTYPE_NUMBERS.items()}
LAYOUT_NUMBERS: Final[dict[torch.layout, int]] = {
    torch.strided: 0,
    torch.sparse_coo: 1,
    torch.sparse_csr: 2,
}
MEMORY_FORMAT_NUMBERS: Final[dict[torch.memory_format, int]] = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}
_NUMBERS: Final[dict[Any, int]] = {
    **dict[Any, int](DTYPE_NUMBERS),
    **dict[Any, int](LAYOUT_NUMBERS),
    **dict[Any, int](MEMORY_FORMAT_NUMBERS),
}


def numbered(value: Any) -> Any:
    """Return the number of an element type, layout or memory format; others as they are."""
    if isinstance(value, list):
        return [numbered(item) for item in value]
    is_enum = isinstance(value, torch.dtype | torch.layout | torch.memory_format)
    return _NUMBERS[value] if is_enum else value
