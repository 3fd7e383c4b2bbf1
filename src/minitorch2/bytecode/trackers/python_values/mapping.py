"""Dicts, ordered dicts and default dicts.

Entries keep insertion order. A dict that came from outside and is changed gets its final contents,
in place, after the graph. PyTorch 2 paper, section 3.5 (*ConstDictVariable*).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Iterable, MutableMapping
from types import MappingProxyType
from typing import Any

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.lazy import realize
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    NOT_IMPLEMENTED,
    ConstantVariable,
    fold,
    literal,
    register_literal,
)
from minitorch2.bytecode.trackers.python_values.dict_views import (
    DictIterator,
    DictViewVariable,
    MappingProxyVariable,
)
from minitorch2.bytecode.trackers.python_values.identity import key_among
from minitorch2.bytecode.trackers.python_values.key_guards import KeyGuards
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.graph.node import Argument

Entry = tuple[VariableTracker, VariableTracker]


class DictVariable(ModeledVariable):
    """A dict of exactly the class `cls`; `entries` maps hash keys to (key, value).

    Attributes:
        key_guards: makes guards on the keys of a dict from outside as they are read; None if no
            key is left unguarded.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        cls: type = dict,
        key_guards: KeyGuards | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._entries: MutableMapping[Hashable, Entry] = {}
        for key, value in entries:
            hash_key = key.hash_key()
            known = self._entries.get(hash_key)
            self._entries[hash_key] = (known[0] if known else key, value)
        self.cls = cls
        self.key_guards = key_guards
        self.changes = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length={len(self._entries)}, source={self.source})"

    @property
    def entries(self) -> MutableMapping[Hashable, Entry]:
        """All entries. Reading them relies on all keys."""
        if self.key_guards is not None:
            self.guards |= {self.key_guards.rely_on_all()}
            self.key_guards = None
        return self._entries

    @entries.setter
    def entries(self, entries: MutableMapping[Hashable, Entry]) -> None:
        self._entries = entries

    def has_key(self, key: VariableTracker) -> bool:
        """Return whether a key is there. The program relies on that, but not on the other keys."""
        hash_key = key_among(key, self._entries)
        if self.key_guards is None or not isinstance(key, ConstantVariable):
            return hash_key in self.entries
        present = hash_key in self._entries
        self.guards |= {self.key_guards.rely_on(key.value, present)}
        return present

    def python_type(self) -> type:
        return self.cls

    def hash_key(self) -> Hashable:
        return raise_observed(TypeError, f"unhashable type: '{self.cls.__name__}'")

    def is_constant(self) -> bool:
        return self.cls in (dict, OrderedDict) and all(
            key.is_constant() and value.is_constant() for key, value in self.pairs()
        )

    def as_constant(self) -> Any:
        if self.cls not in (dict, OrderedDict):
            return super().as_constant()
        return self.cls((key.as_constant(), value.as_constant()) for key, value in self.pairs())

    def as_argument(self) -> Argument:
        return {key.as_constant(): value.as_argument() for key, value in self.pairs()}

    def truth(self, evaluator: Evaluator) -> bool:
        return bool(self.entries)

    # Entries ------------------------------------------------------------------------------------

    def pairs(self) -> list[Entry]:
        """Return all entries, none lazy."""
        for hash_key, (key, value) in list(self.entries.items()):
            self.entries[hash_key] = (key, realize(value))
        return list(self.entries.values())

    def keys(self) -> list[VariableTracker]:
        """Return the keys in order."""
        return [key for key, _ in self.entries.values()]

    def values(self) -> list[VariableTracker]:
        """Return the values in order, none lazy."""
        return [value for _, value in self.pairs()]

    def lookup(self, key: VariableTracker) -> VariableTracker | None:
        """Return the value of a key, no longer lazy; None if the key is absent."""
        hash_key = key_among(key, self._entries)
        entry = self._entries.get(hash_key)
        if entry is None:
            self.has_key(key)
            return None
        value = realize(entry[1])  # is guarded by the path that leads through the key
        self._entries[hash_key] = (entry[0], value)
        return value

    def lookup_name(self, name: str) -> VariableTracker | None:
        """Return the value of a string key."""
        return self.lookup(ConstantVariable(name))

    def store(self, evaluator: Evaluator, key: VariableTracker, value: VariableTracker) -> None:
        """``self[key] = value``; an existing key object stays, as in Python."""
        hash_key = key_among(key, self._entries)
        self.changed(evaluator)
        known = self.entries.get(hash_key)
        self.entries[hash_key] = (known[0] if known else key, value)

    def changed(self, evaluator: Evaluator) -> MutableMapping[Hashable, Entry]:
        """Record a change that is about to happen; return the entries."""
        self.record_change(evaluator)
        self.changes += 1
        return self.entries

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        return self.keys()

    # Reading ------------------------------------------------------------------------------------

    def py___len__(self, evaluator: Evaluator) -> VariableTracker:
        return ConstantVariable(len(self.entries))

    def py___contains__(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.has_key(key))

    def py___iter__(self, evaluator: Evaluator) -> VariableTracker:
        return DictIterator(self, "keys", iter)

    def py___reversed__(self, evaluator: Evaluator) -> VariableTracker:
        return DictIterator(self, "keys", reversed)

    def py___getitem__(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        value = self.lookup(key)
        if value is None:
            return self.missing(evaluator, key)
        return value

    def missing(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        """Return the result of subscripting with an absent key, or raise KeyError."""
        match key.hash_key():
            case ("constant", value):
                raise_observed(KeyError, value)
        if key.is_constant():
            raise_observed(KeyError, key.as_constant())
        raise ObservedError(KeyError)

    def py_get(
        self, evaluator: Evaluator, key: VariableTracker, default: VariableTracker = NONE
    ) -> VariableTracker:
        value = self.lookup(key)
        return default if value is None else value

    def py_keys(self, evaluator: Evaluator) -> VariableTracker:
        return DictViewVariable(self, "keys")

    def py_values(self, evaluator: Evaluator) -> VariableTracker:
        return DictViewVariable(self, "values")

    def py_items(self, evaluator: Evaluator) -> VariableTracker:
        return DictViewVariable(self, "items")

    def py_fromkeys(
        self, evaluator: Evaluator, keys: VariableTracker, value: VariableTracker = NONE
    ) -> VariableTracker:
        return DictVariable([(key, value) for key in operations.iterate(evaluator, keys)], self.cls)

    def py_copy(self, evaluator: Evaluator) -> VariableTracker:
        return self.make(self.entries.values())

    def make(self, entries: Iterable[Entry]) -> DictVariable:
        """Return a new dict of the same kind."""
        return DictVariable(entries, self.cls)

    def py___eq__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        if not isinstance(other, DictVariable):
            return NOT_IMPLEMENTED
        if list(self.entries) != list(other.entries) and (
            set(self.entries) != set(other.entries)
            or (self.cls is OrderedDict and other.cls is OrderedDict)
        ):
            return ConstantVariable(False)
        same = all(
            operations.equal(evaluator, value, other.lookup(key) or NONE)
            for key, value in self.pairs()
        )
        return ConstantVariable(same)

    def py___ne__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        result = self.py___eq__(evaluator, other)
        if result is NOT_IMPLEMENTED:
            return result
        return ConstantVariable(not result.as_constant())

    def py___repr__(self, evaluator: Evaluator) -> VariableTracker:
        if self.is_constant():
            return fold(repr, [self])
        if self.cls is not dict:
            unsupported("format", f"the text of a {self.cls.__name__}")
        pairs = [
            [operations.format_value(evaluator, v, "r", None) for v in p] for p in self.pairs()
        ]
        shown = [f"{key.as_constant()}: {value.as_constant()}" for key, value in pairs]
        return ConstantVariable(f"{{{', '.join(shown)}}}")

    def py___or__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        if not isinstance(other, DictVariable):
            return NOT_IMPLEMENTED
        if self.whole is not None and self.cls is not dict:
            unsupported("method", f"method '__or__' of a class derived from {self.cls.__name__}")
        return self.make([*self.entries.values(), *other.entries.values()])

    # Writing ------------------------------------------------------------------------------------

    def py___setitem__(
        self, evaluator: Evaluator, key: VariableTracker, value: VariableTracker
    ) -> None:
        self.store(evaluator, key, value)

    def py___delitem__(self, evaluator: Evaluator, key: VariableTracker) -> None:
        if self.lookup(key) is None:
            DictVariable.missing(self, evaluator, key)
        del self.changed(evaluator)[key.hash_key()]

    def py_pop(
        self, evaluator: Evaluator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        value = self.lookup(key)
        if value is None:
            return default or DictVariable.missing(self, evaluator, key)
        del self.changed(evaluator)[key.hash_key()]
        return value

    def py_popitem(
        self, evaluator: Evaluator, last: VariableTracker | None = None
    ) -> VariableTracker:
        if last is not None and not issubclass(self.python_type(), OrderedDict):
            raise_observed(TypeError, "dict.popitem() takes no arguments (1 given)")
        if not self.entries:
            raise_observed(KeyError, "popitem(): dictionary is empty")
        from_end = last is None or operations.truth(evaluator, last)
        key = self.keys()[-1 if from_end else 0]
        return TupleVariable([key, self.py_pop(evaluator, key)])

    def py_setdefault(
        self, evaluator: Evaluator, key: VariableTracker, default: VariableTracker = NONE
    ) -> VariableTracker:
        value = self.lookup(key)
        if value is None:
            self.store(evaluator, key, default)
            return default
        return value

    def py_clear(self, evaluator: Evaluator) -> None:
        self.changed(evaluator).clear()

    def py_update(
        self, evaluator: Evaluator, other: VariableTracker | None = None, **named: VariableTracker
    ) -> None:
        for key, value in entries_of(evaluator, other):
            self.store(evaluator, key, value)
        for name, value in named.items():
            self.store(evaluator, ConstantVariable(name), value)

    def py___ior__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        self.py_update(evaluator, other)
        return self

    def py_move_to_end(
        self, evaluator: Evaluator, key: VariableTracker, last: VariableTracker | None = None
    ) -> None:
        if self.lookup(key) is None:
            self.missing(evaluator, key)
        entries = self.changed(evaluator)
        hash_key = key.hash_key()
        entry = entries.pop(hash_key)
        rest = dict(entries)
        entries.clear()
        if last is None or operations.truth(evaluator, last):
            entries.update({**rest, hash_key: entry})
        else:
            entries.update({hash_key: entry, **rest})

    # Rebuilding ---------------------------------------------------------------------------------

    @property
    def is_filled(self) -> bool:
        """Tell whether residual code finds the final contents as soon as it has the dict."""
        return self.whole is None if self.source is None else not self.changes

    def names(self, residual: Residual) -> str:
        """Return ``key: value`` pairs as text."""
        return ", ".join(
            f"{key.name_as_key(residual)}: {residual.name_for(value)}"
            for key, value in self.entries.values()
        )

    def rebuild(self, residual: Residual) -> str:
        if self.cls is dict:
            return f"{{{self.names(residual)}}}"
        return f"{residual.reference(self.cls)}({{{self.names(residual)}}})"

    def mutation(self, residual: Residual, name: str) -> list[str]:
        contents = residual.bind(f"{{{self.names(residual)}}}", "contents")
        return [f"{name}.clear()", f"{name}.update({contents})"]


class DefaultDictVariable(DictVariable):
    """A `collections.defaultdict`."""

    def __init__(
        self, entries: Iterable[Entry] = (), factory: VariableTracker = NONE, **options: Any
    ) -> None:
        super().__init__(entries, defaultdict, **options)
        self.factory = factory

    def is_constant(self) -> bool:
        return False

    def make(self, entries: Iterable[Entry]) -> DictVariable:
        return DefaultDictVariable(entries, self.factory)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "default_factory":
            return self.factory
        return super().get_attribute(evaluator, name)

    def missing(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        if isinstance(self.factory, ConstantVariable):
            return super().missing(evaluator, key)
        value = self.factory.call(evaluator, [], {})
        self.store(evaluator, key, value)
        return value

    def rebuild(self, residual: Residual) -> str:
        factory = residual.name_for(self.factory)
        return f"{residual.reference(defaultdict)}({factory}, {{{self.names(residual)}}})"


def entries_of(evaluator: Evaluator, value: VariableTracker | None) -> list[Entry]:
    """Return the entries that ``dict(value)`` would have, for a mapping or an iterable of pairs."""
    if value is None:
        return []
    container = getattr(value, "container", value)
    if isinstance(container, DictVariable):
        return container.pairs()
    if hasattr(value.python_type(), "keys"):
        keys = operations.iterate(evaluator, value.call_method(evaluator, "keys", [], {}))
        return [(key, operations.get_item(evaluator, value, key)) for key in keys]
    return [_pair(evaluator, item) for item in operations.iterate(evaluator, value)]


def _pair(evaluator: Evaluator, item: VariableTracker) -> Entry:
    parts = operations.iterate(evaluator, item)
    if len(parts) != 2:
        message = f"dictionary update sequence element has length {len(parts)}; 2 is required"
        raise_observed(ValueError, message)
    return parts[0], parts[1]


def dict_of_names(values: dict[str, VariableTracker]) -> DictVariable:
    """Return a new dict with string keys, such as ``**kwargs``."""
    return DictVariable((ConstantVariable(name), value) for name, value in values.items())


def _wrap_dict(value: dict[Any, Any]) -> DictVariable:
    return DictVariable(((literal(k), literal(v)) for k, v in value.items()), type(value))


register_literal(dict, _wrap_dict)
register_literal(OrderedDict, _wrap_dict)
register_literal(MappingProxyType, lambda v: MappingProxyVariable(_wrap_dict(dict(v))))
