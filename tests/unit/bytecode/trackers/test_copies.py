"""`copy.copy` and `copy.deepcopy` inside captured code."""

import copy
import enum

import torch

import minitorch2
from tests.unit.bytecode.trackers.program import check

X = torch.arange(3.0)


class Shade(enum.Enum):
    LIGHT = 1


class Settings:
    """Like a model's configuration: plain attributes, its own writes, reads and properties."""

    def __init__(self):
        self.sizes, self.shade, self.names = [1, 2], Shade.LIGHT, {"a": (1, [2])}
        self.shared = self.sizes

    def __setattr__(self, name, value):
        super().__setattr__(name, value)

    @property
    def total(self):
        return sum(self.sizes)


def test_deepcopy_of_an_object_with_plain_attributes():
    """Configurations of transformers are copied in the forward of T5."""

    def program(x, settings):
        other = copy.deepcopy(settings)
        other.sizes.append(3)
        other.added = 4
        return x * other.total, settings.total, other.shade is settings.shade, other.names

    check(program, X, Settings())


def test_copies_that_live_on_keep_what_they_share():
    def program(x, settings):
        other = copy.deepcopy(settings)
        return x + 1, other, other.shared is other.sizes, other.sizes is settings.sizes

    check(program, X, Settings())
    _, other, *facts = minitorch2.compile(program, backend="eager")(X, Settings())
    assert facts == [True, False]
    other.shared.append(5)
    assert (type(other), other.sizes, other.shade) == (Settings, [1, 2, 5], Shade.LIGHT)


def test_shallow_copy_of_an_object_shares_its_attributes():
    def program(x, settings):
        other = copy.copy(settings)
        other.sizes.append(3)
        other.shade = None
        return x + 1, settings.sizes, settings.shade is None

    check(program, X, Settings())


class Doubling:
    def __init__(self, value):
        self.value = value

    def __deepcopy__(self, memo):
        return Doubling(self.value * 2)


def test_a_class_with_its_own_deepcopy_is_asked():
    check(lambda x, box: x + copy.deepcopy(box).value, X, Doubling(2))


def test_an_attribute_that_the_copy_read_is_guarded():
    compiled = minitorch2.compile(lambda x, box: x * copy.deepcopy(box).total, backend="eager")
    settings = Settings()
    assert torch.equal(compiled(X, settings), X * 3)
    settings.sizes[0] = 5
    assert torch.equal(compiled(X, settings), X * 7)


def test_numbers_that_vary_are_their_own_copies():
    compiled = minitorch2.compile(
        lambda x, part: (x * copy.deepcopy({"n": [x.shape[0]]})["n"][0], copy.copy(part)),
        backend="eager",
        dynamic=True,
        fullgraph=True,
    )
    for n in range(2, 9):
        y, part = compiled(torch.ones(n), f"part {n}")
        assert torch.equal(y, torch.full((n,), float(n))) and part == f"part {n}"
