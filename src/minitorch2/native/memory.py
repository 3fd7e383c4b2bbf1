"""The memory of this process, read by address."""

from __future__ import annotations

import ctypes


def address_of(function: object) -> int:
    """Return the address of a C function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]


def read_words(address: int, words: int) -> list[int]:
    """Read so many words of 8 bytes."""
    return list((ctypes.c_uint64 * words).from_address(address))


def read_word(address: int) -> int:
    """Read 8 bytes as a number without a sign."""
    return ctypes.c_uint64.from_address(address).value


def read_int(address: int) -> int:
    """Read 4 bytes as a number with a sign."""
    return ctypes.c_int32.from_address(address).value


def bytes_at(address: int, size: int) -> ctypes.Array[ctypes.c_char]:
    """Return a view of memory, which must outlive it."""
    return (ctypes.c_char * size).from_address(address)
