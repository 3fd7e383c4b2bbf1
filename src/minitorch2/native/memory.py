"""The memory of this process, read by address."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from contextlib import suppress


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


def keep_forever(value: object) -> None:
    """Leak one reference on purpose, for an object that machine code refers to by address."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def place_code(size: int, code_at: Callable[[int], bytes]) -> int:
    """Put machine code into memory for good; return its address. OSError if that is forbidden."""
    pages = mmap.mmap(-1, max(size, 1))
    _PLACED.append(ctypes.c_char.from_buffer(pages))  # keeps the pages from being closed
    address = ctypes.addressof(_PLACED[-1])
    pages[:size] = code_at(address)
    if ctypes.CDLL(None).mprotect(
        ctypes.c_void_p(address), len(pages), 5
    ):  # to be read and executed
        raise OSError("the system forbids new machine code in this process")
    return address


def symbol_address(name: str) -> int | None:
    """Return the address of a function or object of Python or the C library, if there is one."""
    for library in (ctypes.pythonapi, ctypes.CDLL(None), ctypes.CDLL("libm.so.6")):
        with suppress(ValueError):
            return ctypes.addressof(ctypes.c_char.in_dll(library, name))
    return None


_PLACED: list[ctypes.c_char] = []
