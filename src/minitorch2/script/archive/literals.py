"""Constants as text, and the numbers that stand for element types and layouts in files."""

from __future__ import annotations

import json
import math
from enum import Enum
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
    is_enum = isinstance(value, torch.dtype | torch.layout | torch.memory_format)
    return _NUMBERS[value] if is_enum else value


def literal_text(value: Any) -> str | None:
    """Return a constant as text; None if only the table of constants can hold it."""
    match numbered(value):
        case Enum():
            return None
        case bool() | None | int() as plain:
            return repr(plain)
        case float() as number if math.isfinite(number):
            return repr(number)
        case float() as number:
            return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
        case str() as text if text.isascii() and text.isprintable():
            return json.dumps(text)
        case torch.device() as device:
            return f'torch.device("{device}")'
        case list() | tuple() as items:
            return _sequence_text(items)
    return None


def _sequence_text(items: list[Any] | tuple[Any, ...]) -> str | None:
    texts = [literal_text(item) for item in items]
    if None in texts or (isinstance(items, list) and not items):
        return None
    inner = ", ".join(text for text in texts if text is not None)
    if isinstance(items, list):
        return f"[{inner}]"
    return f"({inner},)" if len(items) == 1 else f"({inner})"
