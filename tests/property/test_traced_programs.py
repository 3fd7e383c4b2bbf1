"""A trace of a random program holds for other sizes and data, or refuses them with a line."""

import linecache

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from minitorch2 import config, jit
from minitorch2.script.tracing.assumptions import TraceDivergedError
from tests.property.test_capture_programs import patient

SIZES = st.sampled_from(["x.shape[0]", "x.size(1)", "x.numel()", "x.dim()", "len(x)"])
NUMBERS = st.recursive(
    SIZES | st.integers(1, 4).map(str),
    lambda inner: st.builds(
        "({} {} {})".format, inner, st.sampled_from(["+", "*", "//", "%", "-"]), inner
    ),
    max_leaves=4,
)
EXPRESSIONS = st.one_of(
    st.builds("y * ({})".format, NUMBERS),
    st.builds("y[: abs({}) + 1]".format, NUMBERS),
    st.builds("y.sum(0, keepdim=True) + ({})".format, NUMBERS),
    st.builds("(y if {} > {} else y + 1)".format, NUMBERS, NUMBERS),
    st.builds("torch.cat([y, y]) * 0.5 - ({})".format, NUMBERS),
    st.builds("y * float(y.sum() > {})".format, NUMBERS),
    st.just("y.t().reshape(y.shape[0], -1)"),
    st.just("y[y.sum(1) > 0]"),
    st.just("torch.stack([row * i for i, row in enumerate(y[:3])])"),
)
BODIES = st.lists(EXPRESSIONS, min_size=1, max_size=4)
SHAPES = [(5, 4), (5, 4), (3, 4), (4, 5), (2, 2), (1, 4), (7, 3), (6, 6), (8, 1), (9, 4), (4, 4)]


def function_of(body):
    """Return the function with these assignments, which can be read by its line."""
    lines = ["def f(x):", "    y = x", *(f"    y = {line}" for line in body), "    return y"]
    names, text = {"torch": torch}, "\n".join(lines)
    linecache.cache["random_trace.py"] = len(text), None, text.splitlines(True), "random_trace.py"
    exec(compile(text, "random_trace.py", "exec"), names)
    return names["f"]


def outcome(function, x):
    """Return the result of a call, or the class of its error."""
    try:
        return function(x.clone())
    except (RuntimeError, ArithmeticError, IndexError) as error:
        return type(error)


@patient(15)
@given(BODIES, st.booleans())
def test_a_trace_of_sizes_is_right_at_ten_others_or_refuses_with_a_line(body, has_plans):
    function, inputs = function_of(body), [torch.randn(shape) for shape in SHAPES]
    assume(isinstance(outcome(function, inputs[0]), torch.Tensor))
    with config.patch(backend="eager"), jit.optimized_execution(has_plans):
        traced = jit.trace(function, inputs[0])
        for x in inputs:
            expected = outcome(function, x)
            try:
                found = traced(x.clone())
            except TraceDivergedError as error:
                assert "random_trace.py:" in str(error)
                continue
            except RuntimeError:
                assert not isinstance(expected, torch.Tensor), body
                continue
            assert isinstance(expected, torch.Tensor), (body, expected)
            torch.testing.assert_close(found, expected, equal_nan=True)
