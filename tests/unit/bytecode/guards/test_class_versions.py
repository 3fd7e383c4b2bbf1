"""Special methods and descriptors that a program gives to a class after it has been compiled."""

import copy
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

import minitorch2
from minitorch2 import stages

X = torch.ones(3)


class Other:
    v = 70


OTHER = Other()


def attempt(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (TypeError, KeyError, IndexError):
        return 9


def written(o: Any) -> Any:
    o.v = 3
    return o.v


def deleted(o: Any) -> bool:
    o.v = 3
    del o.v
    return hasattr(o, "v")


LATER: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "__getattribute__": (lambda o: o.v, lambda self, name: 40),
    "__getattr__": (lambda o: getattr(o, "w", 1), lambda self, name: 40),
    "__setattr__": (written, lambda self, name, value: self.__dict__.update(v=50)),
    "__delattr__": (deleted, lambda self, name: None),
    "w": (lambda o: getattr(o, "w", 1), 40),
    "v": (lambda o: o.v, property(lambda self: 40, lambda self, value: None)),
    "m": (lambda o: o.m(), lambda self: 33),
    "__eq__": (lambda o: o == 3, lambda self, other: True),
    "__ne__": (lambda o: o != 3, lambda self, other: False),
    "__hash__": (lambda o: hash(o) == 7, lambda self: 7),
    "__bool__": (lambda o: 1 if o else 2, lambda self: False),
    "__len__": (lambda o: 1 if o else 2, lambda self: 0),
    "__call__": (callable, lambda self: 0),
    "__contains__": (lambda o: attempt(lambda: 3 in o), lambda self, item: True),
    "__iter__": (lambda o: attempt(lambda: sum(o)), lambda self: iter([4])),
    "__getitem__": (lambda o: attempt(lambda: o[2]), lambda self, index: index),
    "__add__": (lambda o: attempt(lambda: o + 1), lambda self, other: 40),
    "__radd__": (lambda o: attempt(lambda: 1 + o), lambda self, other: 40),
    "__index__": (lambda o: attempt(lambda: [1, 2, 3][o]), lambda self: 2),
    "__float__": (lambda o: attempt(lambda: float(o)), lambda self: 2.0),
    "__dir__": (lambda o: "zz" in dir(o), lambda self: ["zz"]),
    "__copy__": (lambda o: copy.copy(o).v, lambda self: OTHER),
    "__init__": (lambda o: type(o)().__dict__.get("v", 0), lambda self: written(self) and None),
    "__init_subclass__": (
        lambda o: getattr(type("Derived", (type(o),), {}), "q", 0),
        classmethod(lambda cls: setattr(cls, "q", 9)),
    ),
    "__class_getitem__": (lambda o: attempt(lambda: type(o)[3]), classmethod(lambda c, i: i)),
    "__torch_function__": (lambda o: hasattr(o, "__torch_function__"), classmethod(written)),
}


def new_classes() -> tuple[type, Any]:
    class Base:
        def m(self) -> int:
            return 2

    class Derived(Base):
        def __init__(self) -> None:
            self.v = 1

    return Base, Derived


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("name", LATER)
def test_what_a_class_is_given_later_is_noticed(name: str, inside: bool) -> None:
    read, value = LATER[name]
    base, derived = new_classes()
    for holder in (base, derived):
        made = derived()

        def program(x: Any, made: Any = made) -> Any:
            return x + read(derived() if inside else made)

        fast = minitorch2.compile(program, backend="eager")
        for _ in range(2):
            assert torch.equal(fast(X), program(X))
            with mock.patch.object(holder, name, value, create=True):
                assert torch.equal(fast(X), program(X))


def test_other_attributes_of_classes_compile_nothing_again() -> None:
    """The version of a class changes with each write; only its special methods matter."""
    _, derived = new_classes()
    fast = minitorch2.compile(lambda x: x + derived().m(), backend="eager", fullgraph=True)
    with stages.collect() as log:
        for number in range(4):
            derived.calls = number
            assert torch.equal(fast(X), X + 2)
    assert log.counts["graphs"] == 1


def test_a_metaclass_is_given_a_check_later() -> None:
    class Meta(type):
        pass

    class Kind(metaclass=Meta):
        pass

    fast = minitorch2.compile(lambda x: x + isinstance(x, Kind), backend="eager")
    assert torch.equal(fast(X), X)
    with mock.patch.object(Meta, "__instancecheck__", lambda cls, value: True, create=True):
        assert torch.equal(fast(X), X + 1)
    assert torch.equal(fast(X), X)
