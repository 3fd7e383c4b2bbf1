"""One maker for each kind of value that a program holds, by the name that a failure shows."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import pathlib
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy
import torch

Pair = collections.namedtuple("Pair", "a b")


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Bits(enum.Flag):
    X = 1


class Name(str, enum.Enum):  # noqa: UP042 (StrEnum has another text)
    S = "s"


@dataclasses.dataclass
class Row:
    a: int = 1
    b: list = dataclasses.field(default_factory=lambda: [1])


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    a: int = 1


class Plain:
    """A class without special methods."""

    k = 1

    def __init__(self):
        self.v = 2

    def method(self):
        return self.v

    @property
    def computed(self):
        return 3


class Special:
    """A class with many special methods, one of which refuses."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i >= 2:
            raise IndexError(i)
        return i

    def __contains__(self, other):
        return other == 1

    def __add__(self, other):
        return "add"

    def __radd__(self, other):
        return "radd"

    def __mul__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return True

    def __bool__(self):
        return False

    def __hash__(self):
        return 5

    def __eq__(self, other):
        return isinstance(other, Special)

    def __call__(self, *args):
        return args

    def __iter__(self):
        return iter([7, 8])

    def __index__(self):
        return 1

    def __repr__(self):
        return "SPECIAL"

    def __format__(self, spec):
        return "S" + spec


class EqualToAll:
    __hash__ = None

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


class DerivedInt(int):
    pass


class DerivedStr(str):
    pass


class DerivedList(list):
    pass


class DerivedDict(dict):
    def __missing__(self, key):
        return "missing"


class DerivedTuple(tuple):
    pass


class DerivedSet(set):
    pass


def function(a, b=1):
    return a


LINEAR = torch.nn.Linear(1, 1)

CONSTANTS = (
    None, True, 0, 3, -2, 10**20, 1.5, -0.0, math.nan, math.inf, 2j, "", "abc", "%s %d", b"ab", ...,
    NotImplemented, range(3), slice(0, 2), Color.RED, Number.ONE, Bits.X, Name.S, function, Plain,
    int, len, torch.float32, torch.device("cpu"), torch.strided, torch.Size([2, 3]), math,
    torch.sin, LINEAR, int | None, list[int], typing.Any, re.compile("a"), decimal.Decimal("1.5"),
    fractions.Fraction(1, 2), datetime.timedelta(1), pathlib.PurePosixPath("a/b"),
    numpy.float32(1.5), numpy.int64(3), numpy.bool_(True), (), (1, 2), frozenset({2, 3}),
    Pair(1, 2), Key(), DerivedInt(4), DerivedStr("q"), DerivedTuple((1,)),
)  # fmt: skip
"""Values that no operation changes."""


def labelled() -> collections.OrderedDict[str, int]:
    """Return an ordered dict with an attribute, as `torch.nn.Module.state_dict` does."""
    made = collections.OrderedDict(a=1)
    made.a = 2  # type: ignore[attr-defined]
    return made


MADE: dict[str, Callable[[], Any]] = {
    "[]": list,
    "[1, 2]": lambda: [1, 2],
    "[[1], 'a']": lambda: [[1], "a"],
    "{}": dict,
    "{'a': 1}": lambda: {"a": 1, 2: "b"},
    "{1, 2}": lambda: {1, 2},
    "deque": lambda: collections.deque([1, 2]),
    "OrderedDict": lambda: collections.OrderedDict(a=1),
    "labelled": labelled,
    "defaultdict": lambda: collections.defaultdict(list, {1: [2]}),
    "Counter": lambda: collections.Counter("aab"),
    "Row": Row,
    "Plain": Plain,
    "Special": Special,
    "EqualToAll": EqualToAll,
    "DerivedList": lambda: DerivedList([1]),
    "DerivedDict": lambda: DerivedDict(a=1),
    "DerivedSet": lambda: DerivedSet((1,)),
    "a method": lambda: Plain().method,
    "partial": lambda: functools.partial(function, 1),
    "SimpleNamespace": lambda: types.SimpleNamespace(a=1),
    "mappingproxy": lambda: types.MappingProxyType({1: 2}),
    "keys": lambda: {1: 2}.keys(),
    "items": lambda: {1: 2}.items(),
    "array": lambda: numpy.arange(3.0),
    "an exception": lambda: ValueError("x"),
    "bytearray": lambda: bytearray(b"a"),
    "Generator": torch.Generator,
}

VALUES: dict[str, Callable[[], Any]] = MADE | {
    repr(value): functools.partial(lambda held: held, value) for value in CONSTANTS
}
"""Name of a kind to what makes a value of it."""
