"""``object.__dict__``: the attributes of an instance as a live dict.

Reads see pending writes to the instance, and writes are attribute writes, so that
``vars(x)["a"]`` and ``x.a`` are one place however a program mixes them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, MutableMapping

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Residual
from minitorch2.bytecode.trackers.lazy import realize
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable, Entry
from minitorch2.bytecode.trackers.side_effects import SideEffects


class AttributeEntries(MutableMapping[Hashable, Entry]):
    """The entries of an instance's dict, in the order of the real one.

    Args:
        owner: the instance.
        effects: the pending writes.
        initial: the real instance's attributes when capture began.
    """

    def __init__(
        self, owner: VariableTracker, effects: SideEffects, initial: Mapping[str, VariableTracker]
    ) -> None:
        self.owner, self.effects, self.initial = owner, effects, dict(initial)

    def _names(self) -> list[str]:
        pending = self.effects.pending_attributes(self.owner)
        names = [*self.initial, *(name for name in pending if name not in self.initial)]
        slots = type_slots(self.owner.python_type())
        return [
            name
            for name in names
            if isinstance(pending.get(name, self.owner), VariableTracker) and name not in slots
        ]

    def _value(self, name: str) -> VariableTracker:
        pending = self.effects.load_attribute(self.owner, name)
        if isinstance(pending, VariableTracker):
            return pending
        value = self.initial[name] = realize(self.initial[name])
        return value

    def __iter__(self) -> Iterator[Hashable]:
        return (ConstantVariable(name).hash_key() for name in self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __getitem__(self, key: Hashable) -> Entry:
        name = _name(key)
        if name is None or name not in self._names():
            raise KeyError(key)
        return ConstantVariable(name), self._value(name)

    def __setitem__(self, key: Hashable, entry: Entry) -> None:
        name = _name(key)
        if name is None:
            unsupported("instance-dict", "a key of __dict__ that is no string")
        if self.effects.load_attribute(self.owner, name) is entry[1]:
            return
        if self.initial.get(name) is not entry[1]:
            self.effects.store_attribute(self.owner, name, entry[1], raw=True)

    def __delitem__(self, key: Hashable) -> None:
        name = _name(key)
        if name is None or name not in self._names():
            raise KeyError(key)
        existed = name in self.initial
        self.effects.delete_attribute(self.owner, name, existed=existed, raw=True)


class InstanceDictVariable(DictVariable):
    """The ``__dict__`` of an instance."""

    def __init__(self, entries: AttributeEntries) -> None:
        super().__init__()
        self.owner = entries.owner
        self.entries = entries

    @property
    def is_filled(self) -> bool:
        return False  # attributes are written later

    def reconstruct(self, residual: Residual) -> str:
        return f"{residual.name_for(self.owner)}.__dict__"


def _name(key: Hashable) -> str | None:
    """Return the string that a hash key stands for; None if it is not a string."""
    if isinstance(key, tuple) and key[0] == "constant" and isinstance(key[1], str):
        return key[1]
    return None


def type_slots(cls: type) -> frozenset[str]:
    """Return the names of attributes that instances keep in slots, outside their dict."""
    found: set[str] = set()
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found.update((slots,) if isinstance(slots, str) else slots)
    return frozenset(found)
