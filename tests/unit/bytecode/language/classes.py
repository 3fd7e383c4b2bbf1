"""Classes of the user: made inside, special methods, descriptors, metaclasses."""

import abc
import numbers
from collections.abc import Iterable, Mapping, Sequence, Sized

import torch

from tests.unit.bytecode.language import program


@program
def class_statement(x):
    class Point:
        scale = 2

        def __init__(self, value):
            self.value = value

        def scaled(self):
            return self.value * self.scale

    return Point(x).scaled()


@program
def class_with_bases(x):
    class Base:
        def go(self, x):
            return x + 1

    class Left(Base):
        def go(self, x):
            return super().go(x) * 2

    class Right(Base):
        def go(self, x):
            return super().go(x) * 3

    class Both(Left, Right):
        def go(self, x):
            return super(Both, self).go(x) + 5

    return Both().go(x), [cls.__name__ for cls in Both.__mro__]


@program
def class_over_closure(x):
    k = x + 1

    class Holder:
        value = 3

        def get(self):
            return k * self.value

    return Holder().get()


@program
def class_by_type(x):
    made = type("Made", (), {"go": lambda self, x: x * 2, "n": 3})
    return made().go(x) + made.n


@program
def class_in_a_loop(x):
    for i in range(3):

        class Step:
            k = i

            @classmethod
            def go(cls, x):
                return x + cls.k

        x = Step.go(x)
    return x


class Vector:
    def __init__(self, *parts):
        self.parts = list(parts)

    def __add__(self, other):
        return Vector(*[a + b for a, b in zip(self.parts, other.parts)])

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __mul__(self, k):
        return Vector(*[a * k for a in self.parts])

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.parts, other.parts))

    def __eq__(self, other):
        return isinstance(other, Vector) and len(self) == len(other)

    def __hash__(self):
        return len(self)

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, i):
        return Vector(*self.parts[i]) if isinstance(i, slice) else self.parts[i]

    def __setitem__(self, i, value):
        self.parts[i] = value

    def __delitem__(self, i):
        del self.parts[i]

    def __iter__(self):
        return iter(self.parts)

    def __reversed__(self):
        return iter(self.parts[::-1])

    def __contains__(self, value):
        return any(value is part for part in self.parts)

    def __bool__(self):
        return len(self.parts) > 1

    def __call__(self, k):
        return [part + k for part in self.parts]

    def __repr__(self):
        return f"Vector of {len(self)}"

    def __format__(self, spec):
        return f"<{spec}:{len(self)}>"

    def __index__(self):
        return len(self)

    def __int__(self):
        return 10 * len(self)

    def __float__(self):
        return len(self) / 2

    def __round__(self, digits=0):
        return digits

    def __lt__(self, other):
        return len(self) < len(other)

    def __iadd__(self, other):
        self.parts.append(other)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.parts.clear()


@program
def arithmetic(x):
    a, b = Vector(x, x + 1), Vector(x * 2, x)
    return list(sum([a, b])), list(-(3 * a)), a @ b


@program
def container_protocol(x):
    v = Vector(x, x + 1, x + 2)
    v[0] = v[1] * 2
    del v[1]
    return list(v), list(reversed(v)), len(v), v[0] in v, list(v[:1]), bool(v)


@program
def called_and_formatted(x):
    v = Vector(x, x)
    return v(1), f"{v} {v:spec} {v!r}", str(v), repr([v])


@program
def conversions(x):
    v = Vector(x, x)
    return x + 1, [10, 20, 30][v], int(v), float(v), round(v, 3), range(v), v < Vector(x)


@program
def as_keys(x):
    table = {Vector(x): x, Vector(x, x): x + 1}
    return x + 1, table[Vector(x + 5)], len({Vector(x), Vector(x * 2)})


@program
def in_place_and_with(x):
    v = Vector(x)
    v += x + 1
    with v as w:
        y = w[1]
    return y, len(v)


