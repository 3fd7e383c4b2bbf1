"""Small programs as strangers write them around models, each of which once broke or went wrong."""

import argparse
import enum
import functools
import inspect
import re
import string
import weakref

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.testing import assert_matches_eager


class Mode(str, enum.Enum):  # noqa: UP042 (that is what is tested)
    """Members are texts: subscripts of the class are not those of texts."""

    TRAIN = "train"
    EVAL = "eval"


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


PROGRAMS = [
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
