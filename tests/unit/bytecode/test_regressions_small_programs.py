"""Small programs as strangers write them around models, each of which once broke or went wrong."""

import argparse
import copy
import enum
import functools
import inspect
import operator
import re
import string
import weakref
from collections import OrderedDict
from functools import partial
from types import BuiltinFunctionType
from typing import Generic, TypeVar

import numpy
import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.polyfills import POLYFILLS
from minitorch2.bytecode.trackers.torch_values.torch_function import is_torch_function
from minitorch2.testing import assert_matches_eager


class Mode(str, enum.Enum):  # noqa: UP042 (that is what is tested)
    """Members are texts: subscripts of the class are not those of texts."""

    TRAIN = "train"
    EVAL = "eval"


class Level(enum.Enum):
    """Members are no numbers."""

    LOW = 1


class Node:
    """Refers to its parent weakly."""

    def __init__(self, parent=None):
        self.children = []
        self.parent = None if parent is None else weakref.ref(parent)
        if parent is not None:
            parent.children.append(self)


def member_by_name(x):
    return x + 1, Mode["EVAL"], len(Mode), Mode.TRAIN == "train"


def tensor_and_text(x):
    table = {"a": 1, "z": x}
    return x + 1, x == "a", x != "a", x == "a", "a" in [x], "b" in table.values()


def tensor_less_than_text(x):
    try:
        return x < "a"
    except TypeError as error:
        return x + 1, str(error)


def fields_of_exceptions(x):
    seen = []
    for error in (
        SystemExit(4),
        UnicodeDecodeError("utf8", b"x", 0, 1, "bad"),
        SyntaxError("s", ("f", 1, 2, "t")),
        OSError(2, "gone"),
        OSError("one"),
    ):
        try:
            raise error
        except BaseException as caught:
            seen.append((type(caught), str(caught), getattr(caught, "code", None)))
    return x + 1, seen


def missing_file(x):
    try:
        raise OSError(2, "gone", "path")
    except FileNotFoundError as error:
        return x + 1, error.filename


def property_without_a_deleter(x):
    class Inner:
        value = property(lambda self: 1)

    messages = []
    for change in (delattr, lambda owner, name: setattr(owner, name, 1)):
        try:
            change(Inner(), "value")
        except AttributeError as error:
            messages.append(str(error))
    return x + 1, messages


def attribute_of_a_value_without_any(x):
    messages = []
    for value, name in (([], "append"), ({}, "a"), (1, "a"), ("s", "upper"), (None, "b")):
        try:
            setattr(value, name, 1)
        except AttributeError as error:
            messages.append(str(error))
    return x + 1, messages, dict[str, int]()


def parsed_arguments(x):
    options = argparse.Namespace(rate=0.5, layers=[1])
    options.steps = 4
    return x * options.rate, vars(options), "steps" in options, repr(options)


def wrapped_partial(x):
    add = functools.partial(torch.add, alpha=2)

    return add(x, x), hasattr(add, "__name__"), add.__module__, bool(add.__doc__)


def signature_of_a_nested_function(x):
    def function(a, b=2, *c, d: int = 3, **e):
        return a

    parameters = inspect.signature(function).parameters
    return x + 1, list(parameters), [p.default for p in parameters.values()][1:]


def texts_by_functions(x):
    class Missing(dict):
        def __missing__(self, key):
            return f"?{key}"

    count = []
    doubled = re.sub(r"\d+", lambda m: count.append(1) or str(int(m[0]) * 2), "a1b22c3", count=2)
    upper = re.compile("[ab]").sub(lambda m: m.group().upper(), "abc")
    empty = re.sub("x*", lambda m: "-", "axb")
    filled = "{a}{b[0]!r}{c:>3}".format_map(Missing(a=1, b=["q"]))
    rest = string.Formatter().format("{0}-{k:>3}", 1, k=2), string.Template("$a").substitute(a=1)
    return x + len(count), doubled, upper, empty, filled, rest


def parents(x):
    root = Node()
    leaf = Node(Node(root))
    return x + 1, leaf.parent is None, root.children[0].parent() is root


class Plain:
    """An object without a constructor of its own."""


def dead_reference(x):
    reference = weakref.ref(Plain())
    return x + 1, reference() is None


def values_under_one_memory(x):
    state = {"weights": x.detach(), "rows": [x.detach()[1:], x.detach()]}
    made = copy.deepcopy(state)
    made["weights"].add_(1)
    return made, made["rows"][0], state


