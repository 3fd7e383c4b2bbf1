"""Bugs that were found in the capture of Python, each with a test of its own."""

import functools
import gc
import math
import weakref

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import RecompileError, VerificationError
from minitorch2.generated_code import DISPATCHER
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.verify import verify
from tests.unit.bytecode.capturing import check

X = torch.tensor([1.0, -2.0, 3.0])


class Bag:
    """An object with any attributes."""

    def __eq__(self, other):
        return vars(self).keys() == vars(other).keys()

    __hash__ = None


# Names that are no names of Python ----------------------------------------------------------------

OUTSIDE = Bag()
setattr(OUTSIDE, "from", X)
setattr(OUTSIDE, "\udc80", X)


def attributes_with_odd_names(x):
    bag = Bag()
    for name in ("from", "a b", "class", "\udc80", "1"):
        setattr(bag, name, x + 1)
    setattr(OUTSIDE, "in", x * 2)
    setattr(OUTSIDE, "\udc81", x * 3)
    return bag, getattr(OUTSIDE, "from") + getattr(OUTSIDE, "\udc80")


def keywords_with_odd_names(x):
    return functools.partial(max, **{"from": x + 1, "a-b": 2, "class": x})


def exception_with_odd_attribute(x):
    error = ValueError("v")
    setattr(error, "from", x + 1)
    return error


def test_attributes_that_are_keywords_of_python():
    check(attributes_with_odd_names, X, graphs=1)
    given = minitorch2.compile(keywords_with_odd_names, backend="eager", fullgraph=True)(X)
    assert given.keywords.keys() == {"from", "a-b", "class"}
    error = minitorch2.compile(exception_with_odd_attribute, backend="eager", fullgraph=True)(X)
    assert torch.equal(getattr(error, "from"), X + 1)


def test_a_file_with_a_lone_surrogate_in_its_name():
    scope = {}
    exec(compile("def shifted(x):\n    return x + 1, '\\ud800'\n", "<\udc80>", "exec"), scope)
    check(scope["shifted"], X, graphs=1)


def test_an_attribute_that_is_set_and_deleted_need_not_be_there_later():
    bag = Bag()
    bag.gone = 1

    def sets_and_deletes(x):
        bag.gone = x
        del bag.gone
        return x + 1

    compiled = minitorch2.compile(sets_and_deletes, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), X + 1)
        assert not vars(bag)


def test_text_of_a_graph_is_checked():
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.sin, (x,))
    graph.output((node,))
    verify(GraphModule(graph))
    node.name = "lambda"
    with pytest.raises(VerificationError):
        verify(GraphModule(graph))


# What programs replace after they were compiled ---------------------------------------------------


def tripled(tensor, *args, **kwargs):
    return tensor * 3


def with_functional(x):
    return F.relu(x) + torch.sin(x)


def with_method(x):
    return x.relu()


def with_library(x):
    return x * math.floor(2.5) + functools.reduce(lambda a, b: a + b, [1, 2])


MODEL = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.LayerNorm(3))


def with_module(x):
    return MODEL(x)


@pytest.mark.parametrize(
    ("function", "owner", "name", "replacement"),
    [
        (with_functional, F, "relu", tripled),
        (with_functional, torch, "sin", torch.cos),
        (with_method, torch.Tensor, "relu", tripled),
        (with_library, math, "floor", lambda number: 50),
        (with_library, functools, "reduce", lambda function, values: 70),
        (with_module, torch.nn.ReLU, "forward", lambda self, x: x * 5),
        (with_module, torch.nn.Linear, "forward", lambda self, x: x * 5),
        (with_module, F, "layer_norm", tripled),
        (with_module, torch.nn.Sequential, "forward", lambda self, x: x * 5),
        (with_module, torch.nn.Module, "__call__", lambda self, x: x * 7),
    ],
)
def test_what_is_replaced_is_noticed(monkeypatch, function, owner, name, replacement):
    with config.patch(suppress_errors=False), stages.collect() as log:
        compiled = minitorch2.compile(function, backend="aot_eager")
        torch.testing.assert_close(compiled(X), function(X))
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, replacement)
            torch.testing.assert_close(compiled(X), function(X))
        torch.testing.assert_close(compiled(X), function(X))
    assert log.counts["graphs"] <= 2  # the first entry serves again
    assert log.counts["frames_as_is"] == 0


def test_the_forward_of_a_class_is_replaced(monkeypatch):
    module = torch.nn.Linear(3, 3)
    compiled = minitorch2.compile(module, backend="aot_eager")
    torch.testing.assert_close(compiled(X), module(X))
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Linear, "forward", lambda self, input: input * 5)
        assert torch.equal(compiled(X), X * 5)
        patch.setattr(torch.nn.Linear, "forward", lambda self, other: other * 5)
        with pytest.raises(RecompileError, match="parameters"):
            compiled(X)
    torch.testing.assert_close(compiled(X), module(X))


# Classes that die ---------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[2.5, 3.5, 4.5], [torch.ones(3), X, -X]], ids=str)
def test_a_class_dies_whose_attribute_residual_code_loads(values):
    def scaled(thing, x):
        return x * thing.factor

    compiled = minitorch2.compile(scaled, backend="eager")
    kind = type("Kind", (), {})
    for value in values:
        kind.factor = value
        assert torch.equal(compiled(kind(), X), X * value)
    died = weakref.ref(kind)
    del kind
    gc.collect()
    assert died() is None
    assert not compiled.__globals__[DISPATCHER].entries


# Modules that take their sizes from their first input ---------------------------------------------


class LazyNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.LazyConv2d(4, 3), torch.nn.LazyBatchNorm2d()
        self.linear = torch.nn.LazyLinear(5)

    def forward(self, x):
        return self.linear(self.norm(self.conv(x)).relu().flatten(1))


@pytest.mark.parametrize("inside", [False, True])
def test_lazy_modules_are_initialized_by_the_first_call(inside):
    image = torch.randn(2, 3, 8, 8)

    def outputs(compile):
        torch.manual_seed(0)
        module = LazyNet()
        function = compile((lambda x: module(x)) if inside else module)
        return [function(image) for _ in range(3)], list(module.parameters())

    with config.patch(suppress_errors=False), stages.collect() as log:
        given = outputs(lambda f: minitorch2.compile(f, backend="eager", fullgraph=True))
    torch.testing.assert_close(given, outputs(lambda f: f))
    assert log.counts["graphs"] == 1
