"""Objects that are equal only to themselves, beside operands that decide otherwise."""

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
