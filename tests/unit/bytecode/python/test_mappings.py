"""Dicts of all kinds, their views, and sets."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import dataclasses
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict
from typing import Any

import pytest
import torch

import minitorch2

from tests.unit.bytecode.python.programs import Case, X, case, expressions

TABLE: list[Any] = []

expressions(
    TABLE,
    """
    d["a"], d.get("a"), d.get("z"), d.get("z", 5), "a" in d, "z" not in d, len(d), list(d), bool({}), d == {"b": 2, "a": 1}
    list(d.keys()), list(d.values()), list(d.items()), d.keys() == {"a", "b"}, ("a", 1) in d.items(), 2 in d.values(), len(d.keys())
    d.keys() & {"a"}, d.keys() | {"q"}, d.keys() - {"a"}, d.keys() ^ {"a", "z"}, d.keys() <= {"a", "b", "c"}, d.keys().isdisjoint("x")
    d.items() & {("a", 1)}, sorted(d.items()), dict(d.items()), list(reversed(d)), list(reversed(d.items())), d.keys() > {"a"}
    dict(a=1, b=2), dict([("a", 1)], c=3), dict(d, a=9), dict(zip("ab", [1, 2])), {**d, "c": 3}, {"a": 0, **d}, d | {"a": 5}, {"a": 5} | d
    dict.fromkeys("ab"), dict.fromkeys([1, 2], 0), {k: v for k, v in d.items() if v > 1}, {v: k for k, v in d.items()}, {1: "i", 1.0: "f", True: "b"}
    {(1, 2): 3}[(1, 2)], {None: 1}[None], {1: 2}[1.0], {frozenset([1]): 2}[frozenset([1])], {int: 1}[int], {len: "l"}[len], {x.dtype: 1}[x.dtype]
    max(d, key=d.get), sorted(d, key=d.get, reverse=True), min(d.values()), sum(d.values()), [*d], (lambda **k: k)(**d), "".join(d)
    d.copy() is d, d.copy(), d.__len__(), d.__getitem__("a"), d.__contains__("a"), dict.get(d, "a"), {"k": [1]}["k"][0], list(map(d.get, "ab"))
    {"x": x}["x"] is x, {"x": x}.get("x"), {x: 1}[x], {x: 1, "s": 2}, x in {x: 1}, [*{"x": x}.values()][0] is x, {**{"x": x}}
    OrderedDict(a=1), OrderedDict([("a", 1)]) == {"a": 1}, OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1), list(OrderedDict(d)), OrderedDict.fromkeys("ab")
    defaultdict(int), defaultdict(list, d), defaultdict(lambda: 3)["q"], defaultdict(None, d)["a"], defaultdict(int, d).get("zz"), defaultdict(list).default_factory
    Counter("abca"), Counter("aab")["a"], Counter("aab")["z"], Counter("aab").most_common(1), Counter(a=2) + Counter(a=1), Counter(a=2) - Counter(a=1, b=1)
    list(Counter("aab").elements()), Counter([1, 1, 2]).total(), Counter(d), Counter(a=1) | Counter(b=2), Counter(a=1) & Counter(a=3), +Counter(a=-1, b=1), Counter(a=1) == Counter("a")
    ChainMap({"a": 1}, {"a": 2, "b": 3})["a"], list(ChainMap({"a": 1}, {"b": 3})), ChainMap(d).new_child({"a": 7})["a"], len(ChainMap(d, {"z": 1})), dict(ChainMap(d))
    types.MappingProxyType(d)["a"], list(types.MappingProxyType(d)), types.MappingProxyType(d).get("q"), len(types.MappingProxyType(d)), "a" in types.MappingProxyType(d)
    UserDict(d)["a"], dict(UserDict(a=1)), len(UserDict()), "a" in UserDict(d)
    {1, 2} | {3}, {1, 2} & {2}, {1, 2} - {2}, {1, 2} ^ {2, 3}, {1} < {1, 2}, {1} <= {1}, {1, 2} > {1}, {1} == {1}, {1} != {2}, 1 in s, len(s), bool(set())
    s.union([9], (8,)), s.intersection([1]), s.difference([1]), s.symmetric_difference([1, 7]), s.issubset([1, 2, 3]), s.issuperset([1]), s.isdisjoint([5]), s.copy()
    frozenset([1, 2]) | {3}, {3} | frozenset([1]), frozenset([1]) == {1}, hash(frozenset([1])) == hash(frozenset([1])), type(frozenset() | set()), set("ab") == set("ba")
    sorted(s), max(s), sum(s), set(), set([1, 1]), {*s, 5}, {v * 2 for v in s}, frozenset(s), set(range(3)), list({3, 1, 2}), set(d), {x}, x in {x}, len({x, x}), {x, 1} - {x}
    {int, str} & {int}, {len} == {len}, {(1, 2)} == {(1, 2)}, {None, True} - {None}, int in {int, float}, {x.dtype} == {torch.float32}, torch.float32 in {torch.float32}
    """,
    {
        "ChainMap": ChainMap,
        "Counter": Counter,
        "OrderedDict": OrderedDict,
        "UserDict": UserDict,
        "defaultdict": defaultdict,
        "types": types,
        "torch": torch,
    },
    d={"a": 1, "b": 2},
    s={1, 2},
)


@case(TABLE, X, {"a": 1, "b": 2, "c": 3})
def every_change_of_a_dict(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    d["x"] = x
    d["a"] = 10
    popped = d.pop("b"), d.pop("nothing", 7), d.popitem()
    del d["c"]
    d.setdefault("a", 5)
    made = d.setdefault("l", [])
    made.append(1)
    d.update({"u": 1}, v=2)
    d.update([("w", 3)])
    d |= {"y": 4}
    d |= [("z", 5)]
    return popped, d["l"] is made, d


@case(TABLE, X, {"a": 1})
def a_dict_cleared(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    e = d
    d.clear()
    d["new"] = x
    return e is d, len(e)


@case(TABLE, X, {"a": 1, "b": 2})
def views_are_live(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    keys, values, items = d.keys(), d.values(), d.items()
    d["c"] = x
    del d["a"]
    return list(keys), list(values), list(items), keys, values, items


@case(TABLE, X, {"a": 1, "b": 2})
def a_dict_changed_while_iterated(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    for key in d:
        d[key] = x
    for key in list(d):
        d[key + "2"] = 1
    try:
        for key in d:
            d[key + "3"] = 1
    except RuntimeError as error:
        return str(error), d


@case(TABLE)
def errors_of_dicts(x: torch.Tensor) -> Any:
    found = []
    for operation in (
        lambda: {}["a"],
        lambda: {}.pop("a"),
        lambda: {}.popitem(),
        lambda: {}.__delitem__("a"),
        lambda: {[]: 1},
        lambda: dict([1]),
        lambda: dict([(1, 2, 3)]),
        lambda: dict(5),
        lambda: {} | 5,
        lambda: {1, 2}.remove(3),
        lambda: set().pop(),
        lambda: {1} | [2],
        lambda: {[]},
        lambda: {{}},
        lambda: frozenset([1]).add(2),
        lambda: {}.get(),
        lambda: defaultdict(5),
        lambda: OrderedDict().popitem(),
        lambda: OrderedDict().move_to_end("a"),
        lambda: {1} < 5,
        lambda: types.MappingProxyType({})["a"],
        lambda: types.MappingProxyType({}).update(a=1),
        lambda: {"a": 1}.fromkeys(5),
        lambda: {(1, 2): 3}[(1, 3)],
        lambda: (lambda **k: k)(**{1: 2}),
        lambda: (lambda a: a)(b=2),
        lambda: dict(a=1)["b"],
    ):
        try:
            operation()
            found.append("no error")
        except Exception as error:
            found.append((type(error), error.args))
    return x + 1, found


@case(TABLE, lambda: (X, OrderedDict(a=1, b=2, c=3)))
def ordered_dicts(x: torch.Tensor, d: OrderedDict[Any, Any]) -> Any:
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    d["d"] = x
    first = d.popitem(last=False)
    made = OrderedDict((("p", 1), ("q", 2)))
    made.move_to_end("p")
    return first, d, made, list(reversed(made)), d == OrderedDict(d)


@case(TABLE, lambda: (X, defaultdict(list, {"a": [1]})))
def default_dicts(x: torch.Tensor, d: defaultdict[Any, Any]) -> Any:
    d["a"].append(x)
    d["b"].append(2)
    d["b"].append(3)
    counts: defaultdict[str, int] = defaultdict(int)
    for c in "hello":
        counts[c] += 1
    nested: Any = defaultdict(lambda: defaultdict(int))
    nested["x"]["y"] += 1
    return d, counts, nested["x"], "zz" in d, d.get("zz"), counts.default_factory is int


@case(TABLE, lambda: (X, Counter("aab")))
def counters(x: torch.Tensor, c: Counter[Any]) -> Any:
    c["z"] += 1
    c.update("ab")
    c.update({"q": 2})
    c.subtract(["a"])
    made = Counter({"p": 1})
    made["n"] = x
    absent = made["absent"]
    return c, made, absent, c.most_common(2), c.total(), list(c.elements()), "absent" in made


@case(TABLE, X, {1, 2})
def every_change_of_a_set(x: torch.Tensor, s: set[Any]) -> Any:
    s.add(5)
    s.add(1)
    s.discard(9)
    s.remove(2)
    s.update([7, 8], {9})
    s |= {10}
    s -= {7}
    s &= {1, 5, 8, 9, 10}
    s ^= {5, 6}
    s.difference_update([9])
    s.intersection_update({1, 8, 6})
    s.symmetric_difference_update({8, 3})
    return x + len(s), s, 1 in s


@case(TABLE)
def sets_of_tensors_and_objects(x: torch.Tensor) -> Any:
    y = x + 1
    s = {x, y, len}
    s.add(x)
    o = object()
    s.add(o)
    return len(s), x in s, (x + 2) in s, o in s, len in s, y


@case(TABLE, lambda: (X, {torch.nn.Linear, int}, {len, max}))
def sets_of_classes_from_outside(x: torch.Tensor, s: set[Any], t: set[Any]) -> Any:
    return x + 1, int in s, str in s, len in t, min in t, len(s)


class Key:
    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Key) and other.name == self.name


class Plain:
    pass


@case(TABLE, lambda: (lambda p: (X, p, {p}))(Plain()))
def a_set_of_objects_from_outside(x: torch.Tensor, p: Any, s: set[Any]) -> Any:
    for each in s:
        each.x = x + len(s)
    s.add(1)
    return p in s, Plain() in s, "s" in s, len(s)


@case(TABLE, lambda: (lambda p: (X, p, {p, "s"}))(Plain()), breaks=None)
def a_set_whose_order_depends_on_addresses(x: torch.Tensor, p: Any, s: set[Any]) -> Any:
    return x + 1, p in s, Plain() in s, "s" in s, len(s)


@case(TABLE, lambda: (lambda p: (X, p, {p: 1}))(Plain()))
def a_dict_of_objects_from_outside(x: torch.Tensor, p: Any, d: dict[Any, Any]) -> Any:
    d[p] = x + d[p]
    d[Plain] = 2
    return p in d, Plain() in d, len(d)


@case(TABLE)
def intersections_of_equal_elements(x: torch.Tensor) -> Any:
    return x + 1, {1} & {True}, {1} & {True, 2}, {1, 2} & {True}, {1, 2}.intersection([1.0, 5])


@case(TABLE, lambda: (X, Key("a")))
def keys_with_their_own_hash(x: torch.Tensor, k: Key) -> Any:
    d = {k: 1, Key("b"): x}
    d[Key("a")] = 2
    return d[Key("a")], d[Key("b")], Key("c") in d, len(d), len({Key("q"), Key("q")})


@case(TABLE, lambda: (X, {Key("a"): 1}))
def a_dict_with_keys_with_their_own_hash(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    d[Key("b")] = x
    return d[Key("a")], Key("b") in d, Key("z") in d, {Key("a"), Key("a"), "a"} & set(d)


class Number:
    """Equal to a number of another type, as the hash promises."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: Any) -> bool:
        return self.value == getattr(other, "value", other)


