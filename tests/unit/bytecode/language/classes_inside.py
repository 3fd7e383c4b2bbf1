"""Classes made inside: hooks, metaclasses, data classes, and classes that live on."""

import abc
import collections
import dataclasses
import functools
import typing

import torch

from tests.unit.bytecode.language import program


@program
def esc_instance(x):

    class A:
        k = 2

        def __init__(s, v):
            s.v = v

        def go(s):
            return s.v * s.k

    a = A(x)
    return (a, a.go())


@program
def esc_class(x):

    class A:
        k = 2

        @property
        def p(s):
            return 3

        @staticmethod
        def st():
            return 4

        @classmethod
        def c(cls):
            return cls.__name__

        def sup(s):
            return super().__repr__()[:3]

    A.z = 5
    return (x + 1, A().p, A.st(), A.c(), A, A())


@program
def esc_closure(x):

    class A:
        def me(s):
            return A

        def y(s):
            return x

    return (A().me() is A, A().y() + 1, A)


@program
def dunder_init_sub(x):
    seen = []

    class B:
        def __init_subclass__(cls, **k):
            seen.append((cls.__name__, k))
            super().__init_subclass__()

    class C(B, a=1):
        pass

    class D(C, b=2):
        pass

    return (x + 1, seen, D.__mro__[1].__name__, issubclass(D, B), isinstance(D(), C))


class OutB:
    reg = []

    def __init_subclass__(cls, **k):
        OutB.reg.append(cls.__name__)


@program
def out_init_sub(x):

    class C(OutB):
        pass

    r = x + len(OutB.reg)
    OutB.reg.clear()
    return r


@program
def proto(x):

    class P(typing.Protocol):
        def go(s): ...

    class G(P):
        def go(s):
            return x + 1

    return G().go()


@program
def abcs(x):

    class B(abc.ABC):
        @property
        @abc.abstractmethod
        def p(s): ...

        @abc.abstractmethod
        def q(s): ...

    class C(B):
        p = 3

        def q(s):
            return 4

    try:
        B()
    except TypeError as e:
        m = str(e)
    return (x + C().p + C().q(), m[:30], C.__abstractmethods__, isinstance(C(), B))


@program
def slotscls(x):

    class S:
        __slots__ = ("a", "b")

        def __init__(s):
            s.a = x

    s = S()
    try:
        s.c = 1
    except AttributeError as e:
        m = str(e)
    try:
        s.b
    except AttributeError as e:
        m2 = str(e)
    return (s.a + 1, m, m2)


@program
def ctxcls(x):

    class C:
        def __enter__(s):
            log.append("in")
            return s

        def __exit__(s, *e):
            log.append(e[0].__name__ if e[0] else None)
            return True

    log = []
    with C() as c:
        raise ValueError
    with C():
        y = x + 1
    return (y, log)


@program
def modcls(x):

    class M(torch.nn.Module):
        def __init__(s):
            super().__init__()
            s.w = torch.nn.Parameter(torch.ones(4))

        def forward(s, x):
            return x * s.w

    return M()(x)


@program
def exc_cls(x):

    class E(Exception):
        def __init__(s, m, c):
            super().__init__(m)
            s.c = c

    try:
        raise E("a", 3)
    except E as e:
        return (x + e.c, str(e), repr(e))


@program
def exc_cls2(x):

    class E(ValueError):
        pass

    class F(E):
        """doc"""

    try:
        raise F("q")
    except ValueError as e:
        return (x + 1, type(e).__name__, F.__doc__, isinstance(e, E), E.__bases__)


@program
def cls_attr_dict(x):

    class A:
        """d"""

        a = 1
        b = x

    return (
        x + A.b,
        [k for k in vars(A) if not k.startswith("__")],
        "a" in A.__dict__,
        A.__doc__,
        A.__module__,
        A.__qualname__,
    )


@program
def loops(x):
    r = []
    for i in range(3):

        class A:
            n = i
            m = [i]

        A.m.append(4)
        r.append((A.n, A.m))
    return (x + 1, r)


