"""Each operation of Python on values of each kind, against CPython.

One function holds one operation. It is compiled once, called with values of other kinds in turn,
and called again: its results, the classes of its exceptions, and its arguments afterwards are
CPython's, whether capture knows the operation or leaves it to Python. Another function makes the
values itself.
"""

# The programs under test are written in every style.
# ruff: noqa: UP031, C416

import collections
import copy
import functools
import itertools
import math
import operator
import re
import typing
from collections.abc import Callable
from typing import Any

import numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config
from minitorch2.errors import MinitorchError
from tests.property.kinds_of_values import VALUES, Color, Pair, Plain
from tests.property.test_capture_programs import patient

X = torch.tensor([1.0, -2.0, 3.0])


def in_order(values):
    """A set has no order of its own."""
    return sorted(values, key=repr)


def set_first(a):
    a[0] = 9
    return a


def delete_first(a):
    del a[0]
    return a


def set_item(a, b):
    a[b] = 1
    return a


def update(a, b):
    a.update(b)
    return a


def enter(a):
    with a as entered:
        return entered


def match(a):
    match a:
        case None:
            return "none"
        case [first, second]:
            return "sequence", first, second
        case {"a": value, **rest}:
            return "mapping", value, rest
        case Plain(v=value):
            return "plain", value
        case Pair(1, second):
            return "pair", second
        case int() | float() as number:
            return "number", number
        case str(text):
            return "text", text
        case Color.RED:
            return "red"
        case _:
            return "other"


def throw(a):
    raise a


def count_down(a):
    turns = 0
    while a and turns < 3:
        turns += 1
    return turns


UNARY: dict[str, Callable[[Any], Any]] = {
    f.__name__: f
    for f in (
        bool,
        operator.not_,
        len,
        repr,
        str,
        operator.neg,
        operator.pos,
        operator.invert,
        abs,
        int,
        float,
        complex,
        operator.index,
        round,
        list,
        tuple,
        dict,
        next,
        sorted,
        sum,
        min,
        max,
        any,
        all,
        type,
        callable,
        copy.copy,
        copy.deepcopy,
        chr,
        ord,
        bin,
        hex,
        bytes,
        math.floor,
        math.sqrt,
        math.trunc,
        math.isnan,
        typing.get_origin,
        set_first,
        delete_first,
        enter,
        match,
        throw,
        count_down,
    )
} | {
    "hash": lambda a: hash(a) == hash(a),
    "f'{a}'": lambda a: f"{a}",
    "f'{a:>8}'": lambda a: f"{a:>8}",
    "f'{a!r:.3}'": lambda a: f"{a!r:.3}",
    "'%s|%r'": lambda a: "%s|%r" % (a, a),
    "'%d'": lambda a: "%d" % a,
    "set": lambda a: in_order(set(a)),
    "frozenset": lambda a: in_order(frozenset(a)),
    "for": lambda a: [x for x in a],
    "next(iter)": lambda a: next(iter(a)),
    "enumerate": lambda a: list(enumerate(a)),
    "map": lambda a: list(map(str, a)),
    "[*a]": lambda a: [*a],
    "{**a}": lambda a: {**a},
    "unpack": lambda a: (lambda first, second: (second, first))(*a),
    "a()": lambda a: a(),
    "a(1)": lambda a: a(1),
    "a(b=2)": lambda a: a(b=2),
    "isinstance": lambda a: isinstance(a, (int, str)),
    "abstract": lambda a: [
        isinstance(a, getattr(collections.abc, name))
        for name in ("Sequence", "Mapping", "Hashable", "Iterable", "Callable", "Sized")
    ],
    "is a class of": lambda a: isinstance(1, a),
    "issubclass": lambda a: issubclass(a, int),
    "a[0]": lambda a: a[0],
    "a[-1]": lambda a: a[-1],
    "a[:1]": lambda a: a[:1],
    "a['a']": lambda a: a["a"],
    "a[0, 1]": lambda a: a[0, 1],
    "a[...]": lambda a: a[...],
    "a.a": lambda a: a.a,
    "getattr": lambda a: getattr(a, "b", "none"),
    "hasattr": lambda a: [
        hasattr(a, name)
        for name in ("a", "__len__", "__iter__", "__call__", "__hash__", "shape", "items")
    ],
    "setattr": lambda a: (setattr(a, "new", 1), a.new)[1],
    "delattr": lambda a: delattr(a, "a"),
    "__class__": lambda a: a.__class__,
    "__name__": lambda a: a.__name__,
    "vars": lambda a: dict(vars(a)),
    "is": lambda a: a is a,
    "append": lambda a: (a.append(5), a)[1],
    "pop": lambda a: (a.pop(), a)[1],
    "get": lambda a: a.get("a"),
    "a.items()": lambda a: list(a.items()),
    "count": lambda a: a.count(1),
    "index": lambda a: a.index(1),
    "join": lambda a: "-".join(a),
    "divmod": lambda a: divmod(a, 2),
    "pow": lambda a: pow(a, 2, 3),
    "twice": lambda a: sum([a, a]),
    "key": lambda a: {a: 1}[a],
    "in": lambda a: a in [a],
    "of the list": lambda a: [a, 1].count(a),
    "if": lambda a: 1 if a else 2,
    "and or": lambda a: (a and 1, a or 1),
    "chain": lambda a: list(itertools.chain(a, a)),
    "reduce": lambda a: functools.reduce(operator.add, a),
    "islice": lambda a: list(itertools.islice(a, 1)),
    "Counter": lambda a: collections.Counter(a),
    "deque": lambda a: collections.deque(a, maxlen=1),
    "fromkeys": lambda a: dict.fromkeys(a),
    "torch.tensor": lambda a: torch.tensor(a),
    "X + a": lambda a: X + a,
    "a * X": lambda a: a * X,
    "X[a]": lambda a: X[a],
    "X == a": lambda a: a == X,
    "X.to": lambda a: X.to(a),
    "torch.full": lambda a: torch.full((2,), a),
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    f.__name__: f
    for f in (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
        operator.pow, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor,
        operator.matmul, operator.eq, operator.ne, operator.lt, operator.le, operator.gt,
        operator.ge, operator.contains, operator.getitem, operator.is_, operator.iadd,
        operator.ior, operator.iand, operator.isub, divmod, isinstance, issubclass, min, max,
        format, round, range, math.hypot, math.copysign, math.fmod, math.isclose, set_item, update,
    )
} | {
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
    "getattr": getattr,
    "zip": lambda a, b: list(zip(a, b)),
    "map": lambda a, b: list(map(a, b)),
    "sorted": lambda a, b: sorted([a, b]),
    "equal tuples": lambda a, b: (a, 1) == (b, 1),
    "ordered lists": lambda a, b: [a] < [b],
    "equal dicts": lambda a, b: {"k": a} == {"k": b},
    "a[b:]": lambda a, b: a[b:],
    "or": lambda a, b: a or b,
    "extend": lambda a, b: (a.extend(b), a)[1],
    "a(b)": lambda a, b: a(b),
    "a(*b)": lambda a, b: a(*b),
    "a(**b)": lambda a, b: a(**b),
    "join": lambda a, b: a.join(b),
    "split": lambda a, b: a.split(b),
    "index": lambda a, b: a.index(b),
    "get": lambda a, b: a.get(b, "default"),
    "in a tuple": lambda a, b: a in (b, 1),
    "in a set": lambda a, b: a in {b},
    "in a dict": lambda a, b: a in {b: 1},
    "sum": lambda a, b: sum([a], b),
    "torch.where": lambda a, b: torch.where(X > 0, a, b),
    "clamp": lambda a, b: X.clamp(a, b),
    "alpha": lambda a, b: torch.add(X, a, alpha=b),
}  # fmt: skip

