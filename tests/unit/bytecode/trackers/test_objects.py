"""Classes and instances: attribute lookup, operators, construction, mutation, exceptions."""

from __future__ import annotations

import contextlib
import enum
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
import torch

import minitorch2
from tests.unit.bytecode.trackers.program import check

X = torch.arange(4.0)


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"

    @property
    def factor(self) -> int:
        return 2 if self is Mode.FAST else 3


class Level(enum.IntEnum):
    LOW = 1


class Base:
    shared = 10

    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def apply(self, x: Any) -> Any:
        return x * self.scale + self.shared

    @property
    def double(self) -> Any:
        return self.scale * 2

    @double.setter
    def double(self, value: Any) -> None:
        self.scale = value / 2

    @classmethod
    def make(cls, scale: Any) -> Any:
        return cls(scale)

    @staticmethod
    def twice(x: Any) -> Any:
        return x * 2

    @cached_property
    def heavy(self) -> Any:
        return self.scale + 100

    def __call__(self, x: Any) -> Any:
        return self.apply(x)


class Derived(Base):
    def __init__(self, scale: Any, extra: Any = 1) -> None:
        super().__init__(scale)
        self.extra = extra

    def apply(self, x: Any) -> Any:
        return super().apply(x) - self.extra

    def __getattr__(self, name: str) -> Any:
        if name == "dynamic":
            return self.extra + 5
        raise AttributeError(name)


class Vector:
    def __init__(self, v: Any) -> None:
        self.v = v

    def __add__(self, other: Any) -> Any:
        return Vector(self.v + (other.v if isinstance(other, Vector) else other))

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Any:
        self.v = self.v + other
        return self

    def __getitem__(self, i: int) -> Any:
        return self.v[i]

    def __len__(self) -> int:
        return 3

    def __contains__(self, item: Any) -> bool:
        return item == 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector)

    def __neg__(self) -> Any:
        return Vector(-self.v)

    def __enter__(self) -> Any:
        self.v = self.v + 1
        return self

    def __exit__(self, *error: Any) -> bool:
        self.v = self.v * 2
        return True


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


@dataclass
class Config:
    width: int = 3
    layers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.layers.append(self.width)


@dataclass(frozen=True)
class Frozen:
    value: Any


