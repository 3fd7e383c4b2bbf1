"""Objects that residual code and guards refer to by private names.

A compiled graph, a continuation, a class to construct, the globals of another module: residual code
cannot reach them from the frame's own variables. Each gets one private name, bound in the scope
that encloses the residual function, so nothing is added to the user's module.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from minitorch2.bytecode.guards.sources import ReferenceSource
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.graph.scope import Scope, identifier


@dataclass
class References:
    """Private names of objects; one object has one name.

    Args:
        scope: all names of the residual function, and of the guards.
        values: the objects by name.
        stand_ins: by its identity, an object that stands in while capturing, and the tracker of the
            object that only residual code makes.
    """

    scope: Scope = field(default_factory=Scope)
    values: dict[str, object] = field(default_factory=dict)
    stand_ins: dict[int, tuple[object, VariableTracker]] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    def name(self, value: object, base: str = "") -> str:
        """Return the private name of an object, such as ``__Linear`` or ``__value_2``."""
        if id(value) not in self._names:
            text = base or str(getattr(value, "__name__", type(value).__name__))
            self.bind("__" + identifier(text).strip("_"), value)
        return self._names[id(value)]

    def stand_for(self, value: object, tracker: VariableTracker) -> None:
        """Let an object stand in for the object that a tracker models."""
        self.stand_ins[id(value)] = value, tracker

    def stands_for(self, value: object) -> VariableTracker | None:
        """Return the tracker that an object stands in for; None for all other objects."""
        known = self.stand_ins.get(id(value))
        return None if known is None else known[1]

    def bind(self, wish: str, value: object) -> str:
        """Give an object a name: the wish, or one like it."""
        return self.replace(self.scope.fresh(wish), value)

    def replace(self, name: str, value: object) -> str:
        """Let a name mean another object than in the user's module."""
        self.values[name] = value
        self._names[id(value)] = name
        return name

    def source(self, value: object, base: str = "") -> ReferenceSource:
        """Return the source of an object that has no path from the frame."""
        return ReferenceSource(self.name(value, base))

    def globals_name(self, namespace: dict[str, object]) -> str:
        """Return the private name of a module's globals."""
        return self.name(namespace, f"globals_of_{namespace.get('__name__', 'module')}")
