"""The front door: every form of `compile`, its options, `disable`, `explain`."""

import functools

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import BackendError, ConfigError, MinitorchWarning, cautions

FOR_GPUS = ("cudagraphs", "max_autotune")

X = torch.tensor([1.0, -2.0, 3.0])


def test_as_function_and_as_decorator_with_and_without_parentheses():
    def double(x):
        return x * 2

    @minitorch2.compile
    def triple(x):
        return x * 3

    @minitorch2.compile(backend="eager", fullgraph=True)
    def quadruple(x):
        return x * 4

    compiled = minitorch2.compile(double, backend="eager")
    assert torch.equal(compiled(X), X * 2)
    assert torch.equal(quadruple(X), X * 4)
    assert triple.__name__ == "triple"


class Thing:
    scale = 2

    @minitorch2.compile(backend="eager")
    def method(self, x):
        return x * self.scale

    @staticmethod
    @minitorch2.compile(backend="eager")
    def static(x):
        return x + 1

    @classmethod
    @minitorch2.compile(backend="eager")
    def of_class(cls, x):
        return x * cls.scale

    def plain(self, x):
        return x - self.scale

    def __call__(self, x):
        return x / self.scale


def test_methods_of_all_kinds_and_callable_objects():
    thing = Thing()
    with stages.collect() as log:
        assert torch.equal(thing.method(X), X * 2)
        assert torch.equal(Thing.static(X), X + 1)
        assert torch.equal(thing.of_class(X), X * 2)
        assert torch.equal(minitorch2.compile(thing.plain, backend="eager")(X), X - 2)
        assert torch.equal(minitorch2.compile(thing, backend="eager")(X), X / 2)
        assert torch.equal(minitorch2.compile(torch.sin, backend="eager")(X), X.sin())
        partial = functools.partial(torch.add, alpha=2)
        assert torch.equal(minitorch2.compile(partial, backend="eager")(X, X), X * 3)
    assert log.counts["graphs"] == 7


def test_staticmethod_object_is_compiled_inside():
    made = minitorch2.compile(staticmethod(lambda x: x + 1), backend="eager")
    assert isinstance(made, staticmethod)
    assert torch.equal(made(X), X + 1)


def test_disable_argument_returns_the_model():
    def f(x):
        return x

    assert minitorch2.compile(f, disable=True) is f


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": "max-autotun"}, "did you mean 'max-autotune'"),
        ({"mode": "default", "options": {}}, "exclude each other"),
        ({"options": {"max_fusion_siz": 3}}, "did you mean 'max_fusion_size'"),
        ({"options": {"max_fusion_size": "a"}}, "takes int"),
    ],
)
def test_wrong_modes_and_options(settings, words):
    with pytest.raises(ConfigError, match=words):
        minitorch2.compile(lambda x: x, **settings)


def test_unknown_backend_names_the_nearest():
    with pytest.raises(BackendError, match="did you mean 'eager'"):
        minitorch2.compile(lambda x: x, backend="eagr")


@pytest.mark.parametrize(
    ("value", "words", "fix"),
    [
        (Thing, "takes no class, and Thing is one", "compile an instance"),
        (torch.nn.Linear, "takes no class, and Linear is one", "`forward` of a module"),
        (5, "takes what can be called, and 5 cannot", "give it a function"),
        (object(), "takes what can be called", "an object with `__call__`"),
        (torch.ones(100_000), r"tensor\(\[1.*\]\) cannot", "give it a function"),
    ],
)
def test_classes_and_values_cannot_be_compiled(value, words, fix):
    for compile_it in (minitorch2.compile, minitorch2.compile(backend="eager")):
        with pytest.raises(ConfigError, match=words) as caught:
            compile_it(value)
        assert fix in caught.value.fix and len(str(caught.value)) < 300


def failing(gm, inputs):
    raise ZeroDivisionError("inside")


@pytest.mark.parametrize("options", [{"fullgraph": True}, {"options": {"suppress_errors": False}}])
def test_backend_failure_is_a_backend_error(options):
    with (
        config.patch(suppress_errors=True),
        pytest.raises(BackendError, match="ZeroDivisionError: inside") as raised,
    ):
        minitorch2.compile(lambda x: x + 1, backend=failing, **options)(X)
    assert "code: minitorch2.compile(lambda" in str(raised.value)