class Record(OrderedDict[str, Any]):
    """A dict whose entries are attributes too, as model outputs are."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        super().__setattr__(name, value)

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self.keys())


def test_attributes_methods_properties() -> None:
    def program(x: torch.Tensor, o: Any) -> Any:
        return (
            o(x),
            o.double,
            o.make(2).apply(x),
            o.twice(x),
            type(o).shared,
            o.dynamic,
            hasattr(o, "nothing"),
            getattr(o, "nothing", 3),
            isinstance(o, Base),
            o.heavy,
        )

    check(program, X, Derived(3))


def test_attribute_writes_are_seen_outside() -> None:
    def program(x: torch.Tensor, o: Any) -> Any:
        o.scale = o.scale + 1
        o.scale = o.scale + 1
        o.new = x + o.scale
        o.double = 8
        del o.extra
        return o.apply(x) if hasattr(o, "extra") else o.scale

    check(program, X, Derived(3))


def test_construction_inside() -> None:
    def program(x: torch.Tensor) -> Any:
        o = Derived(x.shape[0], extra=x)
        o.more = [o.extra]
        return o, o(x), Base.make(2), Slotted(x).a

    result = check(program, X)
    assert type(result[0]) is Derived and result[0].more[0] is result[0].extra


def test_construction_that_does_not_escape() -> None:
    check(lambda x: Derived(2, 3)(x), X)


def test_operators_of_objects() -> None:
    def program(x: torch.Tensor) -> Any:
        a = Vector(x)
        b = a + Vector(x) + 1
        c = 1 + a
        a += 5
        return b.v, c.v, a.v, a[0], len(a), 7 in a, 8 in a, a == b, a != b, (-a).v, bool(a)

    check(program, X)


def test_mutable_argument_objects() -> None:
    def program(x: torch.Tensor, v: Any, s: Any) -> Any:
        with v as entered:
            entered.v = entered.v - x
        s.b = s.a + x
        return v is entered

    v = Vector(torch.ones(4))
    check(lambda x, v: program(x, v, v) if False else (v.v + x), X, v)
    s = Slotted(1)
    s.b = 2
    import minitorch2

    assert minitorch2.compile(program, backend="eager")(X, v, s) is True
    assert torch.equal(v.v, (torch.ones(4) + 1 - X) * 2) and torch.equal(s.b, X + 1)


def test_dataclasses() -> None:
    def program(x: torch.Tensor, c: Any) -> Any:
        made = Config(width=5)
        frozen = Frozen(x + c.width)
        return made, frozen, made.layers[0] + x, c == Config(3), c.layers

    check(program, X, Config())


def test_dict_subclass_with_attributes() -> None:
    def program(x: torch.Tensor) -> Any:
        r = Record()
        r.first = x + 1
        r["plain"] = 2
        return r, r.to_tuple(), r["first"], list(r), len(r), "plain" in r

    result = check(program, X)[0]
    assert type(result) is Record and result.first is result["first"]


def test_model_output() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")

    def program(x: torch.Tensor) -> Any:
        made = outputs.BaseModelOutputWithPooling(last_hidden_state=x + 1, pooler_output=x * 2)
        return made, made[0], made.pooler_output, made.to_tuple(), made["last_hidden_state"]

    result = check(program, X)[0]
    assert type(result) is outputs.BaseModelOutputWithPooling
    assert result.hidden_states is None and result[1] is result.pooler_output


def test_enums() -> None:
    def program(x: torch.Tensor, mode: Mode) -> Any:
        if mode is Mode.FAST or mode == Mode.SLOW:
            x = x * mode.factor
        return x + len(mode.value) + Level.LOW, Mode("slow"), Mode["FAST"].name, list(Mode)

    check(program, X, Mode.FAST)


def test_classes_as_values() -> None:
    def program(x: torch.Tensor) -> Any:
        cls = Derived if x.ndim == 1 else Base
        return cls(2)(x), cls.__name__, issubclass(cls, Base), type(cls(1)) is Derived, cls.twice(x)

    check(program, X)


def test_class_attribute_write() -> None:
    def program(x: torch.Tensor) -> Any:
        Base.shared = 11
        return Base(1).apply(x)

    try:
        check(program, X)
    finally:
        Base.shared = 10


def test_changed_method_recompiles() -> None:
    import minitorch2

    class Local:
        def f(self, x: Any) -> Any:
            return x + 1

    compiled = minitorch2.compile(lambda o, x: o.f(x), backend="eager")
    o = Local()
    assert torch.equal(compiled(o, X), X + 1)
    Local.f = lambda self, x: x + 2  # type: ignore[method-assign]
    assert torch.equal(compiled(o, X), X + 2)
    o.f = lambda x: x + 3  # type: ignore[method-assign]
    assert torch.equal(compiled(o, X), X + 3)


def test_override_defined_later_recompiles() -> None:
    import minitorch2

    class Parent:
        bias = 1

        def f(self, x: Any) -> Any:
            return x + self.bias

    class Child(Parent):
        pass

    compiled, child = minitorch2.compile(lambda o, x: o.f(x), backend="eager"), Child()
    assert torch.equal(compiled(child, X), X + 1)
    Child.bias = 2
    assert torch.equal(compiled(child, X), X + 2)
    Child.f = lambda self, x: x * 3  # type: ignore[method-assign]
    assert torch.equal(compiled(child, X), X * 3)


def test_exceptions() -> None:
    class Special(ValueError):
        pass

    def risky(x: Any, fail: bool) -> Any:
        if fail:
            raise Special("message", 3)
        return x

    def program(x: torch.Tensor) -> Any:
        trace = []
        for fail in (True, False):
            try:
                x = risky(x, fail) + 1
            except Special as error:
                trace.append(error.args)
            except ValueError:
                trace.append("wrong")
            else:
                trace.append("else")
            finally:
                trace.append("finally")
        return x, trace

    check(program, X)


def test_exception_that_leaves() -> None:
    def program(x: torch.Tensor) -> Any:
        y = x + 1
        if y.ndim == 1:
            raise ValueError("wrong number of dimensions")
        return y

    check(program, X, graphs=0, breaks=1)


def test_context_managers() -> None:
    @contextlib.contextmanager
    def scoped(log: list[Any]) -> Any:
        log.append("in")
        try:
            yield 5
        finally:
            log.append("out")

    def program(x: torch.Tensor) -> Any:
        log: list[Any] = []
        with contextlib.nullcontext(3) as three, scoped(log) as five:
            x = x + three + five
        with contextlib.suppress(KeyError):
            raise KeyError
        return x, log

    check(program, X)


class Doubling:
    def __get__(self, owner: Any, cls: type) -> Any:
        return 5 if owner is None else owner.q * 2

    def __set__(self, owner: Any, value: Any) -> None:
        owner.q = value


class Described:
    d = Doubling()


class Missing(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return key * 2


class Countdown:
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Indexed:
    def __getitem__(self, i: int) -> int:
        if i > 2:
            raise IndexError
        return i


def test_python_descriptors() -> None:
    def program(x: torch.Tensor) -> Any:
        o = Described()
        o.d = x + 1
        return o.d, Described.d

    check(program, X)


def test_missing_keys_and_user_iterators() -> None:
    def program(x: torch.Tensor) -> Any:
        d = Missing(a=1)
        pairs = list(zip(Countdown(2), "ab", strict=True))
        return (
            d["a"],
            d["zz"],
            [x + i for i in Countdown(3)],
            pairs,
            list(Indexed()),
            2 in Indexed(),
        )

    check(program, X)


class Looked:
    """Like the configurations of some model libraries: every read runs Python."""

    def __getattribute__(self, name: str) -> object:
        return super().__getattribute__(name)


def test_absence_from_an_object_with_its_own_lookup_is_guarded() -> None:
    def program(x: torch.Tensor, looked: Looked) -> torch.Tensor:
        return x * 2 if hasattr(looked, "wide") else x + 1

    compiled, looked, x = minitorch2.compile(program, fullgraph=True), Looked(), torch.ones(3)
    torch.testing.assert_close(compiled(x, looked), x + 1)
    looked.wide = True  # type: ignore[attr-defined]
    torch.testing.assert_close(compiled(x, looked), x * 2)
    del looked.wide  # type: ignore[attr-defined]
    torch.testing.assert_close(compiled(x, looked), x + 1)
    Looked.wide = True  # type: ignore[attr-defined]
    try:
        torch.testing.assert_close(compiled(x, looked), x * 2)
    finally:
        del Looked.wide  # type: ignore[attr-defined]


class Reflecting:
    """Its operators are asked when a tensor is on the left."""

    def __radd__(self, other: Any) -> Any:
        return "radd", other

    def __rmul__(self, other: Any) -> Any:
        return other * 3

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented

    def __gt__(self, other: Any) -> Any:
        return "gt"

    def __eq__(self, other: object) -> Any:
        return "eq"


def test_operators_of_a_tensor_and_an_object() -> None:
    def program(x: torch.Tensor) -> Any:
        own, plain = Reflecting(), Plain()
        y = x
        y *= own
        try:
            x - own
        except TypeError as error:
            text = str(error)
        return x + own, y, x < own, x == own, own == x, x == plain, x != plain, text

    check(program, X)


class Plain:
    """Without operators."""


class Subscripted:
    def __class_getitem__(cls, key: Any) -> Any:
        return cls.__name__, key


def test_classes_with_their_own_subscripts() -> None:
    check(lambda x: (x + 1, Subscripted[3], Subscripted[x]), X)


def test_a_keyword_that_is_given_twice() -> None:
    def program(x: torch.Tensor) -> Any:
        def inner(**named: Any) -> Any:
            return named

        errors = []
        for function in (inner, dict, torch.sin, Plain, test_operators_of_objects):
            try:
                function(**{"a": 1}, **{"a": 2})  # noqa: PIE804
            except TypeError as error:
                errors.append(str(error))
        return x + 1, errors

    check(program, X)
