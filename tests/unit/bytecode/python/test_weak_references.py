"""Weak references, proxies and containers: captured like their objects, until these die."""

import functools
import gc
import weakref

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_same

X = torch.ones(2)


class Thing:
    """Has a value and a method."""

    def __init__(self, value=2.0):
        self.value = value

    def scaled(self, x):
        return x * self.value


class Slotted:
    """Keeps its value in a slot."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value):
        self.value = value


class Forwarding:
    """Asks another object for all attributes."""

    def __init__(self, owner):
        self.owner = owner

    def __getattr__(self, name):
        return getattr(self.owner, name)


class Vector:
    """Has most special methods."""

    __hash__ = None

    def __init__(self, *parts):
        self.parts = list(parts)

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, index):
        return self.parts[index]

    def __setitem__(self, index, part):
        self.parts[index] = part

    def __iter__(self):
        return iter(self.parts)

    def __contains__(self, part):
        return part in self.parts

    def __add__(self, other):
        if isinstance(other, Vector):
            return Vector(*(a + b for a, b in zip(self.parts, other.parts)))
        return self.parts[0] + other

    def __radd__(self, other):
        return self.parts[0] + other + 100

    def __iadd__(self, other):
        self.parts = [part + other for part in self.parts]
        return self

    def __eq__(self, other):
        return isinstance(other, Vector) and self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts

    def __bool__(self):
        return len(self.parts) > 1

    def __neg__(self):
        return Vector(*(-part for part in self.parts))

    def __call__(self, x, more=1):
        return x * self.parts[0] + more

    def __str__(self):
        return "vector"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class Child(nn.Module):
    """Refers to its parent by a proxy: no cycle."""

    def __init__(self, parent):
        super().__init__()
        self.__dict__["parent"] = weakref.proxy(parent)
        self.w = nn.Linear(4, 4)

    def forward(self, x):
        self.parent.last = x.mean()
        y = self.parent.scaled(self.w(x)) + self.parent.bias + self.parent.lin(x)
        return y * self.parent.calls + (1 if self.parent.training else 2) + self.parent.last


class Parent(nn.Module):
    """Holds a child."""

    def __init__(self):
        super().__init__()
        self.scale, self.calls = 2.0, 0
        self.bias, self.lin = nn.Parameter(torch.ones(4)), nn.Linear(4, 4)
        self.child = Child(self)

    def scaled(self, x):
        self.calls += 1
        return x * self.scale

    def forward(self, x):
        return self.child(x)


def module_with_a_proxy_of_its_parent(c):
    torch.manual_seed(0)
    m, x = Parent(), torch.ones(2, 4)
    run = c(m)
    found = [run(x)]
    m.eval()
    found.append(run(x))
    m.scale = 5.0
    found += [run(x), m.calls, m.last]
    run(x).sum().backward()
    return [*found, m.bias.grad]


def operators_of_proxies(c):
    v, w = Vector(1.0, 2.0), Vector(3.0, 4.0)
    p, q = weakref.proxy(v), weakref.proxy(w)

    def f(x):
        values = [len(p), p[1], sum(p), (p + w)[0], (w + p)[1], (p + q)[0], (-p)[0]]
        tests = [2.0 in p, p == v, p == q, p != v, p < q, not p, p is v, p is q, hasattr(p, "no")]
        kinds = [type(p) is weakref.CallableProxyType, isinstance(p, Vector), isinstance(p, Thing)]
        p[0] = p[0] + 1
        return [x * value for value in values], x + p, p + x, p(x, more=3), tests, kinds, str(p)

    run = c(f)
    return [run(X), run(X + 1), v.parts]


def proxy_is_what_it_is(c):
    p = weakref.proxy(Thing) and weakref.proxy(v := Vector(1.0))

    def f(x):
        found = []
        for attempt in (lambda: p.no, lambda: next(p), lambda: hash(p), lambda: p.__enter__()):
            try:
                found.append(type(attempt()).__name__)
            except (AttributeError, TypeError) as error:
                found.append(type(error).__name__)
        try:
            with p:
                x = x + 1
        except TypeError:
            found.append("no context manager")
        return x + 1, found

    return c(f)(X), v.parts


def in_place_on_a_proxy(c):
    v, holder = Vector(1.0, 2.0), Thing()
    holder.proxy = weakref.proxy(v)

    def f(x):
        p = holder.proxy
        p += 2.0
        return x * p[0], type(p) is Vector

    run = c(f)
    return [run(X), run(X), v.parts]


def proxies_of_many_classes(c):
    thing, slotted = Thing(), Slotted(3.0)
    forwarding, tensor = Forwarding(thing), torch.ones(2) * 3

    def f(x, p):
        return x * p.value

    def g(x, p):
        return x * p.sum(), x + p.shape[0], p.dtype, isinstance(p, torch.Tensor), p + x

    run, of_tensor = c(f), c(g)
    found = [run(X, weakref.proxy(each)) for each in (thing, slotted, forwarding, thing)]
    return [*found, of_tensor(X, weakref.proxy(tensor))]


def weak_set(c):
    a, b = Thing(), Thing(3.0)
    known = weakref.WeakSet([a, b])

    def f(x):
        return [x + each.value for each in sorted(known, key=lambda t: t.value)], len(known)

    run = c(f)
    found = [run(X)]
    third = Thing(5.0)
    known.add(third)
    found.append(run(X))
    del b
    found.append(run(X))
    known.discard(a)
    return [*found, run(X), third in known]


def weak_keys(c):
    a, b = Thing(), Thing(3.0)
    known = weakref.WeakKeyDictionary({a: 1.0})

    def f(x, thing):
        y = x * known[thing] if thing in known else x + known.get(thing, 7.0)
        return y, len(known), [*known.values()], [k.value * v for k, v in known.items()]

    run = c(f)
    found = [run(X, a), run(X, b)]
    known[b] = 4.0
    found += [run(X, a), run(X, b)]
    a = Thing(11.0)
    return [*found, run(X, a), run(X, b)]


def writes_to_weak_keys(c):
    a, b = Thing(), Thing(3.0)
    known = weakref.WeakKeyDictionary()

    def f(x, thing):
        known[thing] = known.get(thing, 0.0) + 1.0
        return x * known[thing], len(known), known.setdefault(thing, 4.0)

    run = c(f)
    found = [run(X, a), run(X, b), run(X, b), len(known)]
    del b
    found += [len(known), run(X, a)]
    del a
    return [*found, len(known)]


def writes_to_weak_values(c):
    a, b = Thing(), Thing(3.0)
    known = weakref.WeakValueDictionary()

    def f(x, key, thing):
        known[key] = thing
        values = [each.value for each in known.values()]
        return x * known[key].value, sorted(known), values, "none" in known

    run = c(f)
    found = [run(X, "a", a), run(X, "b", b), run(X, "b", b), len(known)]
    del b
    found += [len(known), run(X, "c", a)]
    del a
    return [*found, len(known)]


def writes_to_a_weak_set(c):
    a, b = Thing(), Thing(3.0)
    known = weakref.WeakSet()

    def f(x, thing):
        known.add(thing)
        return x * thing.value, len(known), thing in known

    run = c(f)
    found = [run(X, a), run(X, b), run(X, b), len(known)]
    del b
    found.append(len(known))
    del a
    return [*found, len(known)]


def weak_method(c):
    holder, thing = Thing(), Thing()
    holder.method = weakref.WeakMethod(thing.scaled)

    def f(x):
        method = holder.method()
        return x - 1 if method is None else method(x)

    run = c(f)
    found = [run(X)]
    thing.value = 3.0
    found.append(run(X))
    del thing
    found.append(run(X))
    other = Thing(7.0)
    holder.method = weakref.WeakMethod(other.scaled)
    return [*found, run(X)]


def references_as_keys(c):
    a, b = Thing(), Thing(3.0)
    table = {weakref.ref(a): 1.0, weakref.ref(b): 2.0}

    def f(x, r):
        return x * table[r], x * table[weakref.ref(a)]

    run = c(f)
    return [run(X, weakref.ref(a)), run(X, weakref.ref(b))]


def references_to_what_has_none(c):
    def f(x):
        found = []
        for value in (5, [1], "s", (1,)):
            try:
                found.append(weakref.ref(value))
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    return c(f)(X)


CAPTURED = [
    module_with_a_proxy_of_its_parent, operators_of_proxies, proxy_is_what_it_is,
    in_place_on_a_proxy, proxies_of_many_classes, weak_set, weak_keys, writes_to_weak_keys,
    writes_to_weak_values, writes_to_a_weak_set, weak_method, references_as_keys,
    references_to_what_has_none,
]  # fmt: skip


@pytest.mark.parametrize("program", CAPTURED, ids=lambda program: program.__name__)
def test_captured_whole(program):
    wanted = program(lambda function: function)
    with stages.collect() as log:
        given = program(functools.partial(minitorch2.compile, backend="eager", fullgraph=True))
    assert_same(given, wanted, 1e-6)
    assert log.counts["graphs"] > 0
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0


def cache_of_new_objects(c):
    """Nothing but the weak cache would hold the objects: they die at once."""
    known = weakref.WeakValueDictionary()

    def made(n):
        thing = known.get(n)
        if thing is None:
            thing = known[n] = Thing(float(n))
        return thing

    def f(x, n):
        return x * made(n).value, len(known)

    run = c(f)
    return [run(X, n) for n in (1, 2, 1)], len(known)


def proxy_that_dies(c):
    holder = Thing()
    holder.thing = Thing(3.0)
    holder.proxy = weakref.proxy(holder.thing)

    def f(x):
        try:
            return x * holder.proxy.value
        except ReferenceError as error:
            return x - 100, str(error)

    def g(x):
        return x * holder.proxy.value

    run, plain = c(f), c(g)
    found = [run(X), plain(X)]
    holder.thing = None
    gc.collect()
    with pytest.raises(ReferenceError):
        plain(X)
    found += [run(X), run(X)]
    holder.thing = Thing(5.0)
    holder.proxy = weakref.proxy(holder.thing)
    found += [run(X), plain(X)]
    holder.thing.value = 6.0
    return [*found, run(X), plain(X)]


def proxy_of_a_class(c):
    class Constants:
        value = 4.0

    p = weakref.proxy(Constants)
    return c(lambda x: (p.value * x, isinstance(p, type)))(X)


@pytest.mark.parametrize("program", [cache_of_new_objects, proxy_that_dies, proxy_of_a_class])
def test_the_same_as_eagerly(program):
    wanted = program(lambda function: function)
    given = program(functools.partial(minitorch2.compile, backend="eager"))
    assert_same(given, wanted, 1e-6)
