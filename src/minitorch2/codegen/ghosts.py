"""Memory without data, as the checker of wrappers models it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Storage:
    """Memory of some bytes (None: a number that varies), and the values that lie in it.

    Attributes:
        is_ours: whether it may be written.
        values: for each value the byte where it begins, and the one behind it.
    """

    bytes: int | None = None
    is_ours: bool = True
    values: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, value: str, size: int | None = None, *, is_ours: bool = True) -> Storage:
        """Return memory that holds one value only."""
        return cls(size, is_ours, {value: (0, size)})


@dataclass(frozen=True)
class Place:
    """An address: a storage, and a byte in it."""

    storage: Storage
    start: int = 0

    @property
    def room(self) -> int | None:
        """The bytes from here to the end."""
        return None if self.storage.bytes is None else self.storage.bytes - self.start

    def holds(self, value: str) -> bool:
        """Return whether a value begins here."""
        return value in self.storage.values and self.storage.values[value][0] == self.start

    def contents(self) -> str:
        """Return the names of the values that begin here, for messages."""
        names = [name for name, (start, _) in self.storage.values.items() if start == self.start]
        return " and ".join(names) or "nothing"

    def write(self, value: str, size: int | None) -> None:
        """Store a value; the values that it covers are lost."""
        kept = {
            name: span
            for name, span in self.storage.values.items()
            if not _overlap(span, (self.start, self._end(size)))
        }
        self.storage.values = {**kept, value: (self.start, self._end(size))}

    def meets(self, size: int | None, other: Place, other_size: int | None) -> bool:
        """Return whether `size` bytes from here overlap `other_size` bytes from `other`."""
        spans = (self.start, self._end(size)), (other.start, other._end(other_size))
        return self.storage is other.storage and _overlap(*spans)

    def _end(self, size: int | None) -> int | None:
        return None if size is None else self.start + size


def _overlap(one: tuple[int, int | None], other: tuple[int, int | None]) -> bool:
    (start, end), (first, last) = one, other
    return (last is None or start < last) and (end is None or first < end)
