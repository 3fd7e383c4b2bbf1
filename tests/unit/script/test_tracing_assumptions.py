"""What a traced function looks at is checked in each call, or the trace is refused."""

import random
import warnings

import pytest
import torch
from torch.utils._pytree import tree_flatten

from minitorch2 import jit
from minitorch2.errors import MinitorchError, MinitorchWarning, TraceError
from minitorch2.script.modules.argument_types import ArgumentTypeError
from minitorch2.script.runtime.python_code import compile_graph
from minitorch2.script.tracing.assumptions import TraceDivergedError, or_python
from minitorch2.script.tracing.trace import trace
from tests.unit.script.trace_programs import EXAMPLE, HERE, OTHERS, UNSOUND, Flag, inputs

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def run(graph, *arguments):
    return compile_graph(graph)(*arguments)


def made(function):
    return Flag() if function is Flag else function


def outcome(call, other):
    """Return "right", "wrong" or the error of a call, compared with another one."""
    try:
        result = call()
    except Exception as error:
        return error
    return "right" if same(result, other()) else "wrong"


def same(found, expected):
    """Compare results of calls, with what became of the arguments."""
    flat, others = tree_flatten(found)[0], tree_flatten(expected)[0]
    return len(flat) == len(others) and all(map(torch.equal, flat, others))


def outcomes(function, traced_call):
    """Call as in the example, then with other data and sizes, then in another mode."""
    f = made(function)
    call = traced_call(f, inputs(function, *EXAMPLE))
    for other in (EXAMPLE, EXAMPLE, *OTHERS, *OTHERS[:2]):
        yield outcome(*(lambda g=g: with_argument(g, inputs(function, *other)) for g in (call, f)))
    if function is Flag:
        f.eval()
        if hasattr(call, "eval"):
            call.eval()
        yield outcome(*(lambda g=g: g(inputs(function, *EXAMPLE)) for g in (call, f)))


def with_argument(function, argument):
    """Return the result of a call, and the argument afterwards."""
    random.seed(0)
    return function(argument), argument


@pytest.mark.parametrize("function", UNSOUND, ids=lambda f: f.__name__)
def test_an_unsound_function_is_refused_with_its_line_or_right(function):
    try:
        found = list(outcomes(function, lambda f, example: jit.trace(f, (example,))))
    except TraceError as error:
        assert HERE in str(error)
        return
    assert "wrong" not in found
    errors = [error for error in found if error != "right"]
    kinds = TraceDivergedError, ArgumentTypeError
    assert all(isinstance(error, kinds) for error in errors), errors
    files = [HERE, "test_tracing_assumptions.py"]
    assert all(any(file in str(error) for file in files) for error in errors)


def silently_wrong(function):
    """Return whether torch.jit.trace gives a wrong result for some call."""

    def theirs(f, example):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.jit.trace(f, (example,), check_trace=False, strict=False)

    try:
        return "wrong" in list(outcomes(function, theirs))
    except Exception:
        return False


def test_traces_of_torch_jit_are_silently_wrong_for_most_of_them():
    wrong = [function.__name__ for function in UNSOUND if silently_wrong(function)]
    assert len(wrong) >= 16, wrong


def test_a_constant_tensor_is_not_guarded_in_place_of_an_input():
    """Its guard once read the first input of the rest of the program: the check saw that."""
    number = torch.tensor([3.0, 4.0])
    traced = jit.trace(lambda x: x + torch.from_numpy(x.detach().numpy()), number)
    for x in (number, number):
        assert torch.equal(traced(x), x * 2)
    with pytest.raises(TraceDivergedError):
        traced(-number)


@pytest.mark.parametrize("of", [float, int, bool, torch.Tensor.item])
def test_a_truth_value_that_was_seen_is_checked_in_any_form(of):
    traced = jit.trace(lambda x: x * of(x.sum() > 3), torch.ones(5))
    for x in (torch.ones(5), torch.ones(5), torch.ones(7)):
        assert torch.equal(traced(x), x)
    with pytest.raises(TraceDivergedError, match="the number is True"):
        traced(torch.ones(2))


def test_an_index_of_a_trace_runs_in_a_plan():
    """The overload that a list of tensors without None resolves to has no meta kernel."""
    traced = jit.trace(lambda x: (x * 2)[x > 1] + 1, torch.arange(4.0))
    for x in (torch.arange(4.0), torch.arange(4.0), torch.arange(7.0), -torch.ones(3)):
        assert torch.equal(traced(x), (x * 2)[x > 1] + 1)


def test_no_grad_inside_a_trace_keeps_the_gradient_of_eager_mode():
    def f(x, weight):
        with torch.no_grad():
            y = x * weight
        return (y * weight).sum()

    x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
    (expected,) = torch.autograd.grad(f(x, weight), weight)
    (found,) = torch.autograd.grad(run(trace(f, (x, weight)).graph, x, weight), weight)
    assert torch.equal(found, expected)
    (theirs,) = torch.autograd.grad(torch.jit.trace(f, (x, weight))(x, weight), weight)
    assert torch.equal(theirs, 2 * expected)


