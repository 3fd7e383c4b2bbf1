"""Single dispatch, thread-local attributes, copies, conversions, classes that change."""

import collections
import copy
import functools
import math
import threading
import typing

import torch

from tests.unit.bytecode.language import program


@functools.singledispatch
def describe(v):
    return "object"


@describe.register
def _(v: int):
    return "int"


@describe.register(list)
def _(v):
    return "list"


@describe.register
def _(v: torch.Tensor):
    return v + 1


class Describer:
    @functools.singledispatchmethod
    def f(s, v):
        return "o"

    @f.register
    def _(s, v: int):
        return "i"

    @f.register
    def _(s, v: torch.Tensor):
        return v * 2


@program
def single_dispatch(x):
    return (describe(x), describe(3), describe([1]), describe("s"), describe(True))


@program
def single_dispatch_of_methods(x):
    return (Describer().f(x), Describer().f(1), Describer().f(""))


class NewC:
    def go(s):
        return 2


class OldC:
    def go(s):
        return 1


@program
def class_of_an_object_changes(x):
    o = OldC()
    o.__class__ = NewC
    return (x + o.go(), type(o) is NewC, isinstance(o, NewC))


@program
def directories(x):

    class B:
        kind = 1

        def m(s):
            pass

    b = B()
    b.v = 1
    return (x + 1, [n for n in dir(b) if n[0] != "_"], [n for n in dir(B) if n[0] != "_"])


class Cp:
    def __init__(s, v):
        s.v = v

    def __copy__(s):
        return Cp(s.v + 1)

    def __deepcopy__(s, memo):
        return Cp(copy.deepcopy(s.v, memo) * 2)


@program
def copies_of_their_own(x):
    return (copy.copy(Cp(x)).v, copy.deepcopy(Cp(x)).v, copy.deepcopy([Cp(x), {"a": Cp(1)}])[0].v)


LOC = threading.local()


LOC.v = 2


class SubL(threading.local):
    k = 3

    def __init__(s):
        s.z = 1


SL = SubL()


@program
def thread_local_read(x):
    y = x * LOC.v
    LOC.w = y
    r = (LOC.w + 1, hasattr(LOC, "nope"), getattr(LOC, "q", 5), SL.k, SL.z)
    del LOC.w
    return r


@program
def thread_local_made_inside(x):
    l = threading.local()
    l.a = x
    return l.a + 1


@program
def thread_local_written(x):
    old = LOC.v
    LOC.v = old + 1
    y = x * LOC.v
    LOC.v = old
    return y


class Num:
    def __complex__(s):
        return 1j

    def __trunc__(s):
        return 4

    def __floor__(s):
        return 5

    def __ceil__(s):
        return 6

    def __bytes__(s):
        return b"num"

    def __divmod__(s, o):
        return (1, o)

    def __rdivmod__(s, o):
        return (2, o)

    def __fspath__(s):
        return "/p"

    def __dir__(s):
        return ["b", "a"]

    def __length_hint__(s):
        return 4

    def __round__(s, n=None):
        return n

    def __rpow__(s, o, m=None):
        return (o, m)

    def __pow__(s, o, m=None):
        return (o, m)

    def __float__(s):
        return 0.5


@program
def conversions(x):
    n = Num()
    return (
        x + 1,
        complex(n),
        math.floor(n),
        math.ceil(n),
        math.trunc(n),
        bytes(n),
        divmod(n, 3),
        divmod(3, n),
        dir(n),
        round(n),
        round(n, 2),
        n**2,
        2**n,
        pow(n, 2, 3),
        math.sqrt(n),
    )


@program
def supers(x):

    class A:
        def f(s):
            return (super().__class__, s.__class__.__name__)

    r = A().f()
    return (x + 1, r[0] is super, r[1])


class Vec(typing.NamedTuple):
    a: object
    b: object

    def __add__(s, o):
        return Vec(s.a + o.a, s.b + o.b)

    def __len__(s):
        return 7

    def __repr__(s):
        return "Vec!"

    def __eq__(s, o):
        return "eq"

    def __iter__(s):
        return iter([5, 6])

    def __getitem__(s, i):
        return "item%s" % i

    def __contains__(s, i):
        return True

    def __hash__(s):
        return 3

    def __bool__(s):
        return False

    def count(s, v):
        return "count"

    def __call__(s):
        return "called"


@program
def vec_add(x):
    r = Vec(x, x + 1) + Vec(x, x)
    return (r.a, r.b)


@program
def vec_all(x):
    v = Vec(1, 2)
    return (
        x + 1,
        len(v),
        repr(v),
        f"{v}",
        v == v,
        list(v),
        v[0],
        9 in v,
        bool(v),
        v.count(1),
        v(),
        hash(v),
        "%s" % (v,),
    )


class K:
    n = 0


@program
def class_attr_written(x):
    K.n = 5
    r = (x + K().n, K.n, getattr(K(), "n"))
    K.n = 0
    return r


class K2:
    n = 0

    def m(s):
        return 1


@program
def class_method_written(x):
    o = K2.m
    K2.m = lambda s: 2
    r = x + K2().m()
    K2.m = o
    return r


class KB:
    z = 1


class KD(KB):
    pass


@program
def class_attr_inherited(x):
    KB.z = 5
    r = (x + KD.z, KD().z)
    KB.z = 1
    return r


@program
def class_attr_deleted(x):
    KD.z = 5
    a = KD().z
    del KD.z
    return (x + a, KD().z)


@program
def inst_later(x):
    k = KD()
    KB.z = 7
    r = k.z
    KB.z = 1
    return x + r


class Shown:
    def __init__(s, n=1):
        s.n = n

    def __repr__(s):
        return f"U{s.n}"

    def __format__(s, spec):
        return f"<{spec}>"


class Sum(collections.namedtuple("P", "a b")):
    def __add__(s, o):
        return 1


@program
def formats(x):
    u = Shown()
    return (
        x + 1,
        "{a:>{w}} {b[k]}".format(a=u, w=5, b={"k": u}),
        "%s|%r|%5s|%d%%" % (u, u, u, 3),
        "%s" % u,
        "%(k)r" % {"k": u},
        "{!s:^9}".format(u),
        "%-*s|" % (6, u),
    )


@program
def wrong_formats(x):
    out = []
    for f in (
        lambda: "%s %s" % (Shown(),),
        lambda: "%s" % (Shown(), 1),
        lambda: "{}{}".format(Shown()),
        lambda: "{k}".format(Shown()),
        lambda: "%d" % (Shown(),),
        lambda: "%s" % (),
    ):
        try:
            f()
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    return (x + 1, out)


@program
def formats_of_tuples(x):
    return (
        x + 1,
        repr(Sum(1, 2)),
        "%s-%s" % Sum(1, Shown()),
        str([Shown(), (Shown(),)]),
        f"{[Shown(2)]}",
    )


@program
def formats_of_sizes(x):
    return (
        x + 1,
        "{}".format(x.shape),
        "%s" % (x.shape[1],),
        "{:>10}".format(str(x.dtype)),
        "%s" % x.shape[1:],
    )
