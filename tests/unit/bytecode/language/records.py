"""Named tuples and data classes whose class exists outside: derived, compared, wrong."""

import collections
import copy
import dataclasses
import typing
from dataclasses import dataclass, field

from tests.unit.bytecode.language import program

P = collections.namedtuple("P", "a b")


class NT(typing.NamedTuple):
    a: object
    b: int = 3

    def s(self):
        return self.a * self.b


class SubNT(NT):
    def t(self):
        return self.s() + 1

    @property
    def twice(self):
        return self.a * 2


class NewNT(collections.namedtuple("NewNT", "u v")):
    __slots__ = ()

    def __new__(cls, u, v=5):
        return super().__new__(cls, u, v + 1)


@dataclass
class D:
    x: object
    k: int = 2
    items: list = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FS:
    x: int
    y: tuple = ()


@dataclass(frozen=True)
class FT:
    t: object
    n: str = "n"


@dataclass
class PI:
    a: object
    b: dataclasses.InitVar[int] = 2
    c: object = field(init=False)

    def __post_init__(self, b):
        self.c = self.a * b


@dataclass(kw_only=True, slots=True, order=True)
class KS:
    r: int
    x: object = field(compare=False, repr=False, default=None)


@dataclass
class Base:
    a: object


@dataclass
class Child(Base):
    b: object = None

    def total(self):
        return self.a + (0 if self.b is None else self.b)


@program
def subnt(x):
    p = SubNT(x, 2)
    return (
        p.t(),
        p.twice,
        p._replace(a=x + 1).t(),
        isinstance(p, tuple),
        p == (p.a, 2) if False else len(p),
        [*p][1],
        type(p) is SubNT,
    )


@program
def newnt(x):
    p = NewNT(x)
    return (p.u * p.v, p)


@program
def newnt_make(x):
    p = NewNT._make([x, 1])
    return (p.u * p.v, p._asdict()["v"])


@program
def nt_hash(x):
    return (
        x + 1,
        hash(P(1, 2)) == hash((1, 2)),
        {P(1, 2): 3}[1, 2],
        P(1, 2) in {P(1, 2)},
        P(1, 2) < P(1, 3),
        max(P(1, 2), P(3, 1)),
    )


@program
def nt_wrong(x):
    try:
        P(1)
    except TypeError as e:
        return (x + 1, str(e))


@program
def nt_wrong2(x):
    try:
        P(1, 2, 3)
    except TypeError as e:
        return (x + 1, str(e))


@program
def nt_wrong3(x):
    try:
        P(1, c=3, b=2)
    except TypeError as e:
        return (x + 1, str(e))


@program
def nt_setattr(x):
    try:
        P(1, 2).a = 5
    except AttributeError as e:
        return (x + 1, str(e))


@program
def nt_replace_wrong(x):
    try:
        P(1, 2)._replace(z=5)
    except (ValueError, TypeError) as e:
        return (x + 1, str(e))


@program
def nt_ops(x):
    return (
        x + 1,
        P(1, 2) + (3,),
        P(1, 2) * 2,
        P(1, 2).count(1),
        P(1, 2).index(2),
        P(1, 2)[::-1],
        P(1, 2)[-1],
        reversed(P(1, 2)).__next__(),
    )


@program
def nt_match(x):
    match P(x, 2):
        case P(a=t, b=2):
            return t * 3


@program
def nt_match2(x):
    match NT(x, 2):
        case NT(t, 3):
            return t
        case NT(t, k):
            return t * k


@program
def nt_repr(x):
    return (x + 1, repr(P(1, "a")), f"{P(1, 2)}", str(NT(1)), f"{P(1, 2)!r:>20}")


@program
def nt_doc(x):
    return (x + 1, P.__doc__, P._fields, P.a.__doc__, NT.__annotations__["b"], NT._field_defaults)


@program
def dc_state(x):
    d = D(x)
    d.items.append(d.x + 1)
    d.k += 1
    d.extra = x
    return (d, d.items[0])


@program
def dc_fs(x):
    a = FS(1, (2,))
    b = dataclasses.replace(a, x=3)
    return (
        x + b.x,
        a,
        b,
        a == FS(1, (2,)),
        hash(a) == hash(FS(1, (2,))),
        repr(b),
        {a: 1}[FS(1, (2,))],
    )


@program
def dc_fs_frozen(x):
    a = FS(1)
    try:
        a.x = 3
    except dataclasses.FrozenInstanceError as e:
        m = str(e)
    try:
        del a.x
    except dataclasses.FrozenInstanceError as e:
        m += str(e)
    return (x + 1, m)


@program
def dc_pi(x):
    p = PI(x, b=4)
    return (p.c, p, [f.name for f in dataclasses.fields(p)], PI.b)


@program
def dc_replace_pi(x):
    return dataclasses.replace(PI(x, b=4), a=x + 1, b=5).c


@program
def dc_ks(x):
    return (
        x + 1,
        sorted([KS(r=2), KS(r=1)]),
        KS(r=1) < KS(r=2),
        KS(r=1, x=3) == KS(r=1),
        repr(KS(r=3)),
    )


@program
def dc_child(x):
    return (
        Child(x, x).total(),
        dataclasses.asdict(Child(x, [Base(x)])),
        dataclasses.astuple(Child(1, (Base(2),))),
    )


@program
def dc_wrong(x):
    try:
        D()
    except TypeError as e:
        return (x + 1, str(e))


@program
def dc_isd(x):
    return (
        x + 1,
        dataclasses.is_dataclass(D(x)),
        dataclasses.is_dataclass(D),
        D.__dataclass_fields__["k"].default,
        D.__match_args__,
    )


@program
def dc_dict_factory(x):
    return dataclasses.asdict(D(x), dict_factory=collections.OrderedDict)


@program
def dc_copy(x):
    d = D(x, items=[x])
    e = copy.copy(d)
    f = copy.deepcopy(D(1, items=[[2]]))
    return (e.items is d.items, e.x + 1, f, f.items[0])


@program
def dc_fields_meta(x):
    return (
        x + 1,
        [
            (f.name, f.type if isinstance(f.type, str) else f.type.__name__, f.init, f.repr)
            for f in dataclasses.fields(KS)
        ],
    )
