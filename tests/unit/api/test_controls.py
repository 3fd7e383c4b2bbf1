"""Marks on functions and requests to capture: in compiled code, in eager code, however reached."""

import asyncio
import copy
import functools
import inspect
import math
import pickle

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.errors import ConfigError, ForbiddenError, GraphBreakError
from minitorch2.marks import controls

X = torch.tensor([1.0, -2.0, 3.0])


def explained(function, *args):
    return minitorch2.explain(function, backend="eager")(*args)


def compiled(function, **settings):
    return minitorch2.compile(function, backend="eager", **settings)


# disable ------------------------------------------------------------------------------------------


@minitorch2.disable(reason="it talks to a server")
def disabled(x):
    """Doc."""
    return x + 1


def below(x):
    return x.sin().cos()


@minitorch2.disable(recursive=False)
def alone(x, *, scale=2):
    return below(x) * scale


def test_the_break_at_a_disabled_function_shows_the_reason():
    def f(x):
        return disabled(x * 2) * 3

    explanation = explained(f, X)
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    (reason,) = explanation.breaks
    assert reason.reason == "disabled"
    assert reason.cause == "capture of disabled is disabled: it talks to a server"
    assert torch.equal(compiled(f)(X), f(X))
    assert (disabled.__name__, disabled.__doc__) == ("disabled", "Doc.")
    with pytest.raises(GraphBreakError, match="it talks to a server"):
        compiled(f, fullgraph=True)(X)


def test_what_a_disabled_function_calls_is_captured_only_if_it_is_not_recursive():
    all_disabled = minitorch2.disable(lambda x: below(x) * 2)
    assert explained(lambda x: all_disabled(x + 1), X).ops == {"add": 1}
    assert explained(lambda x: alone(x + 1), X).ops == {"add": 1, "sin": 1, "cos": 1}
    assert torch.equal(compiled(lambda x: alone(x + 1, scale=3))(X), alone(X + 1, scale=3))


def test_compiling_a_disabled_function_leaves_it_in_python():
    assert explained(disabled, X).graph_count == 0
    assert explained(alone, X).ops == {"sin": 1, "cos": 1}


def test_a_disabled_module_that_is_compiled_stays_disabled():
    for off in (minitorch2.disable(Block()), minitorch2.disable(type("Other", (Block,), {}))()):
        assert explained(off, X).graph_count == 0
        again = copy.deepcopy(compiled(off))
        assert explained(lambda x: again(x), X).graph_count == 0


def test_disabling_what_is_compiled_runs_what_the_user_wrote():
    call = compiled(lambda x: x + (10 if minitorch2.is_compiling() else 0))
    assert torch.equal(call(X), X + 10)
    assert torch.equal(minitorch2.disable(call)(X), X)


def test_a_disabled_copy_and_its_original_are_told_apart():
    """Both have the same bytecode; guards on functions from outside look at code objects."""

    def plain(x):
        return x + 1

    copied = minitorch2.disable(plain, recursive=False)
    call = compiled(lambda x, function: function(x) * 2)
    with stages.collect() as log:
        call(X, plain)
        call(X, copied)
        call(X, plain)
    assert log.counts["graph_breaks"] == 1
    assert plain.__code__ is not copied.__code__


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.mark.parametrize("recursive", [True, False])
def test_a_disabled_module_shares_everything_with_the_original(recursive):
    block = Block()
    off = minitorch2.disable(block, recursive)
    assert isinstance(off, Block) and off.state_dict().keys() == block.state_dict().keys()
    assert off.linear is block.linear

    def f(x):
        return off(x + 1) * 2

    explanation = explained(f, X)
    assert [reason.reason for reason in explanation.breaks][:1] == ["disabled"]
    assert ("linear" in explanation.ops) == (not recursive)
    assert torch.equal(compiled(f)(X), block(X + 1) * 2)
    for again in (copy.deepcopy(off), pickle.loads(pickle.dumps(off))):
        assert explained(lambda x: again(x), X).graph_count == (0 if recursive else 1)


