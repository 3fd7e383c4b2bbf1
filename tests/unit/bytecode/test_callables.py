"""What can be compiled and called, and how: methods, partials, properties, callable objects."""

import functools
import inspect
import io

import pytest
import torch

from minitorch2.errors import RecompileError
from tests.unit.bytecode.capturing import capture

X = torch.tensor([1.0, -2.0, 3.0])


def scale(x, k=2):
    """Multiply."""
    print(end="")
    return x * k


class Base:
    factor = 3

    def __init__(self, k):
        self.k = k

    def plain(self, x):
        print(end="")
        return x * self.k

    compiled = capture(plain)
    static = staticmethod(capture(lambda x: x + 1))
    static_inside = capture(staticmethod(lambda x: x + 1))
    of_class = classmethod(capture(lambda cls, x: x * cls.factor))
    of_class_inside = capture(classmethod(lambda cls, x: x * cls.factor))
    doubled = property(capture(lambda self: X * self.k * 2))
    thrice = functools.partialmethod(capture(lambda self, times, x: x * times * self.k), 3)

    @functools.cached_property
    @capture
    def once(self):
        return X * self.k

    def __call__(self, x):
        return x + self.k


class Derived(Base):
    factor = 7

    def compiled(self, x):
        return super().compiled(x) + 1

    compiled_super = capture(compiled)


BASE, DERIVED = Base(3), Derived(4)

CASES = {
    "instance": (lambda: BASE.compiled(X), X * 3),
    "class": (lambda: Base.compiled(BASE, X), X * 3),
    "super": (lambda: DERIVED.compiled(X), X * 4 + 1),
    "super inside": (lambda: DERIVED.compiled_super(X), X * 4 + 1),
    "class of derived": (lambda: Base.compiled(DERIVED, X), X * 4),
    "bound method": (lambda: capture(BASE.plain)(X), X * 3),
    "static": (lambda: BASE.static(X), X + 1),
    "static of class": (lambda: Base.static(X), X + 1),
    "static inside": (lambda: BASE.static_inside(X), X + 1),
    "class method": (lambda: DERIVED.of_class(X), X * 7),
    "class method of class": (lambda: Base.of_class(X), X * 3),
    "class method inside": (lambda: Derived.of_class_inside(X), X * 7),
    "property": (lambda: DERIVED.doubled, X * 8),
    "cached property": (lambda: Base(5).once, X * 5),
    "partial method": (lambda: BASE.thrice(X), X * 9),
    "callable object": (lambda: capture(BASE)(X), X + 3),
    "partial of compiled": (lambda: functools.partial(capture(scale), k=5)(X), X * 5),
    "compiled partial": (lambda: capture(functools.partial(scale, k=5))(X), X * 5),
    "compiled twice": (lambda: capture(capture(scale))(X, 4), X * 4),
    "keyword": (lambda: capture(scale)(k=3, x=X), X * 3),
    "module method": (lambda: capture(torch.nn.Flatten(0).forward)(X), X),
}


@pytest.mark.parametrize("name", CASES)
def test_called_from_python_and_from_compiled_code(name):
    call, wanted = CASES[name]
    outside = capture(lambda: call())
    for _ in range(2):
        assert torch.equal(call(), wanted)
        assert torch.equal(outside(), wanted)


def test_a_compiled_function_looks_like_the_users():
    scale.tag = "kept"
    compiled = capture(scale)
    assert inspect.signature(compiled) == inspect.signature(scale)
    assert (compiled.__name__, compiled.__qualname__, compiled.__doc__) == (
        "scale",
        "scale",
        "Multiply.",
    )
    assert compiled.__wrapped__ is scale and inspect.unwrap(compiled) is scale
    assert compiled.tag == "kept"
    compiled.tag = "own"
    assert scale.tag == "kept"
    assert inspect.ismethod(BASE.compiled) and BASE.compiled.__self__ is BASE


def test_new_code_of_a_compiled_function_serves_the_next_call():
    """Running new code under the entries of the old one ended in a TypeError of ours."""

    def function(x, k=2.5, *, j=1):
        return x * k + j

    compiled = capture(function)
    assert torch.equal(compiled(X), X * 2.5 + 1)
    for _ in range(2):  # as a notebook does that reloads a file
        function.__code__ = (lambda x, k, *, j: x - k - j).__code__
        function.__defaults__, function.__kwdefaults__ = (2.0 + 0.5,), {"j": 1}
        assert torch.equal(compiled(X), X - 3.5)
    assert len(compiled.recompiles()) == 0


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("__code__", (lambda x: x - 100).__code__),
        ("__defaults__", (5,)),
        ("__kwdefaults__", {"j": 0}),
    ],
)
def test_calls_of_a_compiled_function_are_not_bound_to_parameters_that_are_gone(part, value):
    def function(x, k=2, *, j=1):
        return x * k + j

    compiled = capture(function)
    assert torch.equal(compiled(X), X * 2 + 1)
    setattr(function, part, value)
    with pytest.raises(RecompileError, match="were replaced after it was compiled"):
        compiled(X)
    arguments = {} if part == "__code__" else {"k": 7, "j": 0}
    assert torch.equal(capture(function)(X, **arguments), function(X, **arguments))


class Halver:
    def halve(self, x):
        return x / 2


def test_new_code_of_a_method_is_noticed():
    halver, original = Halver(), Halver.halve.__code__
    compiled = capture(lambda x: halver.halve(x))
    assert torch.equal(compiled(X), X / 2)
    try:
        Halver.halve.__code__ = (lambda self, x: x / 4).__code__
        assert torch.equal(compiled(X), X / 4)
    finally:
        Halver.halve.__code__ = original
    assert torch.equal(compiled(X), X / 2)


def test_functions_called_by_compiled_code_are_followed_when_they_change():
    def inner(x, k=2):
        return x * k

    def outer(x):
        print(end="")
        return inner(x) + 1

    compiled = capture(outer)
    assert torch.equal(compiled(X), X * 2 + 1)
    inner.__defaults__ = (5,)
    assert torch.equal(compiled(X), X * 5 + 1)
    inner.__code__ = (lambda x, k: x - k).__code__
    assert torch.equal(compiled(X), X - 5 + 1)


class Shouting(io.StringIO):
    """Overrides a method that is written in C."""

    def write(self, text):
        return super().write(text.upper())


class Counted(dict):
    """Overrides methods that are written in C."""

    def __getitem__(self, key):
        return super().__getitem__(key) + 1

    def __len__(self):
        return 50


def test_a_bound_method_of_a_base_class_is_not_the_override_behind_a_break():
    def function(x, file):
        write = super(Shouting, file).write
        print(end="")
        write("b")
        file.write("c")
        return x + 1, file.getvalue()

    assert capture(function)(X, Shouting())[1] == "bC"


def test_a_bound_method_of_a_base_class_from_outside_is_not_the_override():
    table = Counted(a=1)
    item, length = super(Counted, table).__getitem__, super(Counted, table).__len__

    def function(x):
        return x * item("a"), length(), table["a"], len(table)

    assert capture(function, fullgraph=True)(X)[1:] == (1, 2, 50)