def test_graph_runs_in_python_if_its_backend_fails():
    with config.patch(suppress_errors=True), pytest.warns(MinitorchWarning) as said:
        compiled = minitorch2.compile(lambda x: x + 1, backend=failing)
        assert torch.equal(compiled(X), X + 1) and torch.equal(compiled(X), X + 1)
        explained = minitorch2.explain(lambda x: x + 1, backend=failing)(X)
    assert len(said) == 2 and "ZeroDivisionError: inside" in str(said[0].message)
    assert explained.counts["backend_failures"] == 1
    assert "internal error" in str(explained) and "ZeroDivisionError: inside" in str(explained)


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda gm, inputs: None, "the backend <lambda> returned None, not a function"),
        (lambda gm, inputs: lambda x: None, "returned None, not a tuple or list of 1"),
        (lambda gm, inputs: lambda x: x + 1, "returned a Tensor, not a tuple or list of 1"),
        (lambda gm, inputs: lambda x: (x, x), "returned a tuple of 2, not a tuple or list of 1"),
    ],
)
def test_backend_with_a_result_of_another_form_is_told_so(make, cause):
    """None was called, and of a tensor with one row the row was the result, without an error."""
    with config.patch(suppress_errors=True), pytest.raises(BackendError) as raised:
        minitorch2.compile(lambda x: x + 1, backend=make)(torch.ones(1, 3))
    assert cause in str(raised.value) and "Fix: return" in str(raised.value)


def test_disabled_function_breaks_the_graph_and_runs_in_python():
    seen = []

    @minitorch2.disable
    def outside(x):
        """Doc."""
        seen.append(type(x))
        return x + 1

    def f(x):
        return outside(x * 2) * 3

    explanation = minitorch2.explain(f, backend="eager")(X)
    assert explanation.graph_count == 2
    assert explanation.graph_break_count == 1
    assert seen == [torch.Tensor]
    assert outside.__doc__ == "Doc."


def test_explain_counts_and_prints():
    def f(x):
        y = torch.sin(x) + torch.sin(x + 1)
        print("x")
        return y * 2

    explanation = minitorch2.explain(f, backend="eager")(X)
    assert explanation.graph_count == 2
    assert explanation.ops == {"sin": 2, "add": 2, "mul": 1}
    assert explanation.op_count == 5
    assert explanation.seconds["capture"] > 0
    text = str(explanation)
    assert "graph breaks: 1" in text
    assert 'print("x")' in text
    assert "TENSOR_MATCH x" in text
    assert not explanation.failures


def test_options_reach_the_backend():
    seen = []

    def backend(gm, inputs):
        seen.append(minitorch2.config.current().max_fusion_size)
        return gm

    minitorch2.compile(lambda x: x + 1, backend=backend, options={"max_fusion_size": 3})(X)
    assert seen == [3]


@pytest.mark.parametrize("mode", minitorch2.list_mode_options())
def test_a_mode_for_gpus_says_once_that_it_has_no_effect_on_the_cpu(mode, recwarn):
    cautions.caution_once.cache_clear()
    for _ in range(2):
        compiled = minitorch2.compile(lambda x: (x + 1).sum(), mode=mode, fullgraph=True)
        assert torch.equal(compiled(X), (X + 1).sum())
    for_gpus = [name for name in minitorch2.list_mode_options(mode) if name in FOR_GPUS]
    assert len(recwarn) == bool(for_gpus)
    for warning in recwarn:
        assert all(name in str(warning.message) for name in ["no effect", *for_gpus])


def test_lite_fuses_nothing():
    with stages.collect() as log:
        minitorch2.compile(lambda x: (x + 1).sin().sum(), mode="lite")(X)
    assert log.counts["kernels"] == 3


def test_nothing_warns_without_need(recwarn):
    minitorch2.compile(lambda x: x + 1, mode="default", dynamic=False, options=None)(X)
    assert not list(recwarn)