class Dynamic:
    def __init__(self, x):
        object.__setattr__(self, "store", {"x": x})

    def __getattr__(self, name):
        try:
            return self.store[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self.store[name] = value

    def __delattr__(self, name):
        del self.store[name]


@program
def dynamic_attributes(x):
    owner = Dynamic(x)
    owner.y = owner.x + 1
    del owner.x
    return owner.y, hasattr(owner, "x"), getattr(owner, "z", 3)


class Watching:
    def __init__(self):
        self.seen = []

    def __getattribute__(self, name):
        if name != "seen":
            object.__getattribute__(self, "seen").append(name)
        return super().__getattribute__(name)

    def go(self, x):
        return x + 1


@program
def every_attribute_watched(x):
    owner = Watching()
    return owner.go(x), owner.seen


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, cls=None):
        return self if owner is None else getattr(owner, self.name)

    def __set__(self, owner, value):
        setattr(owner, self.name, value * 2)


class WithDescriptor:
    value = Typed()

    def __init__(self, value):
        self.value = value


@program
def descriptor(x):
    owner = WithDescriptor(x)
    owner.value = owner.value + 1
    return owner.value, WithDescriptor.value.name


@program
def descriptor_made_inside(x):
    class Owner:
        value = Typed()

    owner = Owner()
    owner.value = x
    return owner.value, Owner.__dict__["value"].name


class Meta(type):
    registry: dict = {}

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = cls.__name__
        return made

    def __len__(cls):
        return 7

    def __getitem__(cls, k):
        return cls, k

    def __contains__(cls, k):
        return k == 1

    def __iter__(cls):
        return iter([1, 2])

    @property
    def label(cls):
        return cls.__name__.lower()


class Tagged(metaclass=Meta):
    def __init__(self, x):
        self.x = x


@program
def metaclass(x):
    made = Tagged(x)
    return made.x + len(Tagged), made.tag, Tagged.label, 1 in Tagged, list(Tagged), Tagged[2][1]


@program
def metaclass_made_inside(x):
    class Counting(type):
        def __new__(mcs, name, bases, namespace, **options):
            cls = super().__new__(mcs, name, bases, namespace)
            cls.k = options.get("k", 0)
            return cls

    class Made(metaclass=Counting, k=4):
        pass

    return x + Made.k, type(Made).__name__


@program
def init_subclass(x):
    names = []

    class Base:
        def __init_subclass__(cls, scale=1, **options):
            super().__init_subclass__(**options)
            cls.scale = scale
            names.append(cls.__name__)

    class Child(Base, scale=5):
        pass

    return x * Child.scale, names


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x


@program
def slots(x):
    owner = Slotted(x)
    try:
        owner.z = 1
    except AttributeError:
        owner.y = owner.x + 1
    return owner.y, hasattr(owner, "__dict__"), Slotted.__slots__


class Temperature:
    def __init__(self, value):
        self._value = value

    @property
    def value(self):
        return self._value + 1

    @value.setter
    def value(self, new):
        self._value = new * 2

    @value.deleter
    def value(self):
        self._value = None


@program
def properties(x):
    t = Temperature(x)
    t.value = t.value * 3
    y = t.value
    del t.value
    return y, t._value, type(t).value.fset is not None


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x): ...


class Square(Shape):
    def area(self, x):
        return x * x


@program
def abstract(x):
    try:
        Shape()
    except TypeError:
        return Square().area(x), isinstance(Square(), Shape)


@program
def abstract_made_inside(x):
    class Base(abc.ABC):
        @abc.abstractmethod
        def go(self): ...

    class Done(Base):
        def go(self):
            return x + 1

    return Done().go()


@program
def isinstance_of_abc(x):
    values = [[1], (1,), {1: 2}, {1}, 3, 2.5, "a", x]
    kinds = [Sequence, Mapping, Sized, Iterable, numbers.Number, numbers.Integral]
    return [[isinstance(value, kind) for kind in kinds] for value in values], x + 1


@program
def type_of_instance(x):
    v = type(Vector(x))(x, x + 1)
    return list(v), type(v) is Vector, type(v).__name__, type([1])((2, 3)), type(x) is torch.Tensor


@program
def static_and_class_methods(x):
    class Tools:
        k = 3

        @staticmethod
        def twice(x):
            return x * 2

        @classmethod
        def scaled(cls, x):
            return cls.twice(x) * cls.k

    return Tools.scaled(x), Tools().twice(x)


