"""Sets and frozen sets.

The order of elements depends on how a set came about. So a real set does the work if all elements
are constants.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set
from functools import partial
from typing import Any, Final

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ComparedVariable, Model
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NOT_IMPLEMENTED,
    ConstantVariable,
    literal,
    register_literal,
)
from minitorch2.bytecode.trackers.python_values.dict_views import DictViewVariable
from minitorch2.bytecode.trackers.python_values.identity import key_among
from minitorch2.bytecode.trackers.python_values.iterator import GuardedIterator

Members = dict[Hashable, VariableTracker]
_OPERATORS: Final = {
    "__or__": "union", "__and__": "intersection", "__sub__": "difference",
    "__xor__": "symmetric_difference", "__ior__": "update", "__iand__": "intersection_update",
    "__isub__": "difference_update", "__ixor__": "symmetric_difference_update",
}  # fmt: skip
"""Operators and the methods that do the same; an operator takes sets alone."""


class SetVariable(ComparedVariable):
    """A set or, with `cls`, a frozenset.

    Args:
        elements: trackers of its elements.
        real: a set of these constants that has the order of the one that is modelled.
    """

    def __init__(
        self,
        elements: Iterable[VariableTracker] = (),
        cls: type = set,
        real: Set[Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.real = real
        self.members: Members = {}
        for element in elements:
            self.members.setdefault(element.hash_key(), element)
        self.initial = dict(self.members)
        self.cls = cls

    def __repr__(self) -> str:
        return f"SetVariable(length={len(self.members)}, source={self.source})"

    def python_type(self) -> type:
        return self.cls

    def hash_key(self) -> Hashable:
        if self.cls is set:
            raise_observed(TypeError, "unhashable type: 'set'")
        return ("frozenset", frozenset(self.members))

    def is_constant(self) -> bool:
        return all(element.is_constant() for element in self.members.values())

    def as_constant(self) -> Any:
        if self.real is not None:
            return self.real
        return self.cls(element.as_constant() for element in self.members.values())

    def truth(self, evaluator: Evaluator) -> bool:
        return bool(self.members)

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        """Return the elements in the order of iteration over a real set of these constants."""
        if not self.is_constant():
            return list(self.members.values())
        return [literal(value) for value in self.as_constant()]

    def changed(self, evaluator: Evaluator) -> Members:
        """Record a change that is about to happen; return the members."""
        self.record_change(evaluator)
        self.real = None
        return self.members

    def py___len__(self, evaluator: Evaluator) -> VariableTracker:
        return ConstantVariable(len(self.members))

    def py___iter__(self, evaluator: Evaluator) -> VariableTracker:
        message = "Set changed size during iteration"
        return GuardedIterator(self, self.items(evaluator), lambda: self.members.values(), message)

    def py___contains__(self, evaluator: Evaluator, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(self._sought(item) in self.members)

    def _sought(self, item: VariableTracker) -> Hashable:
        """Return the key of an item that may be a member; a set is sought as a frozen set."""
        if isinstance(item, SetVariable) and item.cls is set:
            item = SetVariable(item.members.values(), frozenset)
        return key_among(item, self.members)

    def py_copy(self, evaluator: Evaluator) -> VariableTracker:
        return SetVariable(self.members.values(), self.cls)

    def py_add(self, evaluator: Evaluator, item: VariableTracker) -> None:
        key = key_among(item, self.members)
        self.changed(evaluator).setdefault(key, item)

    def py_discard(self, evaluator: Evaluator, item: VariableTracker) -> None:
        key = self._sought(item)
        self.changed(evaluator).pop(key, None)

    def py_remove(self, evaluator: Evaluator, item: VariableTracker) -> None:
        if self._sought(item) not in self.members:
            raise ObservedError(KeyError, (item.as_constant(),) if item.is_constant() else ())
        self.py_discard(evaluator, item)

    def py_pop(self, evaluator: Evaluator) -> VariableTracker:
        if not self.members:
            raise_observed(KeyError, "pop from an empty set")
        first = self.items(evaluator)[0]
        self.py_discard(evaluator, first)
        return first

    def py_clear(self, evaluator: Evaluator) -> None:
        self.changed(evaluator).clear()

    def py_update(self, evaluator: Evaluator, *others: VariableTracker) -> None:
        for other in others:
            for item in operations.iterate(evaluator, other):
                self.py_add(evaluator, item)

    # Algebra ------------------------------------------------------------------------------------

    def _of_constants(self, name: str, others: Sequence[VariableTracker]) -> VariableTracker | None:
        """Return the method's result if all operands are sets of constants; else None."""
        if not all(isinstance(o, SetVariable) and o.is_constant() for o in (self, *others)):
            return None
        return literal(getattr(self.as_constant(), name)(*(o.as_constant() for o in others)))

    def py_union(self, evaluator: Evaluator, *others: VariableTracker) -> VariableTracker:
        if (known := self._of_constants("union", others)) is not None:
            return known
        result = SetVariable(self.members.values())
        result.py_update(evaluator, *others)
        result.cls = self.cls
        return result

    def py_intersection(self, evaluator: Evaluator, *others: VariableTracker) -> VariableTracker:
        if (known := self._of_constants("intersection", others)) is not None:
            return known
        kept = self.members
        for other in others:
            kept = _common(kept, members_of(evaluator, other), isinstance(other, SetVariable))
        return SetVariable(kept.values(), self.cls)

    def py_difference(self, evaluator: Evaluator, *others: VariableTracker) -> VariableTracker:
        if (known := self._of_constants("difference", others)) is not None:
            return known
        kept = self.members
        for other in others:
            keys = members_of(evaluator, other)
            kept = {key: value for key, value in kept.items() if key not in keys}
        return SetVariable(kept.values(), self.cls)

    def py_symmetric_difference(
        self, evaluator: Evaluator, other: VariableTracker
    ) -> VariableTracker:
        if (known := self._of_constants("symmetric_difference", [other])) is not None:
            return known
        theirs = members_of(evaluator, other)
        mine = [value for key, value in self.members.items() if key not in theirs]
        added = [value for key, value in theirs.items() if key not in self.members]
        return SetVariable([*added, *mine], self.cls)

    def py_issubset(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.members.keys() <= members_of(evaluator, other).keys())

    def py_issuperset(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.members.keys() >= members_of(evaluator, other).keys())

    def py_isdisjoint(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.members.keys().isdisjoint(members_of(evaluator, other)))

    def _become(self, evaluator: Evaluator, *others: VariableTracker, method: str) -> None:
        """Take over the members of what a method gives; its own keep their order."""
        result = self.call_method(evaluator, method, others, {})
        assert isinstance(result, SetVariable)
        kept = {k: v for k, v in (self.members | result.members).items() if k in result.members}
        members = self.changed(evaluator)
        members.clear()
        members.update(kept)

    def model(self, name: str) -> Model | None:
        method = _OPERATORS.get(name)
        if name.endswith("_update"):
            return partial(self._become, method=name.removesuffix("_update"))
        return partial(self._operate, method=method) if method else super().model(name)

    def _operate(
        self, evaluator: Evaluator, other: VariableTracker, method: str
    ) -> VariableTracker:
        if not isinstance(other, SetVariable | DictViewVariable):
            return NOT_IMPLEMENTED
        result = self.call_method(evaluator, method, [other], {})
        return self if method.endswith("update") else result

    def compare(self, evaluator: Evaluator, other: VariableTracker, symbol: str) -> VariableTracker:
        if isinstance(other, DictViewVariable) and other.view != "values":
            other = SetVariable(other.owner.keys() if other.view == "keys" else other.pairs())
        if not isinstance(other, SetVariable):
            return NOT_IMPLEMENTED
        function = operations.COMPARISONS[symbol][2]
        return ConstantVariable(function(self.members.keys(), other.members.keys()))

    # Rebuilding ---------------------------------------------------------------------------------

    def rebuild(self, residual: Residual) -> str:
        names = ", ".join(element.name_as_key(residual) for element in self.members.values())
        return f"{residual.reference(self.cls)}([{names}])"

    def mutation(self, residual: Residual, name: str) -> list[str]:
        """Take out old members and put in new ones: the rest keeps its order."""
        gone, new = _without(self.initial, self.members), _without(self.members, self.initial)
        return [
            f"{name}.{method}({self._bound(residual, elements)})"
            for method, elements in (("difference_update", gone), ("update", new))
            if elements
        ]

    def _bound(self, residual: Residual, elements: Members) -> str:
        names = ", ".join(element.name_as_key(residual) for element in elements.values())
        return residual.bind(f"[{names}]", "contents")


def _without(members: Members, others: Members) -> Members:
    """Return the members that are not the same ones among the others."""
    return {k: v for k, v in members.items() if k not in others or not _is_same(v, others[k])}


def _is_same(one: VariableTracker, other: VariableTracker) -> bool:
    """Return whether equal elements cannot be told apart."""
    if isinstance(one, ConstantVariable) and isinstance(other, ConstantVariable):
        return type(one.value) is type(other.value)
    return one is other


def members_of(evaluator: Evaluator, value: VariableTracker) -> Members:
    """Return the elements of any iterable by hash key."""
    if isinstance(value, SetVariable):
        return value.members
    return {item.hash_key(): item for item in operations.iterate(evaluator, value)}


def _common(mine: Members, theirs: Members, is_set: bool) -> Members:
    """Return members of both; of equal ones, the operand's over which CPython iterates."""
    if is_set and len(theirs) > len(mine):
        mine, theirs = theirs, mine
    return {key: value for key, value in theirs.items() if key in mine}


register_literal(set, lambda v: SetVariable([literal(x) for x in v], set, v))
register_literal(frozenset, lambda v: SetVariable([literal(x) for x in v], frozenset, v))
