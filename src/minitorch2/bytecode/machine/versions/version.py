"""The form of a version table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minitorch2.bytecode.machine.decoder import DecodeRule
from minitorch2.bytecode.machine.encoder import EncodeRule


@dataclass(frozen=True, slots=True)
class BytecodeVersion:
    """The differences of one CPython minor version from the canonical grammar.

    Attributes:
        decode: rules for real opcodes that `decode_by_family` does not cover.
        encode: rules for canonical opcodes that `encode_by_family` does not cover.
        loop_exit: real opcodes that must stand where FOR_ITER jumps to when it is exhausted.
    """

    decode: Mapping[str, DecodeRule]
    encode: Mapping[str, EncodeRule]
    loop_exit: tuple[str, ...]