@program
def super_forms(x):
    class A:
        def go(self, x):
            return x + 1

        @classmethod
        def make(cls):
            return cls.__name__

    class B(A):
        def go(self, x):
            plain = super().go(x)
            explicit = super(B, self).go(x)
            direct = A.go(self, x)
            return plain + explicit * direct

        @classmethod
        def make(cls):
            return super().make() + "!"

    return B().go(x), B.make()


@program
def method_replaced_on_instance(x):
    owner = Temperature(x)
    owner.go = lambda k: x * k
    bound = owner.go
    return bound(3)


@program
def class_attribute_changes(x):
    class Counter:
        n = 0

    for _ in range(3):
        Counter.n += 1
    return x + Counter.n


@program
def subclass_of_builtins(x):
    class Names(list):
        def total(self):
            return sum(self)

    class Table(dict):
        def __missing__(self, key):
            return x * key

    names = Names([x, x + 1])
    names.append(x)
    return names.total(), Table(a=1)[3], len(names)


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@program
def own_iterator(x):
    return [x * n for n in Countdown(3)], sum(Countdown(4)), max(Countdown(3))


@program
def own_getitem_iterates(x):
    class Squares:
        def __getitem__(self, i):
            if i > 3:
                raise IndexError
            return x * i

    return sum(Squares()), list(Squares())[1]


@program
def new_and_singleton(x):
    class One:
        made = None

        def __new__(cls):
            if cls.made is None:
                cls.made = super().__new__(cls)
            return cls.made

    return x + (One() is One())


@program
def not_implemented_falls_to_the_other(x):
    class Meters:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            return NotImplemented

        def __rsub__(self, other):
            return self.v - other

    class Feet(Meters):
        def __radd__(self, other):
            return self.v + other.v

    return Meters(x) + Feet(x * 2), 3 - Meters(x)


@program
def equality_without_hash(x):
    class Pair:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

    try:
        hash(Pair(1))
    except TypeError as error:
        return x + (Pair(1) == Pair(1)), Pair(1) != Pair(2), str(error)[:15]


@program
def class_getitem(x):
    class Box:
        def __class_getitem__(cls, k):
            return cls.__name__, k

    return x + Box[3][1]


@program
def instance_checks_by_metaclass(x):
    class Even(type):
        def __instancecheck__(cls, value):
            return value % 2 == 0

    class EvenNumber(metaclass=Even):
        pass

    return x + isinstance(4, EvenNumber) * 2 + isinstance(3, EvenNumber)


@program
def attributes_by_name(x):
    class Bag:
        pass

    bag = Bag()
    for i, name in enumerate(["a", "b"]):
        setattr(bag, name, x + i)
    names = sorted(vars(bag))
    delattr(bag, "a")
    return bag.b, names, hasattr(bag, "a"), bag.__dict__


@program
def directory_of_instance(x):
    class Bag:
        kind = 1

    bag = Bag()
    bag.value = x
    return x + 1, [name for name in dir(bag) if not name.startswith("__")]


@program
def bound_methods_compare(x):
    v = Vector(x)
    return x + (v.__len__ == v.__len__) + (
        v.__call__.__self__ is v
    ), v.__call__.__func__ is Vector.__call__


@program
def class_names(x):
    return x + 1, Vector.__name__, Vector.__qualname__, Vector.__module__[-7:], Vector.__bases__


@program
def mutable_class_attribute(x):
    class Registry:
        items: list = []

    Registry.items.append(x)
    Registry.items.append(x + 1)
    return sum(Registry.items)


@program
def annotations_of_a_class(x):
    class Config:
        a: int
        b: "str" = "t"

    return x + len(Config.__annotations__), Config.b


@program
def nested_class_and_qualname(x):
    class Outer:
        class Inner:
            k = 2

    return x * Outer.Inner.k, Outer.Inner.__qualname__


@program
def decorated_class(x):
    def registered(cls):
        cls.k = 5
        return cls

    @registered
    class Thing:
        pass

    return x + Thing.k