def test_ignored_assumptions_compute_what_the_graph_says():
    def f(x):
        return x * len(x)

    traced = trace(f, torch.ones(3), assumptions="ignore")
    assert "RaiseException" not in str(traced.graph)
    assert torch.equal(run(traced.graph, torch.ones(2)), torch.full((2,), 3.0))


def test_a_refused_call_runs_the_function_in_python_and_its_writes_are_undone():
    def f(x, y):
        y.add_(1)
        return x * 2 if x.sum() > 0 else x - y

    ones = torch.ones(2)
    traced = trace(f, (ones, torch.zeros(2)), assumptions="python")
    call = or_python(lambda *xs: run(traced.graph, *xs), traced.original, traced.graph)
    y = torch.zeros(2)
    assert torch.equal(call(ones, y), ones * 2)
    assert torch.equal(call(-ones, y), -ones - 2)
    assert torch.equal(y, torch.full((2,), 2.0))


def test_an_unknown_choice_is_refused():
    with pytest.raises(MinitorchError, match="is none of check, python, ignore"):
        trace(torch.sin, torch.ones(2), assumptions="all")


def test_a_function_that_differs_while_recorded_is_refused():
    def f(x):
        return x * 2 if isinstance(x.shape[0], int) else x

    with pytest.raises(TraceError, match="trace-differs"):
        trace(f, torch.ones(3))


def test_a_check_that_is_not_strict_warns():
    state = []

    def f(x):
        state.append(1)
        return x * 1.5

    with pytest.warns(MinitorchWarning, match="changes state"):
        trace(f, torch.ones(3), strict=False)


def test_the_second_trace_names_the_operator_and_both_numbers():
    numbers = iter([2.0, 3.0, 4.0])

    def f(x):
        return x * next(numbers)

    with pytest.raises(TraceError, match=r"(?s)aten::mul\(2.0\).*aten::mul\(3.0\)"):
        trace(f, torch.ones(3))


def test_a_not_a_number_that_was_seen_is_checked_as_such():
    def f(x):
        return x if x.sum().item() != x.sum().item() else -x

    nan = torch.tensor([float("nan")])
    traced = trace(f, nan)
    assert run(traced.graph, nan).isnan().all()
    with pytest.raises(TraceDivergedError):
        run(traced.graph, torch.ones(1))


@pytest.mark.parametrize(
    "use",
    [lambda y: y.backward(), lambda y: y.register_hook(print), lambda y: y.data_ptr()],
    ids=["backward", "register_hook", "data_ptr"],
)
def test_what_no_graph_can_hold_is_refused_with_the_line(use):
    with pytest.raises(TraceError, match="untraceable") as caught:
        trace(lambda x: (use(x.sum()), x)[1], torch.ones(2))
    assert "test_tracing_assumptions.py" in str(caught.value)


def test_an_autograd_function_is_refused():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 100

    with pytest.raises(TraceError, match=r"torch\.autograd\.Function"):
        trace(lambda x: Double.apply(x), torch.ones(2))


def test_a_trace_leaves_no_state_behind():
    norm = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout())
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    example, generator = torch.randn(4, 3), torch.get_rng_state()
    trace(norm, example)
    trace(lambda x: x.mul_(2), example)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)


def catches_an_error(x):
    try:
        return x.reshape(2, 2)
    except RuntimeError:
        return x


def catches_an_error_of_an_operator_sign(x):
    try:
        return x @ torch.ones(4)
    except RuntimeError:
        return x


@pytest.mark.parametrize(
    "function", [catches_an_error, catches_an_error_of_an_operator_sign], ids=lambda f: f.__name__
)
def test_an_error_that_the_program_catches_is_refused(function):
    """Regression: nothing of the operator was in the graph, which went the same way for all."""
    with pytest.raises(TraceError, match="an error of an operator is caught") as raised:
        jit.trace(function, (torch.ones(3),))
    assert "test_tracing_assumptions.py" in str(raised.value)
    traced = jit.trace(function, (torch.ones(4),))
    torch.testing.assert_close(traced(torch.arange(4.0)), function(torch.arange(4.0)))
    with pytest.raises(RuntimeError):
        traced(torch.ones(3))


def test_a_trace_without_checks_holds_the_way_that_was_taken():
    traced = jit.trace(catches_an_error, (torch.ones(3),), assumptions="ignore")
    assert traced(torch.ones(3)).shape == (3,)


CODE_WITHOUT_A_NAME = """
class Scale:
    factor = 2.0

SCALE = Scale()
SCALE.factor = 2.0

def double(x):
    return x * SCALE.factor

def through_a_function(x):
    return double(x)
"""


@pytest.mark.parametrize("name", ["double", "through_a_function"])
@pytest.mark.parametrize("module", [{}, {"__name__": "builtins"}, {"__name__": "users"}])
def test_objects_of_classes_in_a_namespace_without_a_name_are_compared(name, module):
    """Python says of their classes that `builtins` has them, whose objects do not change."""
    namespace = dict(module)
    exec(CODE_WITHOUT_A_NAME, namespace)
    traced = jit.trace(namespace[name], torch.ones(2))
    assert traced(torch.ones(3)).tolist() == [2.0] * 3
    namespace["SCALE"].factor = 3.0
    with pytest.raises(TraceDivergedError, match=r"SCALE.factor, which has changed"):
        traced(torch.ones(3))
