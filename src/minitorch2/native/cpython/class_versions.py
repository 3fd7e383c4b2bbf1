"""The version that CPython gives a class, and takes away when the class or a base of it changes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Version = ctypes.c_uint32
"""A place in memory for a version; its `value` can be read and written."""


def _find_version() -> int:
    """Return the offset of a class's version, which a change sets to zero and a read renews.

    It is zero, where a class has another thing, if it is not found.
    """
    cls: Any = type("Probe", (), {})
    words = (ctypes.c_uint32 * (type(cls).__basicsize__ // 4)).from_address(id(cls))
    states = []
    for cls.number in range(3):
        changed = list(words)
        states.append((cls.number, changed, list(words)))
    known = [i for i in range(len(words)) if not any(changed[i] for _, changed, _ in states)]
    rising = [i for i in known if 0 < states[0][2][i] < states[1][2][i] < states[2][2][i]]
    return 4 * rising[0] if len(rising) == 1 else 0


VERSION: Final = _find_version()
NEVER: Final = 2**32 - 1
"""No class's version, as zero is that of all changed classes."""


def unseen() -> Version:
    """Return the place of a version at which nobody has looked yet."""
    return Version(NEVER)


def version_of(cls: type) -> int:
    """Return the present version of a class; zero if it has none that can be read."""
    getattr(cls, "__init__", None)  # a read renews it
    return VERSION and ctypes.c_uint32.from_address(id(cls) + VERSION).value


@dataclass(frozen=True, eq=False)
class SeenClass:
    """A class, and its version when somebody has last looked at it closely.

    Attributes:
        get: returns the class.
        seen: the place of that version.
    """

    get: Callable[[], Any]
    seen: Version

    def is_unchanged(self) -> bool:
        """Return whether it has that version still; false if it has none that can be read."""
        return version_of(self.get()) == self.seen.value

    @property
    def places(self) -> tuple[int, int]:
        """The addresses of the two versions."""
        return id(self.get()) + VERSION, ctypes.addressof(self.seen)
