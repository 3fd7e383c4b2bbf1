"""Containers: building, reading, changing and rebuilding them leaves no trace of capture."""

# The programs under test are written in every style.
# ruff: noqa: C416, RUF005, RUF015, UP031

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, NamedTuple

import pytest
import torch

import minitorch2
from tests.unit.bytecode.trackers.program import check

X = torch.arange(4.0)
Point = namedtuple("Point", ["x", "y"])


class Pair(NamedTuple):
    left: Any
    right: Any = 5

    def total(self) -> Any:
        return self.left + self.right


def test_lists_made_and_dropped() -> None:
    def program(x: torch.Tensor) -> Any:
        values = [x, x + 1]
        values.append(x + 2)
        values.extend([x * 3, 4])
        values.insert(0, "first")
        last = values.pop()
        values.remove("first")
        values.reverse()
        return sum(values[:2]) * last, len(values), values[-1]

    check(program, X)


def test_list_argument_changed_in_place() -> None:
    def program(x: torch.Tensor, values: list[Any]) -> Any:
        values[0], values[1] = values[1], values[0]
        values.append(x * 2)
        values += [values[0]]
        del values[2]
        return values

    check(program, X, [1, 2, 3])


def test_list_of_tensors_argument() -> None:
    def program(values: list[torch.Tensor]) -> Any:
        return [v + 1 for v in values], values[0] is values[0], values

    check(program, [X, X + 1])


def test_dict_argument_changed_in_place() -> None:
    def program(x: torch.Tensor, d: dict[str, Any]) -> Any:
        d["new"] = x + d.pop("a")
        d.setdefault("b", 3)
        d.update(c=4, b=5)
        return list(d), d["new"], d.get("nothing"), "a" in d, len(d)

    check(program, X, {"a": 1, "z": 2})


def test_dict_views_and_order() -> None:
    def program(x: torch.Tensor) -> Any:
        d = {"one": x, 2: x + 1, (3, 4): "t", None: 0}
        d["one"] = x * 2
        keys = [k for k in d]
        pairs = [(k, v) for k, v in d.items()]
        return (
            d,
            keys,
            pairs,
            list(d.values()),
            dict.fromkeys(d.keys(), 1),
            {**d, "z": 1},
            d | {2: 2},
        )

    check(program, X)


def test_ordered_and_default_dicts() -> None:
    def program(x: torch.Tensor) -> Any:
        o = OrderedDict(a=x, b=1)
        o.move_to_end("a")
        d = defaultdict(list)
        d["k"].append(x + 1)
        return o, d["k"], o.popitem(last=False), dict(d)

    check(program, X)


def test_dict_with_class_and_function_keys() -> None:
    def program(x: torch.Tensor) -> Any:
        table = {int: x + 1, torch.float32: x + 2, torch.relu: x + 3}
        return table[int], table[x.dtype], table[torch.relu]

    check(program, X)


def test_sets() -> None:
    def program(x: torch.Tensor, given: set[int]) -> Any:
        s = {1, 2} | {3}
        s.add(4)
        s.discard(1)
        given.add(9)
        checks = (s & {2, 3}, s - {2}, s ^ {2}, 3 in s, s <= {2, 3, 4, 5}, frozenset(s))
        return x + len(s), s, checks, {y for y in (1, 1, 2)}

    check(program, X, {1, 2})


def test_tuples_and_named_tuples() -> None:
    def program(x: torch.Tensor, p: Any) -> Any:
        q = Point(x, y=2)
        r = Pair(x)
        a, b = p
        (c, *d), e = (1, 2, 3), q._replace(y=7)
        return (
            q,
            r.total(),
            r,
            a + b,
            p.x,
            (x,) + (1,),
            (1, 2) * 2,
            c,
            d,
            e,
            q[0],
            len(q),
            r._fields,
        )

    check(program, X, Point(1, X))


def test_sequence_comparisons_and_membership() -> None:
    def program(x: torch.Tensor) -> Any:
        a, b = [1, 2], (1, 2, 3)
        assert a == [1, 2] and b > (1, 2) and a != [2] and 2 in a and 5 not in b and a <= [1, 2]
        return x + b.index(3) + b.count(1)

    check(program, X)


