"""The two compressed tables of a code object: source positions and exception handlers.

Formats: CPython's Objects/locations.md and Objects/exception_handling_notes.txt (3.11 and later).
Both count in code units of two bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from dis import Positions

LONG_FORM, NO_COLUMNS, NO_LOCATION = 14, 13, 15
"""Codes of the location entries written here; shorter forms exist, but save only memory."""
LONGEST_ENTRY = 8
"""Code units that one location entry can cover."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A row of the exception table, in code units: [start, end) jumps to target."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def parse_exception_table(table: bytes) -> Iterator[TableEntry]:
    """Yield the rows of `co_exceptiontable`, in order."""
    numbers = _read_numbers(table)
    for start, length, target, flags in zip(numbers, numbers, numbers, numbers, strict=True):
        yield TableEntry(start, start + length, target, flags >> 1, bool(flags & 1))


def _read_numbers(table: bytes) -> Iterator[int]:
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            yield number
            number = 0


def print_exception_table(entries: Iterable[TableEntry]) -> bytes:
    """`co_exceptiontable` of rows that are sorted by start."""
    table = bytearray()
    for entry in entries:
        length = entry.end - entry.start
        flags = entry.depth << 1 | entry.lasti
        for start_bit, number in ((128, entry.start), (0, length), (0, entry.target), (0, flags)):
            table += _big_endian_number(number, start_bit)
    return bytes(table)


def _big_endian_number(number: int, start_bit: int) -> bytes:
    digits = [number & 63]
    while number := number >> 6:
        digits.append(number & 63 | 64)
    digits.reverse()
    digits[0] |= start_bit
    return bytes(digits)


def print_line_table(first_line: int, entries: Iterable[tuple[Positions, int]]) -> bytes:
    """`co_linetable` of (position, number of code units) pairs in code order."""
    table = bytearray()
    line = first_line
    for positions, length in entries:
        while length > 0:
            table += _location(positions, min(length, LONGEST_ENTRY), line)
            length -= LONGEST_ENTRY
            line = line if positions.lineno is None else positions.lineno
    return bytes(table)


def _location(positions: Positions, length: int, previous_line: int) -> bytes:
    line, end_line, column, end_column = positions
    if line is None:
        return bytes([128 | NO_LOCATION << 3 | length - 1])
    step = line - previous_line
    delta = _little_endian_number(-step << 1 | 1 if step < 0 else step << 1)
    if end_line is None or column is None or end_column is None:
        return bytes([128 | NO_COLUMNS << 3 | length - 1]) + delta
    rest = (end_line - line, column + 1, end_column + 1)
    head = bytes([128 | LONG_FORM << 3 | length - 1])
    return head + delta + b"".join(map(_little_endian_number, rest))


def _little_endian_number(number: int) -> bytes:
    digits = [number & 63]
    while number := number >> 6:
        digits[-1] |= 64
        digits.append(number & 63)
    return bytes(digits)
