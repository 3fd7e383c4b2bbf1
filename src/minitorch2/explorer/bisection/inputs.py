"""The inputs of a program as Python text: numbers that a seed gives, a list, or packed bytes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch

from minitorch2.graph.literals import literal

LITERAL: Final = 64
"""Most elements that are written as a list of numbers."""

_FLOATS: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_INTEGERS: Final = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
Fill = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

FILLS: Final[Mapping[torch.dtype, tuple[str, Fill]]] = {
    **{dtype: ("normal_(", lambda t, g: t.normal_(generator=g)) for dtype in _FLOATS},
    **{dtype: ("random_(0, 3, ", lambda t, g: t.random_(0, 3, generator=g)) for dtype in _INTEGERS},
    torch.bool: ("random_(0, 2, ", lambda t, g: t.random_(0, 2, generator=g)),
}
"""The method that fills memory with numbers of a generator, as text and as a function."""


def seeded(number: int, value: object) -> torch.Tensor | None:
    """Return the numbers of a seed in the form of an input; None if there are none for its form."""
    if not isinstance(value, torch.Tensor) or value.dtype not in FILLS or _overlaps(value):
        return None
    form = value.shape, value.stride()
    empty = torch.empty_strided(*form, dtype=value.dtype, device="cpu")
    filled = FILLS[value.dtype][1](empty, torch.Generator().manual_seed(number))
    return filled.to(value.device).requires_grad_(value.requires_grad)


def is_seeded(number: int, value: torch.Tensor) -> bool:
    """Return whether an input has the numbers of its seed."""
    numbers = seeded(number, value)
    return numbers is not None and torch.equal(numbers, value)


def _overlaps(value: torch.Tensor) -> bool:
    return any(s == 0 and n > 1 for n, s in zip(value.shape, value.stride(), strict=True))


def written(number: int, value: Any) -> Iterator[str]:
    """Yield the lines that make an input, called ``x0``, ``x1``, ..."""
    name = f"x{number}"
    if not isinstance(value, torch.Tensor):
        yield f"{name} = {literal(value)}"
        return
    yield f"{name} = {_expression(number, value.detach())}"
    if value.device.type != "cpu":
        yield f"{name} = {name}.to({str(value.device)!r})"
    if value.requires_grad:
        yield f"{name}.requires_grad_()"


def _expression(number: int, value: torch.Tensor) -> str:
    if _overlaps(value):
        sizes = [1 if s == 0 else n for n, s in zip(value.shape, value.stride(), strict=True)]
        base = value.as_strided(sizes, value.stride())
        return f"{_expression(number, base)}.expand({tuple(value.shape)})"
    form = f"{tuple(value.shape)}, {value.stride()}, dtype={value.dtype}"
    if is_seeded(number, value):
        method = FILLS[value.dtype][0]
        generator = f"generator=torch.Generator().manual_seed({number})"
        return f"torch.empty_strided({form}).{method}{generator})"
    if value.is_contiguous():
        return _numbers(value)
    return f"torch.empty_strided({form}).copy_({_numbers(value)})"


def _numbers(value: torch.Tensor) -> str:
    """Return the elements in the order of the dimensions."""
    if value.numel() <= LITERAL:
        return f"torch.tensor({_list(value.tolist())}, dtype={value.dtype})"
    flat = value.cpu().contiguous().reshape(-1).view(torch.uint8)
    packed = base64.b85encode(zlib.compress(bytes(flat.tolist()), 9)).decode()
    unpacked = f"zlib.decompress(base64.b85decode({packed!r}))"
    buffer = f"torch.frombuffer(bytearray({unpacked}), dtype={value.dtype})"
    return f"{buffer}.reshape({tuple(value.shape)})"


def _list(value: Any) -> str:
    return f"[{', '.join(map(_list, value))}]" if isinstance(value, list) else literal(value)
