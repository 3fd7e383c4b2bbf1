"""Object code as an image: one block of bytes that is copied into memory, and its fix-ups.

LLVM writes relocatable files in ELF. This links some of them as far as that is possible without
an address, so that a loader has three things left to do::

    image ::= code                               the sections of all files, one behind the other
              entries   {symbol: offset}
              internal  [(offset, target)]       the word at `offset` is base + `target`
              external  [(offset, symbol, n)]    the word at `offset` is the address of `symbol` + n

Source: System V ABI, AMD64 supplement, "Relocation"; the large code model has all of these.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from minitorch2.errors import ExportError

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_SYMBOLS_TYPE, _RELOCATIONS_TYPE, _ZEROS_TYPE = 2, 4, 8
_IS_ALLOCATED: Final = 2
_UNDEFINED: Final = 0
_ABSOLUTE_64, _RELATIVE_32, _CALL_32, _RELATIVE_64 = 1, 2, 4, 24
_X86_64: Final = 62


@dataclass
class Image:
    """Linked code; see the module's docstring."""

    code: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] = field(default_factory=dict)
    internal: list[tuple[int, int]] = field(default_factory=list)
    external: list[tuple[int, str, int]] = field(default_factory=list)

    def description(self) -> dict[str, Any]:
        """Return all but the code, for a manifest."""
        return {"entries": self.entries, "internal": self.internal, "external": self.external}

    def at(self, base: int, addresses: Mapping[str, int]) -> bytes:
        """Return the code for an address.

        Args:
            addresses: of the external symbols.
        """
        code = bytearray(self.code)
        for offset, target in self.internal:
            struct.pack_into("<Q", code, offset, base + target)
        for offset, symbol, addend in self.external:
            struct.pack_into("<Q", code, offset, addresses[symbol] + addend)
        return bytes(code)


def link_objects(objects: Iterable[bytes]) -> Image:
    """Link relocatable files for x86-64 into one image.

    Raises:
        ExportError: a file is for another machine, or has a relocation that the image cannot hold.
    """
    image = Image()
    for data in objects:
        _Object(data, image).link()
    resolved = [each for each in image.external if each[1] in image.entries]
    image.internal += [(offset, image.entries[name] + addend) for offset, name, addend in resolved]
    image.external = [each for each in image.external if each[1] not in image.entries]
    return image


class _Object:
    """One relocatable file, on its way into an image."""

    def __init__(self, data: bytes, image: Image) -> None:
        self.data = data
        self.image = image
        header = _HEADER.unpack_from(data)
        if data[:4] != b"\x7fELF" or header[2] != _X86_64:
            raise ExportError("the compiler wrote no ELF file for x86-64", code="export")
        table, size, count = header[6], header[11], header[12]
        self.sections = [_SECTION.unpack_from(data, table + i * size) for i in range(count)]
        self.names = self.sections[header[13]]
        self.places: dict[int, int] = {}
        self.symbols: list[tuple[str, int, int]] = []

    def link(self) -> None:
        """Append the sections to the image, then the fix-ups."""
        for number, section in enumerate(self.sections):
            _, kind, flags, _, offset, size, _, _, alignment, _ = section
            if not flags & _IS_ALLOCATED or self._name(section).startswith(".eh_frame"):
                continue
            self.image.code.extend(bytes(-len(self.image.code) % max(alignment, 64)))
            self.places[number] = len(self.image.code)
            content = self.data[offset : offset + size]
            self.image.code.extend(bytes(size) if kind == _ZEROS_TYPE else content)
        self._read_symbols()
        for section in self.sections:
            if section[1] == _RELOCATIONS_TYPE and section[7] in self.places:
                self._relocate(section, self.places[section[7]])

    def _name(self, section: tuple[int, ...]) -> str:
        return self._text(self.names[4] + section[0])

    def _text(self, start: int) -> str:
        return self.data[start : self.data.index(b"\0", start)].decode()

    def _read_symbols(self) -> None:
        table = next(section for section in self.sections if section[1] == _SYMBOLS_TYPE)
        names = self.sections[table[6]][4]
        for start in range(table[4], table[4] + table[5], _SYMBOL.size):
            name, info, _, section, value, _ = _SYMBOL.unpack_from(self.data, start)
            self.symbols.append((self._text(names + name), section, value))
            if info >> 4 and section in self.places:  # not local to the file
                self.image.entries[self.symbols[-1][0]] = self.places[section] + value

    def _relocate(self, section: tuple[int, ...], base: int) -> None:
        for start in range(section[4], section[4] + section[5], _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(self.data, start)
            kind, (name, number, value) = info & 0xFFFFFFFF, self.symbols[info >> 32]
            place = base + offset
            is_here = number in self.places
            if kind == _ABSOLUTE_64 and is_here:
                self.image.internal.append((place, self.places[number] + value + addend))
            elif kind == _ABSOLUTE_64 and number == _UNDEFINED:
                self.image.external.append((place, name, addend))
            elif kind in (_RELATIVE_32, _CALL_32, _RELATIVE_64) and is_here:
                distance = self.places[number] + value + addend - place
                struct.pack_into("<q" if kind == _RELATIVE_64 else "<i", self.image.code, place,
                                 distance)  # fmt: skip
            else:
                raise ExportError(
                    f"the relocation {kind} of {name or 'a section'} cannot be packaged",
                    code="export",
                )