def test_methods_and_classes():
    class Thing:
        @minitorch2.disable
        def method(self, x):
            return x + 1

        @minitorch2.disable(reason="static")
        @staticmethod
        def static(x):
            return x + 2

        @classmethod
        @minitorch2.disable(recursive=False)
        def of_class(cls, x):
            return x + 3

    thing = Thing()
    for method, number in ((thing.method, 1), (Thing.static, 2), (Thing.of_class, 3)):
        assert torch.equal(method(X), X + number)
        explanation = explained(lambda x: method(x * 2) * 2, X)
        assert [reason.reason for reason in explanation.breaks] == ["disabled"]

    @minitorch2.disable
    class Caller:
        def __call__(self, x):
            return x + 4

    assert isinstance(Caller, type)
    assert torch.equal(Caller()(X), X + 4)
    caller = Caller()
    assert explained(lambda x: caller(x * 2), X).breaks[0].reason == "disabled"
    disabled_block = minitorch2.disable(type("Other", (Block,), {}))()
    assert explained(disabled_block, X).graph_count == 0


def test_generators_and_coroutines_stay_what_they_are():
    @minitorch2.disable
    def numbers(x, *, count=2):
        for i in range(count):
            yield below(x) + i

    @minitorch2.disable
    async def later(x):
        return below(x)

    assert inspect.isgeneratorfunction(numbers) and inspect.iscoroutinefunction(later)
    assert torch.equal(asyncio.run(later(X)), below(X))
    explanation = explained(lambda x: sum(numbers(x * 2, count=3)), X)
    assert "sin" not in explanation.ops and explanation.breaks[0].reason == "disabled"
    total = compiled(lambda x: sum(numbers(x * 2, count=3)))(X)
    assert torch.equal(total, sum(numbers(X * 2, count=3)))


def test_disable_needs_something_that_is_called():
    with pytest.raises(ConfigError, match="takes a function, a module or a class, not 3"):
        minitorch2.disable(3)
    with pytest.raises(ConfigError, match="recursive=False takes a Python function"):
        minitorch2.disable(math.sqrt, recursive=False)
    assert minitorch2.disable(math.sqrt)(4) == 2


# Every way to reach a marked function -------------------------------------------------------------


def ways_to_call(function):
    """The same call of one function, which takes a tensor, through different paths."""

    class Holder:
        method = function
        static = staticmethod(function)

        def __init__(self):
            self.attribute = function

    holder, partial = Holder(), functools.partial(function)
    return {
        "closure": lambda x: function(x),
        "attribute": lambda x: holder.attribute(x),
        "static": lambda x: holder.static(x),
        "class": lambda x: Holder.method(x),
        "partial": lambda x: partial(x),
        "argument": lambda x, given=function: given(x),
        "map": lambda x: next(map(function, [x])),
        "dict": lambda x: {"key": function}["key"](x),
    }


PATHS = list(ways_to_call(len))


@pytest.mark.parametrize("path", PATHS)
def test_a_mark_holds_however_the_function_is_reached(path):
    @minitorch2.disallow_in_graph
    def never(x):
        return x + 1

    @minitorch2.allow_in_graph
    def whole(x):
        return (x + 1).sin()

    explanation = explained(ways_to_call(never)[path], X)
    assert "never" not in explanation.ops and not explanation.graph_count
    assert explained(ways_to_call(whole)[path], X).ops == {"whole": 1}


def test_a_mark_holds_for_methods():
    class Model:
        size = 5

        @minitorch2.assume_constant_result
        def length(self):
            return self.size

        @minitorch2.forbid_in_graph
        def never(self):
            return 1

    model = Model()
    assert torch.equal(compiled(lambda x: x * model.length(), fullgraph=True)(X), X * 5)
    with pytest.raises(ForbiddenError):
        compiled(lambda x: x * model.never())(X)
    assert model.never() == 1


# allow, disallow, forbid --------------------------------------------------------------------------


@minitorch2.allow_in_graph
def one_node(x, y, scale=1.0):
    return (x.sin() + y) * scale, [x, y]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_allowed_function_is_one_node_with_gradients(backend):
    def f(x, y):
        total, (_, last) = one_node(x, y=y, scale=2.0)
        return total + last

    seen = []

    def look(graph, inputs):
        seen.append([n.target for n in graph.graph.nodes if n.op == "call_function"])
        return minitorch2.lookup_backend(backend)(graph, inputs)

    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    expected = torch.autograd.grad(f(x, y).sum(), (x, y))
    given = minitorch2.compile(f, backend=look, fullgraph=True)(x, y)
    assert seen[0][0] is one_node
    assert torch.equal(given, f(x, y))
    for got, want in zip(torch.autograd.grad(given.sum(), (x, y)), expected, strict=True):
        torch.testing.assert_close(got, want)


