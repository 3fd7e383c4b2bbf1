"""Constants as text."""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import Any

import torch

from minitorch2.script.ir.dtype_numbers import numbered


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
