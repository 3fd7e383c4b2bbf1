"""Objects that are equal only to themselves, beside operands that decide otherwise."""

import collections
import functools
import operator
import types
import typing

import numpy
import pytest
import torch

import minitorch2


class EqualToAll:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


class Owner:
    def method(self):
        pass


def function():
    pass


OBJECTS = {
    "a class of Python": int,
    "a class": Owner,
    "a function": function,
    "a built-in function": len,
    "a function of PyTorch": torch.sin,
    "a bound method": Owner().method,
    "a method of a class in C": list.append,
    "a special form": typing.Union,
    "a type variable": typing.TypeVar("T"),
    "a module": types,
    "a package": torch,
    "a ufunc": numpy.add,
    "a dtype": torch.float32,
    "a neural network": torch.nn.Linear(1, 1),
    "an object": Owner(),
    "a property": property(function),
    "a constant": None,
}


@pytest.mark.parametrize("thing", OBJECTS.values(), ids=OBJECTS.keys())
def test_a_known_object_leaves_equality_to_the_other_operand(thing):
    def program(x, one, other):
        return x + 1, one == other, one != other, other == one, one in (other,), [other].count(one)

    compiled = minitorch2.compile(program, backend="eager", fullgraph=True)
    for other in (EqualToAll(), thing, function, types, typing.Union, 3):
        x = torch.ones(1)
        assert compiled(x, thing, other)[1:] == program(x, thing, other)[1:], other


@pytest.mark.parametrize("thing", [functools.partial(function), operator.itemgetter(1)])
def test_a_missing_method_of_a_known_object_is_a_break(thing):
    def program(x):
        return x + 1, thing == 3

    with pytest.raises(minitorch2.errors.GraphBreakError, match="__eq__"):
        minitorch2.compile(program, fullgraph=True)(torch.ones(1))


@pytest.mark.parametrize(
    "key", [numpy.float32(1), numpy.int64(1), slice(1), types.MappingProxyType({1: 2})]
)
def test_a_key_is_not_taken_for_an_object_without_a_hash_of_its_own(key):
    """NumPy's scalars are the keys that equal numbers are; others cannot be keys."""

    def program(x, key):
        try:
            return x + 1, key in {1: 2}, {1: 2}.get(key), key in {1.0}
        except TypeError as error:
            return x + 1, str(error)

    x = torch.ones(1)
    assert minitorch2.compile(program, backend="eager")(x, key)[1:] == program(x, key)[1:]


def test_methods_of_a_bound_method():
    class Counter:
        def count(self, step=1):
            return step

    def program(x, one):
        return x + 1, one.count.__call__(5), one.count.__class__, one.count.__eq__(one.count)

    x, one = torch.ones(1), Counter()
    compiled = minitorch2.compile(program, backend="eager", fullgraph=True)
    assert compiled(x, one)[1:] == program(x, one)[1:]


MISTAKES = {
    "orders of a class": lambda: int > Owner(),
    "a slice of a deque": lambda: collections.deque([1, 2]).__getitem__(slice(1)),
    "typing.Any as a class": lambda: isinstance([], typing.Any),
    "a list as a name": lambda: getattr(3, []),
    "a tuple as a format": lambda: format([1], ()),
    "a dict with a factory as a number": lambda: complex(collections.defaultdict(list)),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_raise_the_error_of_cpython(mistake):
    def program(x):
        try:
            return x + 1, mistake()
        except TypeError as error:
            return x - 1, str(error).replace("collections.", "")

    x = torch.ones(1)
    assert minitorch2.compile(program, backend="eager")(x)[1:] == program(x)[1:]


def test_the_text_of_a_mapping_proxy():
    def program(x, proxy):
        return x + 1, repr(proxy), str(proxy), f"{proxy!r:.6}"

    x, proxy = torch.ones(1), types.MappingProxyType({1: 2})
    compiled = minitorch2.compile(program, backend="eager", fullgraph=True)
    assert compiled(x, proxy)[1:] == program(x, proxy)[1:]


DERIVED = {
    base.__name__: type(f"Derived{base.__name__}", (base,), {})
    for base in (dict, list, tuple, collections.OrderedDict)
}


@pytest.mark.parametrize("derived", DERIVED.values(), ids=DERIVED.keys())
def test_two_containers_of_a_derived_class_are_equal_if_their_contents_are(derived):
    """Each was compared as an object, so equal ones differed."""
    contents = {"a": 1} if issubclass(derived, dict) else ["a"]

    def program(x, one, other):
        return x + 1, one == other, one != other, one in [other], [other].index(one)

    compiled, x = minitorch2.compile(program, backend="eager", fullgraph=True), torch.ones(1)
    calls = (derived(contents), derived(contents)), (derived(contents), derived())
    assert compiled(x, *calls[0])[1:] == program(x, *calls[0])[1:] == (True, False, True, 0)
    with pytest.raises(ValueError):
        compiled(x, *calls[1])


def test_a_union_with_a_dict_of_a_derived_class_keeps_the_class():
    class Derived(collections.OrderedDict):
        pass

    def program(x, one):
        return x + 1, type(one | {"b": 2})

    x, one = torch.ones(1), Derived(a=1)
    assert minitorch2.compile(program, backend="eager")(x, one)[1] is Derived


def test_ranges_have_no_order():
    def program(x):
        try:
            return x + 1, range(3) < range(4)
        except TypeError as error:
            return x - 1, str(error)

    x = torch.ones(1)
    assert minitorch2.compile(program, fullgraph=True)(x)[1] == program(x)[1]


def test_a_generator_made_inside_is_not_none():
    def program(x):
        generator = torch.Generator()
        return x + 1, generator is None, generator == None, generator in (None,)  # noqa: E711

    x = torch.ones(1)
    assert minitorch2.compile(program, backend="eager")(x)[1:] == (False, False, False)


def test_a_view_of_a_dict_has_no_attributes():
    def program(x, items):
        items.new = 1

    with pytest.raises(AttributeError, match="'dict_items' object has no attribute 'new'"):
        minitorch2.compile(program, fullgraph=True)(torch.ones(1), {1: 2}.items())


@pytest.mark.parametrize("value", [torch.ones(1), [], (), {}, "a", numpy.arange(2), {1: 2}.keys()])
@pytest.mark.parametrize("name", ["__call__", "mro", "__subclasses__", "__len__", "__hash__"])
def test_an_instance_lacks_the_attributes_of_the_metaclass(value, name):
    """``hasattr(tensor, "__call__")`` was true."""

    def program(x, value):
        return x + 1, hasattr(value, name)

    x = torch.ones(1)
    compiled = minitorch2.compile(program, backend="eager")
    assert compiled(x, value)[1] is program(x, value)[1]
