"""Symbolic sizes: what is decided is true, what is guarded is enough, one compilation serves all.

Programs are chains of operators on matrices; they are compiled once for symbolic sizes and run for
many, forward and backward.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.graph.symbols import ShapeEnv, expr_of, print_condition, print_expr

Step = Callable[[torch.Tensor], torch.Tensor]


def assigned(x: torch.Tensor) -> torch.Tensor:
    """A row, a column from the end and a part are assigned."""
    y = x * 1
    y[0], y[:, -1] = 1.5, x[:, 0]
    y[: x.shape[0] // 2] *= 2
    return y


STEPS: Final[dict[str, Step]] = {
    "sin": lambda x: x.sin(),
    "scale by a size": lambda x: x * x.shape[0] / x.shape[1],
    "transpose": lambda x: x.t(),
    "contiguous": lambda x: x.t().contiguous(),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "centre": lambda x: x - x.mean(0, keepdim=True),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "stack and flatten": lambda x: torch.stack([x, -x], 1).flatten(1),
    "slice": lambda x: x[1:, :-1] if x.shape[0] > 2 and x.shape[1] > 2 else x,
    "halve": lambda x: x[: (x.shape[0] + 1) // 2],
    "reshape": lambda x: x.reshape(x.shape[1], x.shape[0]),
    "flatten to a column": lambda x: x.reshape(-1, 1),
    "gram": lambda x: x @ x.t() / x.shape[1] ** 0.5,
    "pad": lambda x: F.pad(x, (1, 2)),
    "even rows": lambda x: x.view(x.shape[0] // 2, -1) if x.shape[0] % 2 == 0 else x + 1,
    "arange": lambda x: x + torch.arange(x.shape[1]),
    "triangle": lambda x: x.masked_fill(torch.arange(x.shape[1]) > x.shape[0] // 2, 0.5),
    "repeat": lambda x: x.repeat(2, 1),
    "max": lambda x: x - x.amax(1, keepdim=True),
    "grow or shrink": lambda x: x * 2 if x.shape[0] > x.shape[1] else x / 2,
    "assign": assigned,
    "new": lambda x: x + x.new_full((x.shape[0], 1), float(x.shape[1])),
}

names = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5)
shapes = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=3, max_size=5, unique=True
)


def program_of(steps: list[str]) -> Step:
    def program(x: torch.Tensor) -> torch.Tensor:
        for name in steps:
            x = STEPS[name](x)
        return x

    return program


def outcome(function: Step, x: torch.Tensor) -> Any:
    """The result and the gradient, or the class of the exception."""
    x = x.detach().clone().requires_grad_()
    try:
        result = function(x)
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError) as error:
        return error
    if result.requires_grad and result.numel():
        (result * result.detach().cos()).sum().backward()
    return result.detach(), x.grad


def assert_close(given: Any, wanted: Any) -> None:
    """Equal up to rounding; strides of dimensions of size 0 or 1 may be any."""
    assert isinstance(given, tuple) == isinstance(wanted, tuple), (given, wanted)
    if isinstance(wanted, tuple):
        torch.testing.assert_close(given, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


def compare(steps: list[str], sizes: list[tuple[int, int]], backend: str) -> None:
    program = program_of(steps)
    torch.manual_seed(0)
    with stages.collect() as log, config.patch(suppress_errors=False, recompile_limit=100):
        fast = minitorch2.compile(program, dynamic=True, backend=backend)
        for size in sizes:
            x = torch.randn(size, dtype=torch.float64)
            assert_close(outcome(fast, x), outcome(program, x))
    assert log.counts["frames_as_is"] == 0


@given(names, shapes)
@settings(max_examples=25, deadline=None)
def test_programs_agree_with_eager_for_all_sizes(
    steps: list[str], sizes: list[tuple[int, int]]
) -> None:
    compare(steps, sizes, "aot_eager_decomp_partition")


@given(names, shapes)
@settings(max_examples=5, deadline=None)
def test_kernels_agree_with_eager_for_all_sizes(
    steps: list[str], sizes: list[tuple[int, int]]
) -> None:
    compare(steps, sizes, "numba")


# The algebra --------------------------------------------------------------------------------------

OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": lambda a, b: torch.sym_max(a, b),
    "min": lambda a, b: torch.sym_min(a, b),
}
RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "% == 0": lambda a, b: a % b == 0,
}
expressions = st.recursive(
    st.one_of(st.integers(-3, 9), st.sampled_from(["a", "b", "c"])),
    lambda part: st.tuples(st.sampled_from(sorted(OPERATIONS)), part, part),
    max_leaves=4,
)
questions = st.lists(
    st.tuples(st.sampled_from(sorted(RELATIONS)), expressions, expressions), min_size=1, max_size=6
)
values = st.fixed_dictionaries(dict.fromkeys("abc", st.integers(2, 12)))


def compute(expression: Any, scope: dict[str, Any]) -> Any:
    if isinstance(expression, tuple):
        name, left, right = expression
        return OPERATIONS[name](compute(left, scope), compute(right, scope))
    return scope.get(expression, expression)


def answers(program: list[Any], scope: dict[str, Any]) -> list[Any]:
    """The truth of each question; the class of the exception for a division by zero."""
    found: list[Any] = []
    for relation, left, right in program:
        try:
            holds = RELATIONS[relation](compute(left, scope), compute(right, scope))
            found.append(bool(holds))
        except ZeroDivisionError:
            found.append(ZeroDivisionError)
    return found


@given(questions, values, st.lists(values, max_size=20))
@settings(max_examples=300, deadline=None)
def test_where_the_guards_hold_every_answer_is_the_same(
    program: list[Any], example: dict[str, int], others: list[dict[str, int]]
) -> None:
    """Soundness: whatever was decided with or without a guard is true wherever the guards are."""
    env = ShapeEnv()
    scope = {name: env.new_size(name, value) for name, value in example.items()}
    expected = answers(program, example)
    assert answers(program, scope) == expected
    multiples = env.knowledge.multiples
    texts = {symbol: print_expr(whole) for symbol, whole in multiples.items()}
    for _ in multiples:
        texts = {symbol: print_expr(whole, texts) for symbol, whole in multiples.items()}
    guards = [print_condition(guard.condition, texts) for guard in env.guards]
    for other in [example, *others]:
        if all(eval(guard, {}, dict(other)) for guard in guards):
            assert answers(program, other) == expected, guards


@given(expressions, values)
@settings(max_examples=200, deadline=None)
def test_expressions_have_the_value_of_python(expression: Any, example: dict[str, int]) -> None:
    env = ShapeEnv()
    scope = {name: env.new_size(name, value) for name, value in example.items()}
    try:
        wanted = compute(expression, example)
    except ZeroDivisionError:
        return
    expr = expr_of(compute(expression, scope))
    assert env.hint(expr) == wanted
    assert eval(print_expr(expr), {}, {str(s): env.hint(s) for s in env.hints}) == wanted


# Floats -------------------------------------------------------------------------------------------

FLOAT_OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    "min": min,
    "greater": lambda a, b: a if a > b else -b,
    "at most": lambda a, b: abs(a) if a <= b else b,
}
odd_floats = st.sampled_from(
    [0.0, -0.0, 1.0, 0.1, -2.5, 1e308, 5e-324, math.inf, -math.inf, math.nan]
)
float_expressions = st.recursive(
    st.one_of(odd_floats, st.integers(-3, 3), st.sampled_from(["k", "n"])),
    lambda part: st.tuples(st.sampled_from(sorted(FLOAT_OPERATIONS)), part, part),
    max_leaves=4,
)


def compute_float(expression: Any, scope: dict[str, Any]) -> Any:
    if isinstance(expression, tuple):
        name, left, right = expression
        return FLOAT_OPERATIONS[name](compute_float(left, scope), compute_float(right, scope))
    return scope[expression] if isinstance(expression, str) else expression


def bits(function: Callable[..., Any], *args: Any) -> Any:
    """The result to the bit (every NaN is one), or the class of the exception."""
    try:
        (number,) = function(*args).tolist()
    except ArithmeticError as error:
        return type(error)
    return "nan" if math.isnan(number) else number.hex()


@given(
    float_expressions, st.lists(st.tuples(odd_floats, st.integers(-2, 5)), min_size=3, max_size=6)
)
@settings(max_examples=60, deadline=None)
def test_floats_that_vary_are_pythons_to_the_bit(
    expression: Any, calls: list[tuple[float, int]]
) -> None:
    def program(x: torch.Tensor, k: float, n: int) -> torch.Tensor:
        return x * compute_float(expression, {"k": k, "n": n})

    x = torch.ones(1, dtype=torch.float64)
    with config.patch(suppress_errors=False, recompile_limit=100):
        fast = minitorch2.compile(program, backend="aot_eager")
        for k, n in calls:
            assert bits(fast, x, k, n) == bits(program, x, k, n)