class Attributes(dict):
    """Attributes are entries: methods of dict are the class's own hooks."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


def attributes_that_are_entries(x):
    table = Attributes(a=1, x=x)
    table.b = table["a"] + 1
    table["c"] = table.b
    table.b = 3
    del table.a
    object.__setattr__(table, "apart", 5)
    return table, table.x * table["b"], table.zz, table.__dict__, list(table)


def operands_that_no_operator_takes(x):
    other, messages = Plain(), []
    for apply in (
        lambda: operator.add([x], other),
        lambda: (x,) + [1],
        lambda: {"k": x} | [1],
        lambda: [x] * other,
        lambda: x + other,
        lambda: {} @ x,
        lambda: x < [1],
        lambda: other**2,
        lambda: -other,
        lambda: [x] < other,
        lambda: other @ [x],
        lambda: operator.iadd([x], other),
    ):
        try:
            apply()
        except TypeError as error:
            messages.append(str(error))
    return x + 1, messages


def attributes_that_are_missing(x):
    class Guarded:
        def __getattr__(self, name):
            raise AttributeError(f"none called {name}")

    told = []
    for read in (
        lambda: Guarded().first,
        lambda: getattr(Guarded(), "second"),  # noqa: B009 (that is what is tested)
        lambda: torch.sum.zz,
        lambda: torch.nn.Linear.zz,
        lambda: numpy.add.zz,
        lambda: torch.Tensor.shape.zz,
        lambda: x.zz,
    ):
        try:
            read()
        except AttributeError as error:
            told.append((error.name, type(error.obj).__name__, error.args))
    return x + 1, told, torch.utils._pytree.tree_map_only(torch.Tensor, torch.sum, [x, 3])


def tensor_and_member(x):
    other = Plain()
    return x == Level.LOW, x != Plain, x == Level.LOW, Level.LOW in [x], x == other, x != [1], x + 1


def autograd_function_made_inside(x):
    class Base(torch.autograd.Function):
        @staticmethod
        def backward(ctx, gradient):
            (saved,) = ctx.saved_tensors
            return gradient * saved * ctx.factor, None

    class Scaled(Base):
        @staticmethod
        def forward(ctx, value, factor):
            ctx.save_for_backward(value)
            ctx.factor = factor
            return value * factor

    scale = Scaled.apply
    return scale(x, 2) + 1, Scaled.__name__, issubclass(Scaled, torch.autograd.Function)


T = TypeVar("T")


def generic_class_made_inside(x):
    class Box(Generic[T]):
        def __init__(self, value: T):
            self.value = value

        def get(self) -> T:
            return self.value

    class Named(Box[int], dict):
        """A generic class among the bases, with parameters."""

    named, typed = Named(x), Box[torch.Tensor](x * 2)
    named["a"] = x
    order = [cls.__name__ for cls in Named.__mro__]
    parameters = Box.__parameters__ == (T,), typed.__orig_class__.__args__
    return named.get() + named["a"] + typed.get(), order, parameters, isinstance(named, Generic)


PROGRAMS = [
    autograd_function_made_inside,
    generic_class_made_inside,
    values_under_one_memory,
    attributes_that_are_entries,
    operands_that_no_operator_takes,
    attributes_that_are_missing,
    tensor_and_member,
    member_by_name,
    tensor_and_text,
    tensor_less_than_text,
    fields_of_exceptions,
    missing_file,
    property_without_a_deleter,
    attribute_of_a_value_without_any,
    parsed_arguments,
    wrapped_partial,
    signature_of_a_nested_function,
    texts_by_functions,
    parents,
]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_graph(function, dynamic):
    with stages.collect() as log:
        fast = minitorch2.compile(function, backend="eager", fullgraph=True, dynamic=dynamic)
        for rows in (3, 3, 5):
            assert_matches_eager(function, torch.randn(rows, 2), calls=1, compile=lambda _: fast)
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0


def test_a_reference_to_what_nothing_holds_is_dead():
    with stages.collect() as log:
        assert_matches_eager(dead_reference, torch.ones(2))
    assert log.counts["frames_as_is"] == 1


def watched_over_breaks(x):
    first, second = Plain(), Plain()
    known = weakref.WeakKeyDictionary({first: 1})
    known[second] = 2
    names = weakref.WeakValueDictionary()
    names["a"] = third = Plain()  # noqa: F841 (the variable keeps the object alive)
    return x + len(known), names.get("b"), "a" in names, len(names)


def test_variables_keep_objects_alive_over_breaks():
    """A variable that is not read again still holds its object until the function returns."""
    assert_matches_eager(watched_over_breaks, torch.ones(2))


def test_a_copy_of_a_tensor_with_gaps_keeps_its_strides():
    assert_matches_eager(lambda x: copy.deepcopy([x.detach()[:, :1]])[0].stride(), torch.ones(2, 3))


@pytest.mark.parametrize("dynamic", [None, True])
def test_the_gradient_of_a_function_made_inside_is_its_own(dynamic):
    fast = minitorch2.compile(
        autograd_function_made_inside, backend="eager", fullgraph=True, dynamic=dynamic
    )
    for rows in (2, 2, 3):
        gradients = []
        for call in (autograd_function_made_inside, fast):
            x = torch.arange(3.0 * rows).reshape(rows, 3).requires_grad_()
            call(x)[0].sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients)


def test_objects_of_a_generic_class_made_inside_know_its_parameters():
    def boxes(x):
        class Box(Generic[T]):
            """The type of `value` is a parameter."""

        box = Box[int]()
        box.value = x + 1
        return box

    box = minitorch2.compile(boxes, backend="eager", fullgraph=True)(torch.ones(2))
    assert box.__orig_class__ == type(box)[int]
    assert type(box).__orig_bases__ == (Generic[T],)


# Attributes of a new ordered dict ---------------------------------------------------------------


def shown(value):
    """An ordered dict with its attributes; they are compared as well."""
    if isinstance(value, OrderedDict):
        return [[*value.items()], vars(value)]
    return value


def ordered(x):
    made = OrderedDict(k=x)
    made.a = x + 1
    made["z"] = made.a * 2
    made.a = made.a + 1
    return shown(made), hasattr(made, "b"), getattr(made, "a", None)


def ordered_and_empty(x):
    made = OrderedDict()
    made.number = 1
    return made, x + 1


def ordered_and_copied(x):
    made = OrderedDict(k=1)
    made.a = [x]
    shallow, deep = copy.copy(made), copy.deepcopy(made)
    deep.a.append(2)
    made.a.append(3)
    return made, shallow, deep, made.copy(), made | OrderedDict(r=1)


def ordered_without(x):
    made = OrderedDict(k=x)
    made.a = 1
    del made.a
    return made, hasattr(made, "a")


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "function", [ordered, ordered_and_empty, ordered_and_copied, ordered_without]
)
def test_attributes_of_a_new_ordered_dict(function, dynamic):
    def whole(x):
        found = function(x)
        return [*map(shown, found)]

    assert_matches_eager(
        whole, torch.ones(2), compile=partial(minitorch2.compile, backend="eager", dynamic=dynamic)
    )


def test_a_state_dict_is_taken_in_the_graph():
    """Its metadata is an attribute, which broke the graph."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))

    def best(x):
        y = net(x)
        return y, {k: v.clone() for k, v in net.state_dict().items()}, net.state_dict()

    net.eval()
    wanted = best(torch.ones(3, 2))
    with stages.collect() as log:
        found = minitorch2.compile(best, backend="eager", fullgraph=True)(torch.ones(3, 2))
    assert log.counts["graphs"] == 1
    torch.testing.assert_close(found, wanted)
    assert found[2]._metadata == wanted[2]._metadata
    assert type(found[2]._metadata) is OrderedDict
    net.load_state_dict(found[2])


STAND_INS = [f for f in POLYFILLS if isinstance(f, BuiltinFunctionType) and is_torch_function(f)]


@pytest.mark.parametrize("values", [("a",), (None, None), (torch.ones(3), "a")], ids=str)
@pytest.mark.parametrize("function", STAND_INS, ids=lambda function: function.__name__)
def test_errors_of_operators_that_are_evaluated_as_python_are_pytorchs(function, values):
    """Regression: `torch.equal(x, "a")` raised the AttributeError of Python that stands for it."""

    def program(x):
        return function(*values), x + 1

    errors = []
    for run in (program, minitorch2.compile(program)):
        with pytest.raises(Exception, match="") as caught:
            run(torch.ones(2))
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def test_functions_of_pytorch_with_stand_ins_are_found():
    assert {torch.equal, torch.allclose, torch.cov, torch.istft} <= {*STAND_INS}
