"""Bugs that were found in the capture of Python, each with a test of its own."""

import collections
import copy
import enum
import functools
import gc
import math
import operator
import sys
import weakref

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import RecompileError, VerificationError
from minitorch2.foundation.generated_code import DISPATCHER
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.verify import verify
from minitorch2.testing import assert_matches_eager
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


def test_the_first_call_of_a_lazy_module_is_in_the_graph():
    image = torch.randn(2, 3, 8, 8)
    module = LazyNet()
    with stages.collect() as log:
        minitorch2.compile(module, backend="eager", fullgraph=True)(image)
    assert log.counts["graphs"] == 1 and type(module.conv) is torch.nn.Conv2d


@pytest.mark.parametrize("first", [torch.nn.Dropout(0.5), torch.nn.Identity()])
def test_lazy_modules_draw_their_parameters_in_the_order_of_the_program(first):
    def outputs(compile):
        torch.manual_seed(0)
        module = torch.nn.Sequential(first, torch.nn.LazyLinear(3), torch.nn.LazyLinear(2))
        return compile(module)(torch.ones(2, 4)), list(module.parameters()), torch.rand(1)

    with config.patch(fallback_random=True):
        given = outputs(lambda f: minitorch2.compile(f, backend="eager"))
    torch.testing.assert_close(given, outputs(lambda f: f))


def test_a_lazy_module_with_a_wrong_argument_raises_what_eager_does():
    for compile in (lambda f: f, minitorch2.compile):
        with pytest.raises(RuntimeError, match="Expected 3D"):
            compile(torch.nn.LazyConv2d(3, 3))(torch.randn(4))


def test_a_lazy_module_under_a_stance_for_first_calls():
    with minitorch2.set_stance("aot_eager_then_compile"):
        module = torch.nn.Sequential(torch.nn.Dropout(0.0), torch.nn.LazyLinear(2))
        assert minitorch2.compile(module, backend="eager")(torch.ones(2, 4)).shape == (2, 2)


# Attributes of tensors, texts of functions --------------------------------------------------------


def test_attributes_of_tensors_are_deleted():
    def f(x, p):
        x.tag, y = 1, x * 2
        y.label = 3
        before = hasattr(x, "tag"), hasattr(y, "label")
        del x.tag, y.label
        try:
            del x.nothing
        except AttributeError as error:
            text = str(error)
        z = p * p.factor if hasattr(p, "factor") else p * 1
        if hasattr(p, "factor"):
            del p.factor
        del p.grad
        return y, before, hasattr(x, "tag"), hasattr(y, "label"), text, z, p.grad

    def outcome(function):
        p, x = torch.nn.Parameter(torch.ones(2)), torch.ones(2)
        p.grad, p.factor = torch.ones(2), 4.0
        given = function(x, p), function(x, p), x.__dict__, p.__dict__, p.grad
        return repr(given)

    compiled = minitorch2.compile(f, backend="eager", fullgraph=True)
    assert outcome(compiled) == outcome(f)


def test_texts_of_functions_in_c():
    def f(x):
        named = str(torch.Tensor.mul), repr(list.append), f"{torch.cat}", str(F.relu), f"{len}"
        return x * len(named), named

    compiled = minitorch2.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1] == f(torch.ones(2))[1]


# Classes asked about themselves ------------------------------------------------------------------


class Word(str, enum.Enum):  # noqa: UP042 (as libraries write it)
    ONE = "one"
    TWO = "two"

    @classmethod
    def named(cls, name):
        return cls[name]


def test_a_member_of_an_enumeration_of_texts_by_its_name():
    """`str` has a `__getitem__` of its own, which is not the one that subscripts the class."""

    def f(x, name):
        return x * len(Word[name]), Word.named(name)

    check(f, X, "ONE", graphs=1, breaks=0)
    check(f, X, "THREE", graphs=0, breaks=1)


class Root:
    weight = 1


class Branch(Root):
    weight = 2


class Twig(Branch):
    weight = 4


def weight_of_all(x, cls):
    waiting, total = [cls], 0
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        total += each.weight
    return x * total, cls.__subclasses__(), cls.mro()


def test_subclasses_are_asked_for_again_in_each_call():
    with stages.collect() as log:
        fast = minitorch2.compile(weight_of_all, fullgraph=True, backend="eager")
        assert fast(X, Root)[1:] == ([Branch], [Root, object])
        assert torch.equal(fast(X, Root)[0], X * 7)
        assert log.counts["graphs"] == 1

        class Leaf(Twig):
            weight = 8

        assert torch.equal(fast(X, Root)[0], X * 15)
        del Leaf
        gc.collect()
        assert torch.equal(fast(X, Root)[0], X * 7)
    assert log.counts["graph_breaks"] == 0