@case(TABLE, lambda: (X, {Number(1): "one", 2: "two"}))
def keys_equal_to_constants(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    d[1] = x + 1
    d[Number(2)] = 2
    return d.get(1), d[Number(2)], len(d), Number(2) in {2}, 3 in {Number(3)}, [*d]


@dataclasses.dataclass(frozen=True)
class Point:
    i: int
    name: str


@case(TABLE, lambda: (X, {Point(1, "a"): 2.0, Point(2, "b"): 3.0}))
def frozen_data_classes_as_keys(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    return x * d[Point(2, "b")], Point(1, "b") in d, {Point(1, "a"), Point(1, "a")} == {*d}


class Unhashable:
    def __eq__(self, other: Any) -> bool:
        return True


@case(TABLE, lambda: (X, Unhashable()), breaks=None)
def an_instance_without_a_hash(x: torch.Tensor, u: Any) -> Any:
    y = x + 1
    try:
        return {u: y}
    except TypeError as error:
        return y, error.args


class Counted:
    asked = 0

    def __hash__(self) -> int:
        Counted.asked += 1
        return 1


@case(TABLE, lambda: (X, Counted()), breaks=None, code="hash")
def a_hash_with_effects(x: torch.Tensor, k: Any) -> Any:
    Counted.asked = 0
    y = x + 1
    d = {k: y}
    return y, Counted.asked


class Config(dict):
    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __missing__(self, key: str) -> Any:
        if key.startswith("default"):
            return 0
        raise KeyError(key)


@case(TABLE, lambda: (X, Config(rate=2)))
def a_dict_with_attributes(x: torch.Tensor, c: Config) -> Any:
    c.new = x * c.rate
    made = Config(a=1)
    made.b = 2
    return (
        c,
        made,
        c["default_q"],
        getattr(made, "zz", None),
        made == {"a": 1, "b": 2},
        {**made},
        list(made.items()),
    )


class Tracked(dict):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log = []

    def __setitem__(self, key: Any, value: Any) -> None:
        self.log.append(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self.log.append(("del", key))
        super().__delitem__(key)


@case(TABLE, lambda: (X, Tracked(a=1)))
def a_dict_that_overrides_methods(x: torch.Tensor, d: Tracked) -> Any:
    d["x"] = x
    del d["a"]
    d.update(z=1)
    made = Tracked(q=1)
    made["r"] = 2
    return d, d.log, made, made.log, made.pop("q"), made.setdefault("s", 1)


@case(TABLE, lambda: (lambda v: (X, {"a": v, "b": v}))([1]))
def aliases_in_a_dict(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    d["a"].append(x)
    d["c"] = d["b"]
    return d["a"] is d["b"], d


@case(TABLE)
def keyword_dicts_are_new(x: torch.Tensor) -> Any:
    def f(**kwargs: Any) -> Any:
        kwargs["more"] = 1
        return kwargs

    given = {"a": x}
    made = f(**given)
    return given, made, f(), given is made


@case(TABLE, X, {"a": {"b": {"c": 1}}})
def nested_dicts(x: torch.Tensor, d: dict[Any, Any]) -> Any:
    d["a"]["b"]["c"] += 1
    d["a"]["b"]["x"] = x
    d["a"]["alias"] = d["a"]["b"]
    return d["a"]["b"]["c"]


@pytest.mark.parametrize("program", TABLE)
def test_mappings(program: Case) -> None:
    program.run()


def test_a_view_of_a_dict_is_not_unpacked_as_a_mapping():
    def program(x):
        try:
            return x + 1, {**{1: 2}.items()}
        except TypeError as error:
            return x + 1, str(error)

    x = torch.ones(1)
    assert minitorch2.compile(program, fullgraph=True)(x)[1] == program(x)[1]


def test_a_mapping_proxy_refuses_an_update_in_place():
    def updated(x, mapping):
        mapping |= {"b": 2}
        return x + 1, mapping

    mapping = types.MappingProxyType({"a": 1})
    with pytest.raises(TypeError, match="not supported by mappingproxy"):
        minitorch2.compile(updated, backend="eager")(torch.ones(1), mapping)
