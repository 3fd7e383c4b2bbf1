"""Instances whose class defines equality, as keys of dicts and elements of sets.

A tracker of a dict is a dict, too, with hash keys as its keys. So the hash key of such an instance
answers ``hash`` and ``==`` by evaluating the user's methods. Lookups, additions and removals then
call them as in CPython.
"""

from __future__ import annotations

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable


class UserKey:
    """The hash key of an instance with a ``__hash__`` of its own.

    Args:
        owner: the instance.
        capture: the methods are evaluated as part of it, each time by its present evaluator.

    Raises:
        UnsupportedError: the hash is not known while capturing, or computing it has effects.
    """

    def __init__(self, owner: VariableTracker, capture: Capture) -> None:
        self.owner, self.capture = owner, capture
        writes = capture.side_effects.writes
        assert capture.evaluator is not None
        found = owner.call_method(capture.evaluator, "__hash__", [], {})
        if not found.is_constant() or capture.side_effects.writes != writes:
            unsupported("hash", f"the hash of {owner} depends on data, or has effects")
        self.value = int(found.as_constant())

    def __hash__(self) -> int:
        return hash(("constant", self.value))  # like the hash of an equal constant

    def __eq__(self, other: object) -> bool:
        evaluator = self.capture.evaluator
        assert evaluator is not None
        match other:
            case UserKey():
                return operations.equal(evaluator, self.owner, other.owner)
            case ("constant", value):
                return operations.equal(evaluator, self.owner, ConstantVariable(value))
            case _:
                return False
