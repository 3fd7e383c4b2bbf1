"""The version of a class, and the guard that a class of the program's has not changed its kind.

CPython gives a class a version, and takes it away when the class or a base of it changes. So one
comparison of two numbers tells that nothing has changed since a guard has last looked closely.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from minitorch2.bytecode.guards.guard import Check, Guard
from minitorch2.bytecode.guards.values import Held
from minitorch2.native.cpython.class_versions import NEVER, SeenClass, Version, unseen, version_of
from minitorch2.native.cpython.guard_machine import Op


def kind_of(cls: type) -> frozenset[tuple[int, str]]:
    """Return the names of special methods and of descriptors that shadow an object's attributes.

    With each comes the place of the class that defines it in the order of base classes.
    """
    order = enumerate(base for base in cls.__mro__ if base is not object)
    return frozenset(
        (place, name)
        for place, base in order
        for name, value in vars(base).items()
        if is_special(name, value) or hasattr(type(value), "__set__")
    )


def is_special(name: str, value: object) -> bool:
    """Return whether an attribute of a class is a special method, or says that there is none."""
    is_method = value is None or callable(value) or hasattr(type(value), "__get__")
    return is_method and name.startswith("__") and name.endswith("__")


@dataclass(frozen=True)
class ClassMatch(Guard):
    """A class has the same special methods and descriptors; other guards look at their values.

    Attributes:
        held: the class.
        names: its `kind_of`.
        seen: the version at which the guard has last looked.
    """

    KIND = "CLASS_MATCH"
    held: Held
    names: frozenset[tuple[int, str]]
    seen: Version = field(default_factory=unseen, compare=False, repr=False)

    def kind_now(self) -> list[tuple[int, str]]:
        """Return the `kind_of` the class, sorted; note the version if the guard holds."""
        cls: Any = self.held.get()
        version, names = version_of(cls), kind_of(cls)
        self.seen.value = version if version and names == self.names else NEVER
        return sorted(names)

    def checks(self) -> Iterable[Check]:
        unless = SeenClass(self.held.get, self.seen)
        return (Check("kind", Op.STATE, sorted(self.names), self.kind_now, unless),)
