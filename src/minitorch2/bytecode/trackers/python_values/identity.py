"""The `id` of an object: a number that is known only when the program runs.

Two ids are equal if they are ids of one object. So they can be compared, and be keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.constant import NOT_IMPLEMENTED, ConstantVariable

_ID: Final = "id"
_LEAST_ADDRESS: Final = 1 << 16
"""No object lies below: smaller numbers are not ids."""


class IdentityVariable(VariableTracker):
    """``id(owner)``"""

    def __init__(self, owner: VariableTracker) -> None:
        super().__init__()
        self.owner = owner

    def python_type(self) -> type:
        return int

    def truth(self, evaluator: Evaluator) -> bool:
        return True

    def hash_key(self) -> Hashable:
        self.owner.is_key = True
        return (_ID, id(self.owner))

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        other = args[0] if args else None
        if name in ("__eq__", "__ne__") and isinstance(other, IdentityVariable):
            is_same = operations.identical(evaluator, self.owner, other.owner)
            return ConstantVariable(is_same == (name == "__eq__"))
        if name in ("__eq__", "__ne__") and other is not None and other.python_type() is not int:
            return NOT_IMPLEMENTED
        return unsupported("identity", f"the id of {self.owner} is not known while capturing")

    def reconstruct(self, residual: Residual) -> str:
        return f"{residual.reference(id)}({residual.name_for(self.owner)})"


def key_among(key: VariableTracker, others: Iterable[Hashable]) -> Hashable:
    """Return the hash key of a value that is looked up among others, or joins them.

    Raises:
        UnsupportedError: it has an id, and the others have a number that may be the same, or the
            other way round: ids are known only when the program runs.
    """
    found = key.hash_key()
    kinds = {*_kinds(found)}
    if kinds and len(kinds.union(*map(_kinds, others))) > 1:
        unsupported("identity", "an id is looked up among numbers that may be ids")
    return found


def _kinds(key: Hashable) -> Iterator[str]:
    """Yield the kinds of parts in a hash key: ids, and numbers that may be ids."""
    match key:
        case ("id", _):
            yield _ID
        case ("constant", int() as number) if number >= _LEAST_ADDRESS:
            yield "number"
        case tuple():
            for part in key:
                yield from _kinds(part)
        case _:
            pass
