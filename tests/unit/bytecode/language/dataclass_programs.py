"""Dataclasses and named tuples, defined outside and made inside."""

import collections
import dataclasses
import typing
from dataclasses import dataclass, field

from tests.unit.bytecode.language import program


@dataclass
class Point:
    x: object
    y: object = 1
    tags: list = field(default_factory=list)

    def total(self):
        return self.x + self.y


@dataclass(frozen=True)
class Frozen:
    x: object
    k: int = 2


@dataclass(slots=True)
class Slotted:
    x: object
    k: int = 2


@dataclass(kw_only=True)
class Named:
    x: object
    k: int = 2


@dataclass(order=True)
class Ordered:
    rank: int
    x: object = field(compare=False)


@dataclass
class Derived(Point):
    z: object = None
    scale: dataclasses.InitVar[int] = 3
    total_: object = field(init=False, repr=False)

    def __post_init__(self, scale):
        self.total_ = self.x * scale


class Pair(typing.NamedTuple):
    a: object
    b: object = 2

    def total(self):
        return self.a + self.b


Triple = collections.namedtuple("Triple", "a b c", defaults=[3])


@program
def plain(x):
    p = Point(x)
    p.tags.append("t")
    return p.total(), p.tags, Point(x).tags


@program
def frozen(x):
    p = Frozen(x)
    try:
        p.k = 3
    except dataclasses.FrozenInstanceError as error:
        return p.x * p.k, str(error)


@program
def slotted(x):
    p = Slotted(x, k=3)
    p.k += 1
    return p.x * p.k


@program
def keyword_only(x):
    return Named(x=x, k=5).x + Named(x=x).k


@program
def ordered(x):
    a, b = Ordered(1, x), Ordered(2, x)
    return x + (a < b), max(a, b).rank, sorted([b, a])[0].rank, a == Ordered(1, x + 1)


@program
def post_init(x):
    d = Derived(x, z=3)
    return d.total_, d.z


@program
def replaced(x):
    return dataclasses.replace(Frozen(x), k=7).k * dataclasses.replace(Point(x), y=x + 1).y


@program
def as_dict(x):
    p = Point(x, y=Frozen(x), tags=[1])
    return dataclasses.asdict(p), dataclasses.astuple(Frozen(x))


@program
def fields_of(x):
    return x + len(dataclasses.fields(Point)), [f.name for f in dataclasses.fields(Derived)]


@program
def is_dataclass(x):
    return x + dataclasses.is_dataclass(Point), dataclasses.is_dataclass(3)


@program
def returned(x):
    return x + 1, Point(1, 2, ["a"]), Frozen(3), Slotted(4), Pair(1)


@program
def text(x):
    return x + 1, repr(Frozen(1)), str(Point(1, tags=[2]))


@program
def equality(x):
    return x + (Frozen(1) == Frozen(1)), Frozen(1) == 1, hash(Frozen(1)) == hash(Frozen(1))


@program
def as_key(x):
    return {Frozen(1): x, Frozen(2): x + 1}[Frozen(2)]


@program
def made_inside(x):
    @dataclass
    class Local:
        a: object
        b: int = 3

    return Local(x).a * Local(x).b


@program
def frozen_made_inside(x):
    @dataclass(frozen=True, order=True)
    class Local:
        a: int
        b: int = 3

    return x + (Local(1) < Local(2)), repr(Local(4))


@program
def match_args(x):
    match Point(x, 5):
        case Point(v, k):
            return v * k


@program
def named_tuple(x):
    p = Pair(x)
    a, b = p
    return p.total(), a * b, p._fields, p._replace(b=x).b, p._asdict(), p[0]


@program
def named_tuple_by_function(x):
    t = Triple(x, 2)
    return (
        t.a * t.b + t.c,
        t._fields,
        len(t),
        t[1:],
        Triple._make([x, 1, 2]),
        Triple._field_defaults,
    )


@program
def named_tuple_made_inside(x):
    local = collections.namedtuple("local", ["p", "q"])
    t = local(x, q=2)
    return t.p * t.q


@program
def named_tuple_class_made_inside(x):
    class Local(typing.NamedTuple):
        p: object
        q: int = 4

    return Local(x).p * Local(x).q


@program
def named_tuple_text(x):
    return x + 1, repr(Triple(1, 2)), Triple(1, 2) == (1, 2, 3), Triple(1, 2) < (1, 3)


@program
def attributes_of_dataclass(x):
    p = Point(x)
    return (
        x + 1,
        getattr(p, "x"),
        hasattr(p, "q"),
        [getattr(p, f.name) for f in dataclasses.fields(p)][1],
    )


@program
def inherited_field_order(x):
    @dataclass
    class A:
        a: int = 1

    @dataclass
    class B(A):
        b: object = None

    return B(2, x).b * B(2, x).a