def test_an_allowed_function_that_hides_a_parameter_breaks_the_graph():
    """Differentiation of the graph would take the parameter for a constant."""
    weight = torch.nn.Parameter(X.clone())

    @minitorch2.allow_in_graph
    def hidden(x):
        return x * weight

    explanation = explained(lambda x: hidden(x + 1), X)
    assert [reason.reason for reason in explanation.breaks] == ["hidden-parameter"]
    (gradient,) = torch.autograd.grad(
        minitorch2.compile(lambda x: hidden(x + 1), backend="aot_eager")(X).sum(), weight
    )
    assert torch.equal(gradient, X + 1)


def test_an_allowed_function_given_an_object_breaks_the_graph():
    @minitorch2.allow_in_graph
    def takes_object(x, thing):
        return x + thing.number

    class Thing:
        number = 2

    thing = Thing()
    assert torch.equal(compiled(lambda x: takes_object(x, thing))(X), X + 2)
    assert explained(lambda x: takes_object(x * 2, thing), X).graph_break_count == 1


def test_an_allowed_function_that_gives_no_tensors_breaks_the_graph():
    @minitorch2.allow_in_graph
    def in_a_dict(x):
        return {"x": x + 1}

    def f(x):
        return in_a_dict(x * 2)["x"]

    explanation = explained(f, X)
    assert explanation.breaks[0].reason == "allowed-result"
    assert "in_a_dict" in explanation.breaks[0].fix
    assert torch.equal(compiled(f)(X), f(X))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_allowed_function_may_write_to_its_arguments_and_draw_numbers(backend):
    @minitorch2.allow_in_graph
    def noisy(x):
        x.add_(1)
        return x.view(1, -1) + torch.rand(3)

    def f(x):
        result = noisy(x)
        noisy(x)
        result.add_(1)
        return result, x + 0

    def outcome(function):
        x = X.clone()
        torch.manual_seed(0)
        return [*function(x), x]

    for given, expected in zip(
        outcome(minitorch2.compile(f, backend=backend, fullgraph=True)), outcome(f), strict=True
    ):
        assert torch.equal(given, expected)


def test_a_disallowed_operator_breaks_the_graph_until_it_is_allowed_again():
    try:
        minitorch2.disallow_in_graph(torch.hypot)
        explanation = explained(lambda x: torch.hypot(x, x) + 1, X)
        assert [reason.reason for reason in explanation.breaks] == ["disallowed"]
        assert "torch.hypot" in explanation.breaks[0].fix or "hypot" in explanation.breaks[0].fix
        minitorch2.allow_in_graph(torch.hypot)
        assert explained(lambda x: torch.hypot(x, x) + 1, X).ops == {"hypot": 1, "add": 1}
    finally:
        controls._MARKS.pop(id(torch.hypot))


def test_a_forbidden_function_is_an_error_with_the_users_line():
    @minitorch2.forbid_in_graph
    def debug_only(x):
        return x + 1

    def f(x):
        return debug_only(x * 2)  # here

    with pytest.raises(ForbiddenError, match="debug_only, which is forbidden") as error:
        compiled(f)(X)
    assert "return debug_only(x * 2)  # here" in str(error.value)
    assert torch.equal(f(X), X * 2 + 1)


def test_only_functions_can_be_marked():
    with pytest.raises(ConfigError, match="a function can be marked"):
        minitorch2.allow_in_graph(3)
    with pytest.raises(ConfigError, match=r"Class\.method"):
        minitorch2.forbid_in_graph(Block().forward)


def test_marks_die_with_their_functions():
    before = len(controls._MARKS)
    minitorch2.allow_in_graph(lambda x: x)
    assert len(controls._MARKS) == before


# assume_constant_result ---------------------------------------------------------------------------


def test_a_constant_result_is_computed_once_though_capture_starts_again():
    calls = []

    @minitorch2.assume_constant_result
    def setting(name, factor=1):
        calls.append(name)
        return {"a": 2, "b": 3}[name] * factor

    def f(x):
        y = x * setting("a") + setting("b", factor=2)
        print(end="")
        return y + setting("a")

    call = compiled(f)
    for _ in range(3):
        assert torch.equal(call(X), X * 2 + 6 + 2)
    assert calls == ["a", "b", "a"]  # once in the function, once in its continuation
    assert setting("b") == 3


