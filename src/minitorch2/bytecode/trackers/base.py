"""The base class of all symbolic values.

Every Python value that the evaluator meets is represented by a `VariableTracker`. It holds the
known facts of the value, the source that it came from (`source`), and the guards that these facts
depend on (`guards`). Operations on values are methods of trackers. A tracker that cannot model an
operation raises `UnsupportedError` through `unsupported`, which ends the graph at that instruction
and never gives a wrong answer. PyTorch 2 paper, sections 3.4 and 3.5.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.errors import UnsupportedError
from minitorch2.graph.containers import items_in
from minitorch2.graph.node import Argument


def unsupported(code: str, cause: str, fix: str = "") -> NoReturn:
    """Say that capture cannot model something: a graph break with a stable reason code.

    Args:
        code: stable name of the reason, such as ``"data-dependent-branch"``.
        cause: the event, in the user's terms.
        fix: the change that the user can make, if there is one.
    """
    raise UnsupportedError(code=code, cause=cause, fix=fix)


def _trackers_in(value: object) -> Iterator[VariableTracker]:
    """Yield the trackers in a field of a tracker."""
    if isinstance(value, VariableTracker):
        yield value
    for part in items_in(value):
        yield from _trackers_in(part)


class VariableTracker:
    """A Python value, as far as it is known while a frame is evaluated symbolically.

    Trackers are mutable where the value is: two names for one list share one tracker, so identity
    of trackers is identity of values.

    Attributes:
        is_key: whether its identity was looked up among those of other keys.
        birth: a number that is larger for each tracker that is made later.
    """

    births: ClassVar = itertools.count()
    in_graph: ClassVar[bool] = False
    """True if operators on the value become nodes of the graph (tensors, symbolic numbers)."""
    knows_methods_by_name: ClassVar[bool] = False
    """True if bound methods are modeled by `call_method`, and not by the functions behind them."""

    def __init__(
        self, *, source: Source | None = None, guards: frozenset[Guard] = frozenset()
    ) -> None:
        self.source = source
        self.guards = guards
        self.is_key = False
        self.birth = next(self.births)

    # Kind of the value --------------------------------------------------------------------------

    def python_type(self) -> type:
        """Return the class that ``type(value)`` would return."""
        return unsupported("unknown-type", f"the type of {self} is not known")

    def is_constant(self) -> bool:
        """Return whether `as_constant` will succeed."""
        return False

    def as_constant(self) -> Any:  # the one place where a user's value comes back untyped
        """Return the value itself, when it is fully known while capturing."""
        return unsupported("not-a-constant", f"{self} is not a constant")

    def is_foldable(self) -> bool:
        """Return whether `as_constant` will succeed, be it by a guard that fixes the value."""
        return self.is_constant()

    def as_argument(self) -> Argument:
        """Return the value as an argument of a node: a Node, a constant, or a nest of them."""
        return unsupported("not-a-graph-argument", f"{self} cannot be an argument of a graph node")

    def as_operand(self, evaluator: Evaluator) -> VariableTracker:
        """Return the operand of an operator of PyTorch: a scalar of NumPy is a number."""
        return self

    def as_subscript(self, evaluator: Evaluator) -> VariableTracker:
        """Return the value as a part of a tensor's subscript: an array is a tensor."""
        return self.as_operand(evaluator)

    def hash_key(self) -> Hashable:
        """Return an object that stands for the value as a dict key: equal for equal values.

        The default is identity, for objects whose class inherits ``__hash__`` from `object`.
        """
        rule: object = self.python_type().__hash__
        if rule is not object.__hash__:
            unsupported("hash", f"the hash of {self}")
        self.is_key = True
        return ("object", id(self))

    # Operations on the value --------------------------------------------------------------------

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        """``value(*args, **kwargs)``."""
        return unsupported("call", f"call of {self}")

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """``value.name(*args, **kwargs)``; special methods too (``__getitem__``, ...)."""
        return self.get_attribute(evaluator, name).call(evaluator, args, kwargs)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """``value.name``; raises the user's AttributeError symbolically if there is none."""
        return unsupported("attribute", f"attribute {name!r} of {self}")

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        """``value.name = value``, recorded as a side effect."""
        unsupported("attribute-write", f"write to attribute {name!r} of {self}")

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        """``del value.name``, recorded as a side effect."""
        unsupported("attribute-delete", f"deletion of attribute {name!r} of {self}")

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        """Return the elements of an iteration over the value, when they are known."""
        return unsupported("iteration", f"iteration over {self}")

    def truth(self, evaluator: Evaluator) -> bool:
        """``bool(value)``; it is True if the class says neither how to ask nor a length."""
        cls = self.python_type()
        if hasattr(cls, "__bool__") or hasattr(cls, "__len__"):
            return unsupported("unknown-truth", f"the truth value of {self} is not known")
        return True

    def refers_to(self) -> list[VariableTracker]:
        """Return the values that this one refers to, and so keeps alive, besides attributes."""
        return [part for value in vars(self).values() for part in _trackers_in(value)]

    # How it comes back --------------------------------------------------------------------------

    def reconstruct(self, residual: Residual) -> str:
        """Return a Python expression that gives the value in residual code.

        It is loaded from its source if it has one. `residual` gives names to shared values so that
        identity is kept.
        """
        return self.rebuild(residual) if self.source is None else residual.load(self.source)

    def rebuild(self, residual: Residual) -> str:
        """Return a Python expression that makes the value anew, as it was made while capturing."""
        return unsupported("reconstruct", f"{self} cannot be rebuilt after the graph")

    def name_as_key(self, residual: Residual) -> str:
        """Return its name in residual code, by which it can be hashed."""
        return residual.name_for(self)

    def mutation(self, residual: Residual, name: str) -> list[str]:
        """Return statements that give the container called `name` its final contents, in place."""
        return unsupported("mutation", f"changes to {self} cannot be replayed after the graph")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(source={self.source})"


Arguments = Sequence[VariableTracker]
"""The positional arguments of a call."""
Keywords = Mapping[str, VariableTracker]
"""The keyword arguments of a call."""
