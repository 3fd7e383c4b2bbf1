"""Iterators over a dict, its three views, and read-only proxies.

All of them are live: they look at the dict when they are read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NOT_IMPLEMENTED,
    ConstantVariable,
    fold,
)
from minitorch2.bytecode.trackers.python_values.iterator import IteratorVariable, advance
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words

if TYPE_CHECKING:
    from minitorch2.bytecode.trackers.python_values.mapping import DictVariable


class DictIterator(IteratorVariable):
    """An iterator over the keys, values or items of a dict, looked up when they are reached.

    Args:
        owner: the dict.
        view: the name of the dict's view.
        start: ``iter`` or ``reversed``.
    """

    def __init__(self, owner: DictVariable, view: str, start: Callable[[Any], Any]) -> None:
        super().__init__()
        self.owner, self.view, self.start = owner, view, start
        self.keys, self.changes, self.position = list(owner.entries), owner.changes, 0

    @property
    def message(self) -> str:
        """CPython's error message when keys come or go."""
        if self.owner.cls is OrderedDict:
            return "OrderedDict mutated during iteration"
        return "dictionary changed size during iteration"

    def python_type(self) -> type:
        return type(self.start(getattr(self.owner.cls(), self.view)()))

    def next(self, evaluator: Evaluator) -> VariableTracker:
        if self.changes != self.owner.changes:
            self._check_keys()
        if self.position >= len(self.keys):
            raise_observed(StopIteration)
        at = self.position if self.start is iter else -1 - self.position
        self.position += 1
        key, _ = self.owner.entries[self.keys[at]]
        value = self.owner.lookup(key)
        assert value is not None
        return {"keys": key, "values": value}.get(self.view) or TupleVariable((key, value))

    def _check_keys(self) -> None:
        """Raise CPython's error if keys were added or removed since the iteration began."""
        if list(self.owner.entries) == self.keys:
            self.changes = self.owner.changes
        elif self.owner.cls is OrderedDict:
            if self.position < len(self.keys):
                raise_observed(RuntimeError, self.message)
        elif len(self.owner.entries) != len(self.keys):
            raise_observed(RuntimeError, self.message)
        else:
            unsupported("changed-while-iterated", "a dict's keys change while it is iterated over")

    def py___length_hint__(self, evaluator: Evaluator) -> VariableTracker:
        return ConstantVariable(len(self.keys) - self.position)

    def reconstruct(self, residual: Residual) -> str:
        now = list(self.owner.entries)
        if len(now) == len(self.keys) and now != self.keys:
            unsupported("changed-while-iterated", "a dict's keys change while it is iterated over")
        view = f"{residual.name_for(self.owner)}.{self.view}()"
        start = residual.reference(self.start)
        if now == self.keys and self.owner.is_filled:
            return f"{residual.reference(advance)}({start}({view}), {self.position})"
        made = residual.reference(remaining)
        return f"{made}({view}, {start}, {self.position}, {len(self.keys)}, {self.message!r})"


def remaining(
    view: Collection[Any], start: Callable[[Any], Iterator[Any]], done: int, size: int, message: str
) -> Iterator[Any]:
    """Yield the rest of an iteration over a dict of `size` entries, of which `done` were passed.

    A generator begins at its first step: then the dict has its final contents.
    """
    if len(view) != size:
        raise RuntimeError(message)
    yield from advance(start(view), done)


class DictViewVariable(ModeledVariable):
    """``d.keys()``, ``d.values()`` or ``d.items()``: a live view."""

    def __init__(self, owner: DictVariable, kind: str) -> None:
        super().__init__()
        self.owner = owner
        self.view = kind

    def python_type(self) -> type:
        return type(getattr(self.owner.python_type()(), self.view)())

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        if self.view == "keys":
            return self.owner.keys()
        return self.owner.values() if self.view == "values" else self.pairs()

    def pairs(self) -> list[VariableTracker]:
        """Return the entries as tuples."""
        return [TupleVariable(pair) for pair in self.owner.pairs()]

    def truth(self, evaluator: Evaluator) -> bool:
        return bool(self.owner.entries)

    def py___len__(self, evaluator: Evaluator) -> VariableTracker:
        return ConstantVariable(len(self.owner.entries))

    def py___iter__(self, evaluator: Evaluator) -> VariableTracker:
        return DictIterator(self.owner, self.view, iter)

    def py___reversed__(self, evaluator: Evaluator) -> VariableTracker:
        return DictIterator(self.owner, self.view, reversed)

    def py___contains__(self, evaluator: Evaluator, item: VariableTracker) -> VariableTracker:
        if self.view == "keys":
            return self.owner.py___contains__(evaluator, item)
        found = any(operations.equal(evaluator, e, item) for e in self.items(evaluator))
        return ConstantVariable(found)

    def call_unmodeled(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if self.view == "values" or name not in (*_ALGEBRA, *_SET_COMPARISONS):
            return super().call_unmodeled(evaluator, name, args, kwargs)
        if name in _SET_COMPARISONS and not issubclass(args[0].python_type(), Set):
            return NOT_IMPLEMENTED
        make_set = evaluator.capture.wrap(set, None)
        mine, other = (make_set.call(evaluator, [value], {}) for value in (self, args[0]))
        if name.startswith("__r"):
            mine, other, name = other, mine, name.replace("__r", "__")
        return mine.call_method(evaluator, name, [other], kwargs)

    def reconstruct(self, residual: Residual) -> str:
        return f"{residual.name_for(self.owner)}.{self.view}()"


_ALGEBRA = words("__and__ __or__ __sub__ __xor__ __rand__ __ror__ __rsub__ __rxor__ isdisjoint")
_SET_COMPARISONS = words("__eq__ __ne__ __lt__ __le__ __gt__ __ge__")


class MappingProxyVariable(ModeledVariable):
    """A `types.MappingProxyType`: read-only view of a dict."""

    def __init__(self, owner: DictVariable, **options: Any) -> None:
        super().__init__(**options)
        self.owner = owner

    def python_type(self) -> type:
        return MappingProxyType

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        return self.owner.items(evaluator)

    def truth(self, evaluator: Evaluator) -> bool:
        return self.owner.truth(evaluator)

    def py___repr__(self, evaluator: Evaluator) -> VariableTracker:
        return fold("mappingproxy({})".format, [self.py___str__(evaluator)])

    def py___str__(self, evaluator: Evaluator) -> VariableTracker:
        return self.owner.call_method(evaluator, "__repr__", [], {})

    def py___ior__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        message = "'|=' is not supported by mappingproxy; use '|' instead"
        return raise_observed(TypeError, message)

    def call_unmodeled(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if not hasattr(MappingProxyType, name):
            return super().call_unmodeled(evaluator, name, args, kwargs)
        args = [a.owner if isinstance(a, MappingProxyVariable) else a for a in args]
        return self.owner.call_method(evaluator, name, args, kwargs)

    def rebuild(self, residual: Residual) -> str:
        return f"{residual.reference(MappingProxyType)}({residual.name_for(self.owner)})"