def test_a_constant_result_may_be_a_tensor_and_may_raise():
    table = torch.arange(3.0)

    @minitorch2.assume_constant_result
    def lookup():
        return table

    @minitorch2.assume_constant_result
    def fails():
        raise KeyError("no such setting")

    def f(x):
        try:
            return x + fails()
        except KeyError:
            return x + lookup()

    assert torch.equal(compiled(f, fullgraph=True)(X), X + table)


def test_a_constant_result_of_what_is_not_known_breaks_the_graph():
    size = minitorch2.assume_constant_result(lambda x: int(x.sum()))

    def f(x):
        return x * size(x + 1)

    explanation = explained(f, X)
    assert explanation.breaks[0].reason == "constant-result-argument"
    assert torch.equal(compiled(f)(X), f(X))


# substitute_in_graph ------------------------------------------------------------------------------


@pytest.fixture
def unmark():
    yield
    for function in (math.gcd, math.frexp, math.cbrt):
        controls._MARKS.pop(id(function), None)


def test_a_substitute_is_captured_in_place_of_a_c_function(unmark):
    @minitorch2.substitute_in_graph(math.frexp)
    def frexp(x, /):
        return x.abs(), 1

    def f(x):
        return math.frexp(x)[0] + 1

    assert torch.equal(compiled(f, fullgraph=True)(X), X.abs() + 1)
    assert math.frexp(4.0) == (0.5, 3)
    assert frexp(X)[1] == 1


def test_a_substitute_may_fold_constants(unmark):
    @minitorch2.substitute_in_graph(math.cbrt, can_constant_fold_through=True)
    def cbrt(x, /):
        return x * 0

    assert torch.equal(
        compiled(lambda x: x * math.cbrt(27.0), fullgraph=True)(X), X * math.cbrt(27)
    )
    assert torch.equal(compiled(lambda x: math.cbrt(x), fullgraph=True)(X), X * 0)


def test_a_substitute_has_the_parameters_of_the_original(unmark):
    def original(a, b=1, *, c):
        return a

    with pytest.raises(ConfigError, match=r"original takes \(a, b=1, \*, c\), its substitute"):
        minitorch2.substitute_in_graph(original)(lambda a, b, *, c: a)
    minitorch2.substitute_in_graph(original)(lambda a, b=2, *, c: a)
    minitorch2.substitute_in_graph(original, skip_signature_check=True)(lambda *args: args[0])
    with pytest.raises(ConfigError, match="a Python function"):
        minitorch2.substitute_in_graph(original)(print)


# Requests -----------------------------------------------------------------------------------------


def test_is_compiling_folds():
    def f(x):
        ours = minitorch2.is_compiling()
        theirs = torch.compiler.is_compiling() and torch.compiler.is_dynamo_compiling()
        return x + (10 if ours and theirs else 0)

    assert torch.equal(f(X), X)
    assert torch.equal(compiled(f, fullgraph=True)(X), X + 10)
    assert explained(f, X).ops == {"add": 1}


def test_graph_break_breaks_with_its_message_and_does_nothing_in_eager_code():
    def f(x):
        y = x.sin()
        minitorch2.graph_break("two halves")
        return y.cos()

    assert torch.equal(f(X), X.sin().cos())
    explanation = explained(f, X)
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    assert (explanation.breaks[0].reason, explanation.breaks[0].cause) == (
        "graph-break",
        "two halves",
    )
    with pytest.raises(GraphBreakError, match="two halves") as error:
        compiled(f, fullgraph=True)(X)
    assert 'minitorch2.graph_break("two halves")' in str(error.value)


def test_skip_frame_leaves_one_function_to_python():
    def skipping(x):
        minitorch2.skip_frame("only here")
        return below(x) * 2

    def f(x):
        return skipping(x + 1) + 1

    explanation = explained(f, X)
    assert explanation.ops == {"add": 2, "sin": 1, "cos": 1}
    assert [reason.reason for reason in explanation.as_is] == ["skip-frame"]
    assert torch.equal(compiled(f)(X), f(X))


def breaking(x):
    print(end="")
    return x + 1


