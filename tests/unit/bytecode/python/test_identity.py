"""Code captured with different objects is not run with one, nor the other way round."""

import operator

import pytest
import torch

import minitorch2

X = torch.zeros(2)


class Thing:
    pass


FINDS = {
    "is": lambda one, other: one is other,
    "operator.is_": operator.is_,
    "operator.is_not": lambda one, other: not operator.is_not(one, other),
    "==": lambda one, other: one == other,
    "__eq__": lambda one, other: one.__eq__(other) is True,
    "in a list": lambda one, other: one in [other],
    "index of a tuple": lambda one, other: (one, other).index(other) == 0,
    "in a set": lambda one, other: one in {other},
    "in a dict": lambda one, other: one in {other: 1},
    "set of both": lambda one, other: len({one, other}) == 1,
    "dict of both": lambda one, other: len({one: 1, other: 2}) == 1,
    "tuples as keys": lambda one, other: (one, 1) in {(other, 1)},
    "bound methods": lambda one, other: one.__init__ == other.__init__,
}


@pytest.mark.parametrize("same", FINDS.values(), ids=FINDS.keys())
@pytest.mark.parametrize("make", [Thing, torch.nn.Identity], ids=["object", "module"])
def test_code_for_different_objects_is_not_run_with_one(same, make):
    def choose(x, one, other):
        return x + 1 if same(one, other) else x - 1

    compiled = minitorch2.compile(choose, backend="eager")
    a, b = make(), make()
    for pair in ((a, b), (b, b), (a, a), (b, a)):
        assert torch.equal(compiled(X, *pair), choose(X, *pair))


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, dict.fromkeys])
def test_members_of_containers_from_outside(kind):
    @minitorch2.compile(backend="eager")
    def choose(x, thing, container):
        return x + 1 if thing in container else x - 1

    a, b = Thing(), Thing()
    found = [bool(choose(X, one, kind([other])).sum() > 0) for one in (a, b) for other in (a, b)]
    assert found == [True, False, False, True]