@program
def conditional_body(x):

    class A:
        for i in range(3):
            pass
        if i == 2:

            def f(s):
                return x * i0

        i0 = 5
        try:
            1 / 0
        except ZeroDivisionError:
            caught = True

    return (A.caught, A.i, x + 1)


@program
def tensor_attr(x):

    class A:
        t = x * 2
        u = [x, x + 1]

    A.t = A.t + 1
    A.u[0] = x
    return (A.t, A().u[0], A().t)


@program
def makedc(x):
    C = dataclasses.make_dataclass("C", ["a", ("b", int, dataclasses.field(default=3))])
    return (C(x).a * C(x).b, repr(C(1)))


@program
def dc_features(x):

    @dataclasses.dataclass(order=True)
    class A:
        a: int
        t: object = dataclasses.field(default=None, compare=False, repr=False)
        i: dataclasses.InitVar[int] = 3
        K: typing.ClassVar[int] = 9

        def __post_init__(s, i):
            s.j = s.a + i

    @dataclasses.dataclass
    class B(A):
        b: object = x

    b = B(1)
    return (
        x + b.j,
        b.b + 1,
        A(1) < A(2),
        repr(A(3)),
        dataclasses.asdict(A(2)),
        dataclasses.replace(A(1), a=5, i=1).j,
        [f.name for f in dataclasses.fields(B)],
        A.K,
        b == B(1, b=b.b),
        A.__match_args__,
    )


@program
def dc_mut(x):
    try:

        @dataclasses.dataclass
        class A:
            a: list = []
    except ValueError as e:
        return (x + 1, str(e))


@program
def dc_total(x):

    @functools.total_ordering
    class A:
        def __init__(s, n):
            s.n = n

        def __eq__(s, o):
            return s.n == o.n

        def __lt__(s, o):
            return s.n < o.n

    return (x + 1, A(1) <= A(2), A(3) > A(2), sorted([A(2), A(1)])[0].n)


@program
def cached_prop(x):

    class A:
        n = 0

        @functools.cached_property
        def p(s):
            A.n += 1
            return x * 2

    a = A()
    return (a.p + a.p, A.n)


@program
def singleton_meta(x):

    class S(type):
        _i = {}

        def __call__(cls, *a):
            if cls not in cls._i:
                cls._i[cls] = super().__call__(*a)
            return cls._i[cls]

    class A(metaclass=S):
        def __init__(s):
            s.t = x

    return (A() is A(), A().t + 1)


@program
def meta_prepare(x):

    class M(type):
        @classmethod
        def __prepare__(mcs, n, b, **k):
            return {"injected": 3}

        def __init__(cls, n, b, ns):
            super().__init__(n, b, ns)
            cls.names = sorted((k for k in ns if not k.startswith("__")))

    class A(metaclass=M):
        z = injected

    return (x + A.z, A.names)


@program
def set_name(x):

    class D:
        def __set_name__(s, o, n):
            s.n = n
            s.o = o

        def __get__(s, i, o):
            return (s.n, s.o is o)

    class A:
        f = D()
        g = D()

    return (x + 1, A.f, A().g)


@program
def type3(x):
    B = type("B", (), {"v": x})
    C = type("C", (B,), {"go": lambda s: s.v * 2})
    return (C().go(), C.__name__, C.__mro__[1] is B, type(C))


@program
def nt_cls(x):

    class V(typing.NamedTuple):
        a: object
        b: int = 2

        def tot(s):
            return s.a * s.b

        def __add__(s, o):
            return V(s.a + o.a, 0)

    v = V(x)
    w = v + v
    return (
        v.tot(),
        w.a,
        v._fields,
        V._field_defaults,
        repr(V(1)),
        V(1) == (1, 2),
        v._replace(b=4).tot(),
        v,
    )


@program
def nested_fn_cls(x):

    def mk(n):

        class A:
            def go(s):
                return x * n

        return A

    return (mk(2)().go() + mk(3)().go(), mk(1) is mk(1), mk(1).__qualname__)
