"""Guards on the keys of a dict from outside that a program reads.

A function that reads ``settings["scale"]`` does not care for the other keys of a global dict, and
must not be compiled again when one comes or goes. Reading a key relies on that key. Only an
operation that sees all keys (iteration, the length, a copy, a write) relies on all of them and on
their order.
"""

from __future__ import annotations

from collections.abc import Hashable

from minitorch2.bytecode.guards.containers import DictKeysMatch, KeyMatch
from minitorch2.bytecode.guards.guard import Guard
from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.trackers.interfaces import Capture


class KeyGuards:
    """Makes guards on the keys of one dict.

    Args:
        capture: the attempt that relies on them.
        source: loads the dict.
        keys: the keys of the dict as it is; all have literals.
    """

    def __init__(self, capture: Capture, source: Source, keys: tuple[Hashable, ...]) -> None:
        self._capture, self._source, self._keys = capture, source, keys

    def rely_on_all(self) -> Guard:
        """Return the guard that there are exactly these keys, in this order."""
        guard = DictKeysMatch(self._source, self._keys, user_line=self._capture.line)
        return self._capture.add_guard(guard)

    def rely_on(self, key: Hashable, present: bool) -> Guard:
        """Return the guard that a key is there, or is not."""
        guard = KeyMatch(self._source, key, present, user_line=self._capture.line)
        return self._capture.add_guard(guard)