ADDRESS = re.compile(r"0x[0-9a-f]+")


def shown(value: object) -> str:
    """A text that tells values apart, but not their addresses."""
    if isinstance(value, list | tuple | collections.deque):
        return f"{type(value).__name__}[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{type(value).__name__}{{{', '.join(map(shown, value.items()))}}}"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}{in_order(map(shown, value))}"
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return f"{value.dtype}{value.tolist()}"
    return f"{type(value).__name__} {ADDRESS.sub('', repr(value))}"


def outcome(program: Callable[..., Any], values: list[Any]) -> str:
    """The result or the class of the exception, and the arguments afterwards."""
    try:
        result = shown(program(X, *values)[1])
    except MinitorchError:
        raise
    except Exception as error:
        result = type(error).__name__
    return f"{result} of {shown(values)}"


def check(operation: Callable[..., Any], calls: list[tuple[str, ...]]) -> None:
    def given_values(x, *values):
        return x + 1, operation(*values)

    def made_values(x, *makers):
        values = [make() for make in makers]
        return x + 1, (operation(*values), values)

    with config.patch(recompile_limit=20, suppress_errors=False):
        compiled = minitorch2.compile(given_values, backend="eager")
        for kinds in (*calls, calls[0]):
            wanted = outcome(given_values, [VALUES[kind]() for kind in kinds])
            assert outcome(compiled, [VALUES[kind]() for kind in kinds]) == wanted, kinds
        makers = [VALUES[kind] for kind in calls[0]]
        compiled = minitorch2.compile(made_values, backend="eager")
        wanted = outcome(made_values, makers)
        assert outcome(compiled, makers) == wanted, f"made inside: {calls[0]}"


KINDS = st.sampled_from(sorted(VALUES))
PAIRS = st.tuples(KINDS, KINDS) | KINDS.map(lambda kind: (kind, kind))


@patient(300)
@given(st.sampled_from(sorted(UNARY)), st.lists(st.tuples(KINDS), min_size=1, max_size=4))
def test_operations_on_one_value(name, calls):
    check(UNARY[name], calls)


@patient(300)
@given(st.sampled_from(sorted(BINARY)), st.lists(PAIRS, min_size=1, max_size=4))
def test_operations_on_two_values(name, calls):
    check(BINARY[name], calls)