def test_deque_and_range_and_slice() -> None:
    def program(x: torch.Tensor) -> Any:
        q = deque([1, 2], maxlen=2)
        q.append(x)
        q.appendleft(0)
        s = slice(0, 2)
        r = range(1, 7, 2)
        return q, x[s], list(r), r[1], len(r), 3 in r, s.stop, r[::-1], q.popleft()

    check(program, X)


def test_iterators() -> None:
    def program(x: torch.Tensor) -> Any:
        it = iter([1, 2, 3])
        first = next(it)
        pairs = list(zip("ab", (x, x + 1)))
        mapped = list(map(lambda a, b: a + b, [1, 2], [3, 4]))
        return (
            first,
            list(it),
            next(it, "end"),
            pairs,
            mapped,
            list(enumerate([x], 5)),
            list(filter(None, [0, 1, 2])),
            list(reversed([1, 2])),
            sorted([3, 1, 2], reverse=True),
        )

    check(program, X)


def test_live_iterators_are_rebuilt() -> None:
    def program(x: torch.Tensor) -> Any:
        it = iter([1, 2, x])
        next(it)
        return it, zip([1, 2], (3, 4)), enumerate([x], 2), map(len, [[1]])

    got = check_iterators(program)
    assert [list(i) for i in got[1:]] == [[(1, 3), (2, 4)], [(2, X)], [1]]
    assert list(got[0])[0] == 2


def check_iterators(program: Any) -> Any:
    import minitorch2

    result = minitorch2.compile(program, backend="eager")(X)
    assert [type(i) for i in result] == [type(i) for i in program(X)]
    return result


def test_comprehensions_and_unrolled_loops() -> None:
    def program(x: torch.Tensor) -> Any:
        y = [x * i for i in range(3) if i != 1]
        z = {str(i): i for i in range(2)}
        for i, v in enumerate(y):
            x = x + v * i
        return x, y, z, [a + b for a in (1, 2) for b in (3, 4)]

    check(program, X)


def test_size_objects() -> None:
    def program(x: torch.Tensor) -> Any:
        s = x.shape
        return s, s + (1,), s[:1], torch.Size([2, 2]), s.numel(), tuple(s), x.new_zeros(s), list(s)

    check(program, X)


def test_aliased_arguments_stay_aliased() -> None:
    def program(a: list[int], b: list[int], x: torch.Tensor) -> Any:
        a.append(1)
        return len(b), a is b, x + 1

    shared: list[int] = []
    check(program, shared, shared, X)
    check(program, [], [], X)


def test_aliasing_inside_results_is_kept() -> None:
    def program(x: torch.Tensor) -> Any:
        inner = [x + 1]
        return [inner, inner]

    result = check(program, X)
    assert result[0] is result[1]


@pytest.mark.parametrize(
    "program",
    [
        lambda x: [1, 2][5] + x,
        lambda x: {"a": 1}["b"] + x,
        lambda x: (1, 2).index(9) + x,
        lambda x: [1] < [None],
        lambda x: {}.popitem(),
        lambda x: iter(5),
        lambda x: hash([]),
        lambda x: len(5),
    ],
)
def test_errors_are_the_users(program: Any) -> None:
    def caught(x: torch.Tensor) -> Any:
        y = x * 2
        try:
            program(x)
        except (IndexError, KeyError, ValueError, TypeError) as error:
            return y, type(error).__name__
        return y

    check(caught, X)


def test_strings() -> None:
    def program(x: torch.Tensor, name: str) -> Any:
        parts = f"{name!r}-{1.5:.2f}".split("-")
        text = "-".join([*parts, "%d" % 3, f"{7}"])
        return x + len(text), text.upper(), name.startswith("a"), "b" in name, name[0] * 2, text

    check(program, X, "ab")


def test_numbers() -> None:
    def program(x: torch.Tensor, n: int, f: float) -> Any:
        return (
            x * n**2 // 3 % 5,
            abs(-n),
            divmod(7, n),
            round(f, 1),
            int(f),
            float(n),
            min(n, 3),
            max([1, n]),
            n.bit_length(),
            f.is_integer(),
            complex(n, 1),
            7 & n,
            -n,
            not n,
        )

    check(program, X, 2, 2.55)


