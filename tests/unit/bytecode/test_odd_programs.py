"""Programs that use less common parts of Python; each behaves as in CPython when it is captured."""

# ruff: noqa: E741, F821 - odd on purpose

import collections
import contextlib
import dataclasses
import enum
import io
import math

import pytest
import torch

from minitorch2 import config
from minitorch2.testing.assertions import assert_matches_eager

X = torch.tensor([1.0, -2.0, 3.0])
CASES = []


def case(*args):
    """Add a function with its arguments."""

    def register(function):
        CASES.append(pytest.param(function, args, id=function.__name__))
        return function

    return register


class Base:
    def go(self, x):
        return x + 1


class Sub(Base):
    def go(self, x):
        y = super().go(x)
        print("sub")
        return super().go(y) * 2


@case(X)
def supers(x):
    return Sub().go(x)


@case(X, 1, 2)
def star(x, *args, k=3, **kw):
    y = x + sum(args)
    print(args, k, kw)
    return y * k


@case(X)
def makes_class(x):
    y = x + 1

    class Local:
        v = 3

        def m(self):
            return y * self.v

    return Local().m()


@case(X)
def uses_locals(x):
    y = x + 1
    z = 3
    print(sorted(locals()))
    return y * z


@case(X)
def rec(x):
    def r(x, n):
        if n == 0:
            print("bottom")
            return x
        return r(x + 1, n - 1) * 2

    return r(x, 4)


@dataclasses.dataclass
class D:
    a: object
    b: int = 2


@case(X)
def dataclass(x):
    d = D(x + 1)
    e = dataclasses.replace(d, b=5)
    return d, e.b, e.a * 2


P = collections.namedtuple("P", "u v")


@case(X)
def nt(x):
    p = P(x, x + 1)
    q = p._replace(u=1)
    print(q.u)
    return p.u + p.v, q


class E(enum.Enum):
    A = 1
    B = 2


@case(X, E.A)
def en(x, e):
    if e is E.A:
        x = x + e.value
    print(e)
    return {E.B: x}[E.B] if e == E.A else x


@case(X)
def deffy(x):
    y = x + 1
    del x
    try:
        return x
    except UnboundLocalError as e:
        return y, str(e)


@case(X)
def example1(x):
    if len(torch.nonzero(x)) > 1:
        return x + 1
    return x - 1


@case(X)
def walrus(x):
    if (n := x.shape[0]) > 2 and (m := n * 2):
        return x * m + n
    return None


@case(X)
def matchit(x):
    match (x.shape[0], "q"):
        case (3, str(s)):
            return x + len(s)
        case _:
            return x


@case(X)
def chained(x):
    return 0 < x.shape[0] <= 3 < 7, x


@case(X, [[1, 2], [3]])
def nested_break(x, ll):
    out = []
    for l in ll:
        for v in l:
            try:
                if v == 2:
                    continue
                out.append(x * v)
                print(v)
                if v == 3:
                    break
            finally:
                out.append(v)
        else:
            print("else")
    return out


@case(X)
def withbreak(x):
    buf = io.StringIO()
    with contextlib.redirect_stdout(buf):
        y = x + 1
        print("hidden")
        y = y * 2
    return y, buf.getvalue()


@case(X)
def suppress(x):
    with contextlib.suppress(ValueError):
        x = x + 1
        int("z")
        x = x + 100
    return x


@case(X)
def fmt(x):
    y = x * 2
    s = f"{y.shape[0]:>4}|{y.sum().item():.2f}|{y!r}"
    return s, y


@case(X)
def sorts(x):
    l = sorted([3, 1, 2], key=lambda v: -v)
    d = dict(zip("abc", l))
    return (
        x * l[0],
        sorted(d.items(), key=lambda kv: kv[1]),
        max(d, key=d.get),
        any(v > 2 for v in l),
    )


@case(X)
def strs(x):
    s = ["a", "b", "c"]
    t = "-".join(s).upper().replace("A", "z")
    return x + len(t), t, s[::-1], t.startswith("z")


@case(X)
def setitem(x):
    y = torch.zeros(3, 3)
    y[0] = x
    y[:, 1] += 2
    y[y > 1] = 5
    return y


@case(X)
def views(x):
    v = x[1:]
    v.add_(10)
    w = x.view(3, 1)
    w.mul_(2)
    return v, w


@case(X)
def genout(x):
    return [t + 1 for t in [x, x * 2]], [*(a for a in (1, 2))], {"a": x}


@case(X)
def asyncy(x):
    async def co():
        return x + 1

    c = co()
    try:
        c.send(None)
    except StopIteration as e:
        return e.value


@case(X)
def raising_loop(x):
    for i in range(5):
        try:
            if i == 3:
                raise IndexError(i)
            x = x + i
        except IndexError as e:
            print("got", e.args)
            raise RuntimeError("outer") from e


@case(X)
def big_int(x):
    return x + 2**70 // 2**69, 10**30, -0.0, float("inf"), math.pi


@case(X)
def kwdef(x):
    def g(a, *, b=x + 1, c=None):
        if c is None:
            c = []
        c.append(1)
        return a + b + len(c)

    return g(x), g(x, b=1), g


@case(X)
def globals_fn(x):
    return x + globals()["math"].floor(2.5)


@case(X)
def types_(x):
    return (
        type(x) is torch.Tensor,
        isinstance(x, (int, torch.Tensor)),
        x.__class__.__name__,
        callable(x),
        type([])(),
    )


@case(X)
def iterate_tensor(x):
    s = 0
    for v in x:
        s = s + v * 2
    a, b, c = x
    return s, a + b - c, list(enumerate(x))[1]


@case(X)
def rng(x):
    return x + torch.rand(3) * torch.randn(())


@pytest.mark.parametrize(("function", "args"), CASES)
def test_behaves_as_in_cpython(function, args):
    with config.patch(suppress_errors=False):
        assert_matches_eager(function, *args)
