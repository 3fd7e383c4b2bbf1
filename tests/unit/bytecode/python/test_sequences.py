"""Lists, tuples, ranges, slices, deques."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import array
from collections import deque
from typing import Any

import pytest
import torch

from tests.unit.bytecode.python.programs import Case, X, case, expressions

TABLE: list[Any] = []

expressions(
    TABLE,
    """
    [*l, x], [l, l], (l, *t), l + [4], l * 2, 2 * l, l[1:], l[::-1], l[-1], l[:], l[5:], l[::2]
    len(l), 3 in l, 9 not in l, l.index(1), l.count(3), l == [3, 1, 2], l != t, l < [4], l <= l, l > [3]
    sorted(l), sorted(l, reverse=True), sorted(l, key=lambda v: -v), list(reversed(l)), max(l), sum(l), min(l)
    t + (1,), t * 2, t[0], t[1:], t.index("b"), t.count("a"), t == ("a", "b"), t < ("b",), hash(t), len(t), t is tuple(t)
    list(t), tuple(l), list(), tuple(), list("ab"), [].__class__, l.__class__ is list, l.copy() is l, l.copy() == l
    list(range(5)), range(3)[1], range(10)[2:8:3], 4 in range(5), 4.0 in range(5), len(range(0, 10, 3)), range(3) == range(0, 3)
    range(10).index(4), range(10).count(4), range(2, 8, 2).start, range(2, 8, 2).stop, range(2, 8, 2).step, list(reversed(range(3)))
    list(range(5, 0, -2)), bool(range(0)), range(3), hash(range(3)) == hash(range(3)), sum(range(4)), max(range(4)), tuple(range(2))
    slice(1, 2), slice(None, 3).stop, slice(1, 10, 2).indices(5), l[slice(0, 2)], slice(1) == slice(None, 1, None)
    list(zip(l, t)), list(enumerate(t, 1)), list(map(str, l)), list(filter(None, [0, 1])), [a + b for a, b in zip(l, l)]
    any(v > 2 for v in l), all([]), any([]), [v for v in l if v > 1], {v: k for k, v in enumerate(t)}, {v % 2 for v in l}
    [i * j for i in range(2) for j in range(2)], [[j for j in range(i)] for i in range(3)], [y := 3, y + 1], [v for v in (1, 2) for _ in [0]]
    deque([1, 2]), deque(l, maxlen=2), list(deque("ab")), deque([1])[0], len(deque()), deque([1, 2]) == deque([1, 2]), 1 in deque([1])
    deque([1, 2, 3]).index(2), deque([1, 1]).count(1), deque([1]) + deque([2]), deque([1]) * 2, deque(l, 2).maxlen, deque([1]).copy()
    [[]] * 2, [l] * 2, (l, l)[0] is l, [1, 2][True], [None] * 3, [0] * 0, [(), ()], [1, *[2, *[3]]], [*range(2), *"ab"]
    (lambda a, *b: (a, b))(*l), (lambda *a, k=1, **b: (a, k, b))(*t, z=1), max(*l), min(*l, 0), [*map(abs, [-1])]
    [x, x][0] is x, [x] * 2, (x, x + 1)[::-1], [x].index(x), [x].count(x), sum([x, x]), max(l, key=lambda v: -v), x in [x]
    l.__len__(), l.__getitem__(0), l.__contains__(3), list.__len__(l), tuple.__add__(t, t), list.__getitem__(l, 1), t.__iter__().__next__()
    sorted(["b", "A", "c"], key=str.lower), sorted([(1, "b"), (1, "a"), (0, "z")]), sorted([(1, "b"), (1, "a")], key=lambda p: p[0])
    sorted({"b": 1, "a": 2}), sorted([3, 1, 2], key=None), sorted([True, 0, 2.5]), sorted([[2], [1, 5]]), sorted(("b", "a"), reverse=1)
    bytearray(b"ab")  # breaks=1
    array.array("i", [1, 2])  # breaks=1
    memoryview(b"ab")[0]  # breaks=any
    """,
    {"deque": deque, "array": array},
    l=[3, 1, 2],
    t=("a", "b"),
)


@case(TABLE, X, [5, 3, 4])
def every_change_of_a_list(x: torch.Tensor, v: list[Any]) -> Any:
    v.append(x)
    v.extend((1, 2))
    v.insert(1, "i")
    v.insert(-1, "j")
    v.insert(100, "k")
    popped = v.pop(), v.pop(0), v.pop(-2)
    v.remove("i")
    v.reverse()
    v[0] = "first"
    v[-1] = "last"
    v[1:2] = ["a", "b", "c"]
    v[::3] = ["s"] * len(v[::3])
    del v[1]
    del v[1:3]
    v += (7,)
    v *= 2
    return popped, v


@case(TABLE, X, [1, 2, 3, 4, 5, 6])
def slices_assigned_and_deleted(x: torch.Tensor, v: list[Any]) -> Any:
    v[1:3] = []
    v[len(v) :] = [x, x]
    v[:0] = "ab"
    v[2:4] = v
    del v[::2]
    v[:] = [*v, v[0]]
    return x + 1


@case(TABLE, X, [3, 1, 2])
def sort_in_place(x: torch.Tensor, v: list[Any]) -> Any:
    w = v
    v.sort()
    first = v.copy()
    v.sort(key=lambda k: (k % 2, -k), reverse=True)
    return x + 1, w is v, first, v


@case(TABLE, lambda: (X, (lambda a: [a, a, [a]])([1])))
def aliases_inside(x: torch.Tensor, v: list[Any]) -> Any:
    v[0].append(x)
    v[2][0].append(2)
    return v[0] is v[1], v[2][0] is v[1], [v, v[0]]


@case(TABLE, lambda: (lambda a: (X, a, a))([1]))
def the_same_list_twice(x: torch.Tensor, v: list[Any], w: list[Any]) -> Any:
    v.append(2)
    w.append(x)
    return v is w, len(v)


@case(TABLE, X, [1], [1])
def two_lists_that_are_equal(x: torch.Tensor, v: list[Any], w: list[Any]) -> Any:
    v.append(2)
    return v is w, v == w, x + len(w)


@case(TABLE, X, [1, 2])
def a_list_put_into_itself(x: torch.Tensor, v: list[Any]) -> Any:
    v.append(v)
    return x + 1, v[2] is v


@case(TABLE, breaks=None)
def a_new_list_put_into_itself(x: torch.Tensor) -> Any:
    v: list[Any] = [x + 1]
    v.append(v)
    return v


@case(TABLE, X, [1, 2, 3])
def a_list_that_grows_while_iterated(x: torch.Tensor, v: list[int]) -> Any:
    for k in v:
        if len(v) < 6:
            v.append(k * 10)
    return x * len(v)


@case(TABLE, X, [1, 2, 3, 4])
def a_list_that_shrinks_while_iterated(x: torch.Tensor, v: list[int]) -> Any:
    seen = []
    for k in v:
        seen.append(k)
        v.remove(k)
    return x * 2, seen


@case(TABLE)
def errors_of_lists(x: torch.Tensor) -> Any:
    found = []
    for operation in (
        lambda: [][0],
        lambda: [1, 2].pop(5),
        lambda: [].pop(),
        lambda: [1].remove(2),
        lambda: [1].index(2),
        lambda: (1,).index(2),
        lambda: [1, 2].__setitem__(slice(0, 2, 2), [1, 2]),
        lambda: [1][1.0],
        lambda: range(3)[5],
        lambda: range(0, 5, 0),
        lambda: range(1.5),
        lambda: range(3).index(7),
        lambda: deque().pop(),
        lambda: deque().popleft(),
        lambda: deque([1]).remove(4),
        lambda: deque([1])[3],
        lambda: tuple(5),
        lambda: list(5),
        lambda: [1, 2] + None,
        lambda: [].append(),
        lambda: [].append(1, 2),
        lambda: [].extend(4),
        lambda: (1, 2).append(3),
        lambda: deque(maxlen=-1),
        lambda: [3].sort(5),
        lambda: (1, 2) < [1],
        lambda: slice(1, 2).indices("a"),
        lambda: list(1, 2),
        lambda: [].pop("a"),
        lambda: [1, 2].index(3, 0, 1),
    ):
        try:
            operation()
            found.append("no error")
        except Exception as error:
            found.append((type(error), error.args))
    return x + 1, found


@case(TABLE)
def tuples_do_not_change(x: torch.Tensor) -> Any:
    t = (x, [1])
    try:
        t[0] = 2
    except TypeError as error:
        message = str(error)
    try:
        t[1] += [2]
    except TypeError:
        pass
    try:
        del t[0]
    except TypeError as error:
        return t, message, str(error)


@case(TABLE, lambda: (X, deque([1, 2, 3]), deque("abc", maxlen=3)))
def every_change_of_a_deque(x: torch.Tensor, d: deque[Any], m: deque[Any]) -> Any:
    d.append(x)
    d.appendleft(0)
    d.extend([7, 8])
    d.extendleft([9, 10])
    d.rotate(2)
    d.rotate(-1)
    popped = d.pop(), d.popleft()
    d.remove(2)
    d.reverse()
    d.insert(1, "i")
    d[0] = "first"
    del d[1]
    m.append("d")
    m.appendleft("z")
    m.extend("12")
    m += ["q"]
    return popped, list(d), m.maxlen, m


@case(TABLE, lambda: (X, deque([1, 2], maxlen=2)))
def a_full_deque_does_not_insert(x: torch.Tensor, d: deque[Any]) -> Any:
    try:
        d.insert(0, 5)
    except IndexError as error:
        return x + 1, str(error), d * 2, d + d


@case(TABLE, X, [3, 1, 2])
def unpacking(x: torch.Tensor, v: list[int]) -> Any:
    a, b, c = v
    first, *rest = v
    *start, last = v
    p, (q, r), *s = [x, (1, 2), 3, 4]
    [m, n] = "mn"
    (single,) = [x]
    a, b = b, a
    v[0], v[1] = v[1], v[0]
    return a, b, c, first, rest, start, last, p, q, r, s, m, n, single


@case(TABLE)
def unpacking_errors(x: torch.Tensor) -> Any:
    found = []
    for values in ([1], [1, 2, 3], 5, "a", {1: 2}):
        try:
            a, b = values
        except Exception as error:
            found.append((type(error), error.args))
    try:
        a, *b, c = [1]
    except ValueError as error:
        found.append(error.args)
    return x + 1, found


@case(TABLE, lambda: (X, [torch.ones(4), torch.zeros(4)]))
def a_list_of_tensors(x: torch.Tensor, v: list[torch.Tensor]) -> Any:
    v[0] = v[0] + x
    v.append(v[1])
    total = sum(v, start=x)
    return total, v[2] is v[1], [t * 2 for t in v], tuple(v)


class Stack(list):
    def push(self, item: Any) -> Stack:
        self.append(item)
        return self

    def __getitem__(self, index: Any) -> Any:
        return ("got", super().__getitem__(index))


@case(TABLE, lambda: (X, Stack([1])))
def a_subclass_of_list(x: torch.Tensor, s: Stack) -> Any:
    s.push(x).push(3)
    made = Stack((1, 2))
    made.note = "n"
    made += [5]
    return (
        s[0],
        len(s),
        made,
        made[1:],
        isinstance(made, list),
        made == [1, 2, 5],
        sorted(made),
        [v for v in s][0],
    )


class Pair(tuple):
    def __new__(cls, a: Any, b: Any) -> Pair:
        return super().__new__(cls, (a, b))

    @property
    def total(self) -> Any:
        return self[0] + self[1]


@case(TABLE, lambda: (X, Pair(1, 2)))
def a_subclass_of_tuple(x: torch.Tensor, p: Pair) -> Any:
    q = Pair(x, 2)
    a, b = p
    return q.total, p.total, q, p == (1, 2), a, b, len(q), hash(p) == hash((1, 2))


@case(TABLE, X, (1, (2, [3])))
def nested_tuples(x: torch.Tensor, t: Any) -> Any:
    a, (b, [c]) = t
    t[1][1].append(x)
    return a + b + c, t[1][1] is t[1][1], t


def _containing_itself() -> list[Any]:
    made: list[Any] = [1]
    made.append(made)
    return made


@case(TABLE, lambda: (X, _containing_itself()))
def a_list_that_contains_itself(x: torch.Tensor, l: Any) -> Any:
    return x + l[1][1][0], l[1] is l, len(l)


@case(TABLE, lambda: (X, _containing_itself()), breaks=None, code="recursion")
def the_text_of_a_list_that_contains_itself(x: torch.Tensor, l: Any) -> Any:
    return x + 1, repr(l)


@case(TABLE, lambda: (X, _containing_itself(), _containing_itself()), breaks=None)
def comparison_of_lists_that_contain_themselves(x: torch.Tensor, l: Any, m: Any) -> Any:
    y = x + 1
    try:
        return y, l == m
    except RecursionError:
        return y


@case(TABLE, breaks=None)
def new_values_that_contain_themselves(x: torch.Tensor) -> Any:
    l: list[Any] = [x + 1]
    l.append(l)
    d: dict[str, Any] = {"l": l}
    d["d"] = d
    return l, d


@pytest.mark.parametrize("program", TABLE)
def test_sequences(program: Case) -> None:
    program.run()