def test_a_metaclass_may_define_subclasses():
    class Meta(type):
        def __subclasses__(cls):
            return [int, cls]

    class Made(metaclass=Meta):
        pass

    def f(x):
        return x * len(Made.__subclasses__()), Made.__subclasses__()

    check(f, X, graphs=1, breaks=0)


# Imports inside functions ------------------------------------------------------------------------


def test_the_first_import_of_a_module_inside_a_package(tmp_path, monkeypatch):
    """Python imports it: `from package import module` was an ImportError of the captured code."""
    package = tmp_path / "package_of_this_test"
    package.mkdir()
    (package / "__init__.py").write_text("known = 2\n")
    (package / "part.py").write_text("factor = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x):
        from package_of_this_test import known, part

        return x * known * part.factor

    def g(x):
        try:
            from package_of_this_test import absent
        except ImportError:
            return x + 1
        return x * absent

    import package_of_this_test

    try:
        for breaks in (1, 0):
            with stages.collect() as log:
                assert torch.equal(minitorch2.compile(f, backend="eager")(X), X * 6)
            assert log.counts["graph_breaks"] == breaks
        check(g, X, graphs=1, breaks=0)
        assert package_of_this_test.part.factor == 3
    finally:
        for name in [name for name in sys.modules if name.startswith("package_of_this_test")]:
            del sys.modules[name]


# Sequences and other operands --------------------------------------------------------------------


class Reflected:
    """An operand with operators for the right side."""

    def __rmul__(self, other):
        return "times"

    def __radd__(self, other):
        return "plus"


class Times:
    """A number of repetitions whose own operator declines."""

    def __rmul__(self, other):
        return NotImplemented

    def __index__(self):
        return 2


def in_place(function, left, right):
    result = function(left, right)
    return result, result is left


@pytest.mark.parametrize("sequence", [[1], (1,), collections.deque([1])], ids=str)
def test_operators_of_numbers_come_before_those_of_sequences(sequence):
    """CPython asks a list's ``*`` last, since lists have no operators of numbers."""

    def f(x):
        first, second = copy.copy(sequence), copy.copy(sequence)
        joined, repeated = first + Reflected(), second * Reflected()
        values = [in_place(operator.imul, first, other) for other in (Reflected(), Times())]
        return x + 1, joined, repeated, values, sequence * Times(), first

    check(f, X, graphs=1, breaks=0)


def test_concatenation_asks_the_first_sequence():
    def f(x):
        return x + 1, operator.concat((1, 2), x.shape), (1, 2).__add__(x.shape)

    check(f, X, graphs=1, breaks=0)


def test_sizes_are_no_ranges():
    """PyTorch's functions take lists and tuples of sizes."""

    def f(x):
        try:
            return torch.ones(range(3))
        except TypeError as error:
            return x + 1, str(error), x[range(1)], torch.tensor(range(3))

    assert_matches_eager(f, X, compile=lambda f: minitorch2.compile(f, backend="eager"))


def test_builtin_classes_have_no_annotations():
    class Own:
        """Has none of its own."""

    def f(x):
        classes = (int, list, dict, object, Exception, collections.Counter, Own)
        return x + 1, [hasattr(cls, "__annotations__") for cls in classes]

    check(f, X, graphs=1, breaks=0)


def cached_inside(x):
    @functools.lru_cache
    def scaled(factor):
        return x * factor

    @functools.lru_cache(maxsize=0)
    def never(factor):
        return x * factor

    same = scaled(2) is scaled(2.0), scaled(2) is scaled(2), never(1) is never(1)
    return scaled(3), same, scaled.cache_info(), never.cache_info()


def compared_keys(x):
    key = functools.cmp_to_key(lambda a, b: a - b)
    return x + 1, key(1) == key(1), key(1) <= key(2), key(3) >= key(4), key(5).obj


def next_of_what_is_not_an_iterator(x):
    try:
        next([x])
    except TypeError as error:
        return x + 1, str(error)
    return x


class OnlyForwards:
    """Has no context of its own; what it forwards to has one."""

    def __getattr__(self, name):
        return getattr(torch.no_grad(), name)


def context_of_an_attribute(x):
    try:
        with OnlyForwards():
            return x * 2
    except TypeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize(
    "program",
    [cached_inside, compared_keys, next_of_what_is_not_an_iterator, context_of_an_attribute],
)
def test_the_standard_library_does_what_it_says(program):
    assert_matches_eager(program, torch.ones(2))


def classes_of_numbers(x, n):
    kinds = n.__class__ is type(n), n.__class__.__name__, x.shape[0].__class__ is int
    return x * n, kinds, n.__class__(3), (x.shape[0] > 2).__class__ is bool


def test_the_class_of_a_number_that_varies_is_its_class():
    fast = minitorch2.compile(classes_of_numbers, backend="eager", fullgraph=True)
    for rows, n in enumerate((0.5, 0.75, 0.875, 2, 3, 4), 3):
        assert str(fast(torch.ones(rows), n)) == str(classes_of_numbers(torch.ones(rows), n))
