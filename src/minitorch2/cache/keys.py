"""Keys of the cache: named fields, so that one can say which of them was different."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

_SHORT = 200
"""Longer fields, as texts of kernels, are noted by their digest."""


@dataclass(frozen=True)
class Key:
    """The key of an entry: all properties on which its content depends.

    Args:
        layer: the kind of the entry: "kernel", "library", "launcher"...
        fields: everything that its content depends on, by name.
        title: the entry's name for readers; it is not part of the key.
    """

    layer: str
    fields: Mapping[str, str]
    title: str = ""

    @cached_property
    def digest(self) -> str:
        """The entry's name: SHA-256 of the layer and the fields in their order."""
        return digest_of(self.layer, *(part for field in self.fields.items() for part in field))

    def summary(self) -> dict[str, str]:
        """Return the fields as an entry notes them."""
        return {
            name: value if len(value) <= _SHORT else f"sha256:{digest_of(value)[:16]}"
            for name, value in self.fields.items()
        }


def key_of(layer: str, title: str = "", **fields: str) -> Key:
    """Return the key of an entry that depends on these fields."""
    return Key(layer, fields, title)


def digest_of(*parts: str) -> str:
    """SHA-256 of texts, in this order, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


@cache
def digest_of_sources(*floors: str) -> str:
    """Return the digest of the source files of floors of this package, without importing them."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for floor in floors for path in (root / floor).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:32]