def test_dict_that_grows_or_shrinks_while_iterated_raises() -> None:
    """Iterators of dicts used to go over a list of the keys made at their start."""

    def grows(x: torch.Tensor, d: dict[str, Any]) -> Any:
        for key in d:
            d[key + "2"] = x + 1
        return d

    def shrinks(x: torch.Tensor, d: dict[str, Any]) -> Any:
        for _, value in d.items():
            d.popitem()
            x = x + value
        return x

    def caught(x: torch.Tensor) -> Any:
        d = {"a": x + 1}
        try:
            for _ in d.values():
                d.clear()
        except RuntimeError as error:
            return x + 1, str(error)
        return x

    def ordered(x: torch.Tensor) -> Any:
        d = OrderedDict(a=x + 1, b=x + 2)
        for _ in d:
            d["c"] = x

    for program in (grows, shrinks):
        with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
            program(X, {"a": 1, "b": 2})
        check(program, X, {"a": 1, "b": 2}, graphs=None, breaks=None)
    check(caught, X)
    check(ordered, X, graphs=None, breaks=None)


def test_values_set_while_a_dict_is_iterated_are_seen() -> None:
    def program(x: torch.Tensor, d: dict[str, Any]) -> Any:
        seen = []
        for _, value in d.items():
            d["b"] = x * 3
            seen.append(value)
        for value in reversed(d.values()):
            d["a"] = 7
            seen.append(value)
        return seen

    check(program, X, {"a": 1, "b": 2})


def test_other_keys_of_the_same_number_while_iterated() -> None:
    def program(x: torch.Tensor, d: dict[str, Any]) -> Any:
        seen = [x + 1]
        for key in d:
            value = d.pop("a", 0)
            d["z"] = value
            seen.append(key)
            if len(seen) > 5:
                break
        return seen

    compiled = minitorch2.compile(program, backend="eager")
    outcomes = []
    for run in (program, compiled):
        try:
            outcomes.append([str(part) for part in run(X, {"a": 1, "b": 2})])
        except RuntimeError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_dict_iteration_goes_on_after_a_break() -> None:
    def program(x: torch.Tensor, d: dict[str, Any]) -> Any:
        seen = []
        iterator = iter(d.items())
        seen.append(next(iterator))
        d["c"] = x * 2
        print(end="")
        d["c"] = x * 3
        seen += iterator
        return x + 1, seen

    def growing(x: torch.Tensor, d: dict[str, Any]) -> Any:
        iterator = iter(d)
        x = x + len(next(iterator))
        print(end="")
        d["d"] = x
        return next(iterator)

    def removed(x: torch.Tensor, d: dict[str, Any]) -> Any:
        del d["a"]
        iterator = iter(d)
        seen = [next(iterator)]
        print(end="")
        return x, seen, [*iterator]

    for case in (program, growing, removed):
        check(case, X, {"a": 1, "b": 2, "c": 3}, graphs=None, breaks=None)


def test_sets_and_deques_that_change_while_iterated() -> None:
    def growing_set(x: torch.Tensor, s: set[int]) -> Any:
        for element in s:
            s.add(element + 10)
        return x + 1

    def growing_deque(x: torch.Tensor, d: deque[int]) -> Any:
        for element in d:
            d.append(element + 10)
        return x + 1

    def same_deque(x: torch.Tensor, d: deque[int]) -> Any:
        return x + 1, [element for element in d]

    def after_a_break(x: torch.Tensor, d: deque[int], s: set[int]) -> Any:
        seen, iterator = [], iter(d if s else s)
        x = x + next(iterator)
        print(end="")
        seen += iterator
        iterator = iter(s)
        x = x + next(iterator)
        print(end="")
        s.add(8)
        return x, seen, next(iterator)

    check(after_a_break, X, deque([1, 2]), {1, 2}, graphs=None, breaks=None)
    check(growing_set, X, {1, 2}, graphs=None, breaks=None)
    check(growing_deque, X, deque([1, 2]), graphs=None, breaks=None)
    check(same_deque, X, deque([1, 2]))
