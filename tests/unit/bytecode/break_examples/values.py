"""Reasons that have to do with Python values and classes."""

import array
import copy
import io
import itertools
import sys
import weakref

import numpy
import torch

from tests.unit.bytecode.break_examples import X, breaks, whole


@breaks("identity", X)
def address_of_an_object(x):
    return {id(x) % 1024: x + 1}


class Key:
    asked = 0

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        Key.asked += 1
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


@breaks("hash", X)
def object_as_a_key(x):
    return {Key("a"): x + 1}


@whole("hash", X)
def string_as_a_key(x):
    return {"a": x + 1}


@breaks("weak-reference", X)
def reference_to_what_nothing_holds(x):
    box = Box()
    box.x = x
    reference = weakref.ref(box)
    del box
    return x + 1, reference() is None


@whole("weak-reference", X)
def reference_to_a_variable(x):
    box = Box()
    box.x = x
    reference = weakref.ref(box)
    return reference().x + 1, box


@breaks("builtin-method", X, array.array("d", [1.0]))
def method_written_in_c(x, numbers):
    return x + numbers.pop()


class Box:
    value = 1


@breaks("construction", X)
def new_file(x):
    file = io.StringIO()
    return x + 1, file


class Problem(Exception):
    def __init__(self, number):
        super().__init__()
        self.number = number


class Meta(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value)


class Made(metaclass=Meta):
    pass


@breaks("metaclass", X)
def class_of_a_metaclass(x):
    Made.scale = 2
    return x + 1


@breaks("super", X)
def unbound_super(x):
    return super(Box), x + 1


@breaks("copy", X, torch.nn.Linear(3, 3))
def deep_copy(x, module):
    return copy.deepcopy(module)(x)


@breaks("cyclic-value", X)
def list_that_contains_itself(x):
    numbers = [x + 1]
    numbers.append(numbers)
    return numbers


class Noise:
    draw = numpy.random.default_rng


@breaks("descriptor", X)
def function_of_another_language(x):
    return x + callable(Noise().draw)


@breaks("endless-iteration", X)
def endless(x):
    try:
        first, _second = itertools.count()
    except ValueError:
        first = 1
    return x + first


@breaks("call", X, 3)
def call_of_a_number(x, number):
    try:
        number()
    except TypeError:
        return x + 1


@breaks("not-a-graph-argument", X, Box())
def object_for_an_operator(x, box):
    try:
        return torch.add(x, box)
    except TypeError:
        return x + 1


class Guarded:
    def __delattr__(self, name):
        raise AttributeError(name)


@breaks("isinstance", X, Box())
def unknown_class(x, box):
    try:
        return x + isinstance(1, box.value)
    except TypeError:
        return x + 1


@breaks("attribute", X)
def signature_of_a_builtin_method(x):
    return x + len([].append.__text_signature__)


@breaks("attribute-write", X)
def name_of_a_generator(x):
    numbers = (i for i in range(3))
    numbers.__name__ = "numbers"
    return x + 1, numbers


@breaks("attribute-delete", X, range(3), raises=True)
def attribute_of_a_range(x, numbers):
    del numbers.start
    return x


@breaks("method", X, {"a": 1})
def protocol_of_pickle(x, settings):
    return x + len(settings.__reduce_ex__(2))


@whole("method", X, {"a": 1})
def items_of_a_dict(x, settings):
    return x + len(settings.items())


_NUMBERS = iter([1, 2, 3])


@breaks("iteration", X, _NUMBERS, enumerate(_NUMBERS))
def iterator_under_an_enumerate(x, numbers, pairs):
    return x + next(pairs)[1] + next(numbers)


class Name(str):
    pass


@breaks("not-a-constant", X, Name("T"))
def string_of_a_derived_class(x, name):
    return getattr(x, name)


@whole("not-a-constant", X, "T")
def plain_string(x, name):
    return getattr(x, name)


@breaks("class-subscript", X)
def subscript_that_is_no_constant(x):
    return x + 1, list[x]


@breaks("changed-while-iterated", X, {"a": 1, "b": 2})
def key_replaced_while_iterating(x, table):
    for key in table:
        table[key.upper()] = table.pop(key)
    return x


@whole("changed-while-iterated", X, {"a": 1, "b": 2})
def iteration_over_a_copy(x, table):
    for key in list(table):
        table[key.upper()] = table.pop(key)
    return x + len(table)


@breaks("format", X)
def text_of_a_tensor(x):
    return f"{x.sum()}"


@whole("format", X)
def text_of_a_shape(x):
    return x + 1, f"{x.shape}"


class Record:
    pass


@breaks("instance-dict", X, Record())
def key_that_is_no_name(x, record):
    vars(record)[1] = 2
    return x + 1


@breaks("varying-value", calls=[(X, "a"), (X, "b"), (X, "c"), (X, "d"), (X, "e"), (X, "f")])
def another_string_at_each_call(x, name):
    return x + len(name)


@breaks("unknown-type", X)
def type_of_what_the_caller_handles(x):
    y = x + 1
    return y, type(sys.exc_info()[1]) is ValueError