def test_error_on_graph_break_around_a_call_and_as_a_decorator():
    with (
        minitorch2.error_on_graph_break(True),
        pytest.raises(GraphBreakError, match=r"print\(end") as error,
    ):
        compiled(breaking)(X)
    assert "graph break under error_on_graph_break(True): " in str(error.value)
    assert torch.equal(compiled(breaking)(X), X + 1)
    strict = minitorch2.error_on_graph_break(True)(compiled(breaking))
    with pytest.raises(GraphBreakError):
        strict(X)


@minitorch2.error_on_graph_break(True)
def strict_part(x):
    return breaking(x * 2)


def test_error_on_graph_break_inside_compiled_code():
    def f(x, strict):
        with minitorch2.error_on_graph_break(strict):
            y = breaking(x.sin())
        print(end="")
        return y * 2

    with pytest.raises(GraphBreakError):
        compiled(f)(X, True)
    assert torch.equal(compiled(f)(X, False), (X.sin() + 1) * 2)
    with pytest.raises(GraphBreakError):
        compiled(lambda x: strict_part(x) + 1)(X)

    def allows_one_part(x):
        with minitorch2.error_on_graph_break(False):
            y = breaking(x.sin())
        return y * 2

    with minitorch2.error_on_graph_break(True):
        assert torch.equal(compiled(allows_one_part)(X), (X.sin() + 1) * 2)
        with pytest.raises(GraphBreakError):
            compiled(lambda x: breaking(allows_one_part(x)))(X)
    with pytest.raises(GraphBreakError):  # fullgraph takes precedence
        compiled(allows_one_part, fullgraph=True)(X)
    assert not controls.errors_on_graph_break()


def test_a_block_without_breaks_is_one_graph():
    def f(x):
        with minitorch2.error_on_graph_break(True):
            y = x.sin()
        return y.cos()

    explanation = explained(f, X)
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


# PyTorch's own controls ---------------------------------------------------------------------------


@torch.compiler.disable(reason="their reason")
def disabled_by_torch(x):
    return below(x)


@torch.compiler.assume_constant_result
def constant_by_torch():
    return [3].pop()


@torch.compiler.allow_in_graph
def allowed_by_torch(x):
    return x + 1


def test_marks_of_torch_are_obeyed():
    explanation = explained(lambda x: disabled_by_torch(x * 2) + 1, X)
    assert explanation.ops == {"mul": 1, "add": 1}  # nothing of what is disabled
    assert "their reason" in explanation.breaks[0].cause
    assert torch.equal(compiled(lambda x: x * constant_by_torch(), fullgraph=True)(X), X * 3)
    assert torch.equal(compiled(lambda x: allowed_by_torch(x), fullgraph=True)(X), X + 1)


def test_a_wrapper_of_torch_without_a_mark_hides_no_mark_of_another():
    """Regression: the code that all wrappers share was left to Python, and their marks with it."""

    @torch.compiler.disable
    def unmarked(x):
        return x

    unmarked._torchdynamo_wrapper_id = 0  # as `functools.wraps` copies marks to other functions
    explained(lambda x: unmarked(x) + 1, X)
    explanation = explained(lambda x: disabled_by_torch(x * 2) + 1, X)
    assert explanation.ops == {"mul": 1, "add": 1}


def test_what_torch_compiles_is_captured_as_the_user_wrote_it():
    theirs = torch.compile(below, backend="eager")
    assert explained(lambda x: theirs(x + 1) * 2, X).ops == {"add": 1, "sin": 1, "cos": 1, "mul": 1}


def test_a_wrapper_of_what_torch_disables_is_not_disabled_itself():
    @functools.wraps(disabled_by_torch)
    def wrapper(x):
        return x.sin()

    assert explained(wrapper, X).ops == {"sin": 1}


def test_requests_of_torch_are_obeyed():
    theirs = pytest.importorskip("torch._dynamo")

    def f(x):
        y = x.sin()
        theirs.graph_break()
        return y.cos() + theirs.is_compiling()

    explanation = explained(f, X)
    assert [reason.reason for reason in explanation.breaks] == ["graph-break"]
    assert torch.equal(compiled(f)(X), X.sin().cos() + 1)

    def step(x):
        torch.compiler.cudagraph_mark_step_begin()
        return x.sin() + 1

    region = torch.compiler.nested_compile_region(step)
    explanation = explained(lambda x: region(region(x)), X)
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)

    @theirs.forbid_in_graph
    def never(x):
        return x

    with pytest.raises(ForbiddenError):
        compiled(lambda x: never(x + 1))(X)
