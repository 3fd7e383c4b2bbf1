"""Families of lowerings on random shapes, strides, dtypes and special values.

What is exact must be eager's, bit by bit. What is not is compared with the same operator in
float64: the error may be eager's own `FACTOR` times, or `ULPS` units in the last place.
"""

import math
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from minitorch2 import config
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import lower_graph
from tests.unit.loopir.trace_aten import trace

aten = torch.ops.aten
FACTOR, ULPS = 4.0, 8.0
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int8, torch.int32, torch.int64, torch.uint8)
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-38, -1e30, 0.5, 2.5, -3.5)


def random_values(draw: Any, count: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    if dtype == torch.bool or not dtype.is_floating_point:
        return torch.randint(-9, 10, (count,), generator=generator).to(dtype)
    values = torch.randn(count, generator=generator, dtype=torch.float64) * 3
    if draw(st.booleans()):
        places = torch.randint(max(count, 1), (min(count, 4),), generator=generator)
        chosen = draw(st.lists(st.sampled_from(SPECIAL), min_size=len(places), max_size=4))
        values[places] = torch.tensor(chosen[: len(places)], dtype=torch.float64)
    return values.to(dtype)


def in_some_layout(draw: Any, values: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Row-major, transposed, every other element of a larger one, or not at the start."""
    kind = draw(st.sampled_from(("rows", "columns", "gaps", "offset")))
    x = values.reshape(shape)
    if kind == "columns":
        return x.movedim(0, -1).contiguous().movedim(-1, 0) if shape else x
    if kind == "gaps" and shape:
        wide = x.new_zeros((*shape[:-1], 2 * shape[-1]))
        wide[..., ::2] = x
        return wide[..., ::2]
    if kind == "offset":
        flat = torch.cat([x.new_zeros(3), x.reshape(-1)])
        return flat[3:].view(shape)
    return x.contiguous()


@st.composite
def tensors(draw: Any, dtypes: tuple[torch.dtype, ...], count: int = 1) -> list[torch.Tensor]:
    """Tensors of one dtype and of shapes that broadcast."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(st.lists(st.integers(1, 7), min_size=0, max_size=3))
    found = []
    for position in range(count):
        own = [1 if position and draw(st.integers(0, 4)) == 0 else n for n in shape]
        values = random_values(draw, math.prod(own), dtype)
        found.append(in_some_layout(draw, values, own))
    return found


def by_interpreter(function: Callable[..., Any], inputs: list[torch.Tensor]) -> list[Any]:
    return interpret(lower_graph(trace(function, inputs), inputs), inputs)


def by_kernels(function: Callable[..., Any], inputs: list[torch.Tensor]) -> list[Any]:
    return compile_graph(trace(function, inputs))(list(inputs))


HANDLERS = pytest.mark.parametrize(
    ("run", "examples"), [(by_interpreter, 60), (by_kernels, 6)], ids=["numpy", "numba"]
)


def same_bits(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Equal, zeros with their signs; every NaN is one NaN."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    equal = torch.equal(ours.nan_to_num(7.0), theirs.nan_to_num(7.0))
    if not ours.dtype.is_floating_point:
        return torch.equal(ours, theirs)
    signs = torch.equal(ours.signbit() & ~ours.isnan(), theirs.signbit() & ~theirs.isnan())
    return equal and signs and torch.equal(ours.isnan(), theirs.isnan())


def half(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.numel() // 2)


def gathered(x: torch.Tensor) -> torch.Tensor:
    return x[torch.arange(x.numel()) // 2].index_copy(0, half(x) * 2, x[: x.numel() // 2])


EXACT = {
    "arithmetic": (lambda x, y: (x + y, x - y, x * y, -x, x.abs()), FLOATS[:2], 2),
    "choices": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), x.clamp(-1, 2)), FLOATS, 2),
    "comparisons": (lambda x, y: (x < y, x <= y, x == y, x != y, (x > y) & x.isnan()), FLOATS, 2),
    "rounding": (lambda x: (x.floor(), x.ceil(), x.trunc(), x.round(), x.frac()), FLOATS[:2], 1),
    "signs": (lambda x, y: (x.sign(), x.signbit(), torch.copysign(x, y)), FLOATS, 2),
    "where": (lambda x, y: torch.where(x > 0, x, y), FLOATS, 2),
    "division": (lambda x, y: x / y, FLOATS[:2], 2),
    "integers": (lambda x, y: (x + y, x * y, x - y, x & y, x | y, ~x, x.abs()), INTEGERS, 2),
    "shifts": (lambda x: (x << 2, x >> 1), INTEGERS, 1),
    "conversions": (lambda x: (x.to(torch.float64), x.to(torch.bfloat16), x.bool()), FLOATS, 1),
    "extremes": (lambda x: (x.amax(), x.amin(), x.argmax(), x.argmin(), x.any()), FLOATS, 1),
    "integer_sums": (lambda x: (x.sum(), x.prod(), x.cumsum(0) if x.ndim else x), INTEGERS, 1),
    "views": (lambda x: (x.flatten().flip(0), x.reshape(-1, 1).t() + 0), FLOATS, 1),
    "joints": (lambda x: torch.cat([x.flatten(), x.flatten().flip(0)] * 3), FLOATS, 1),
    "positions": (
        lambda x: (gathered(x.flatten()), x.flatten().index_fill(0, half(x) * 2, 0.5)), FLOATS, 1
    ),
}  # fmt: skip


@HANDLERS
@pytest.mark.parametrize("name", EXACT)
def test_exact_operators_are_eagers_bit_by_bit(name, run, examples):
    function, dtypes, count = EXACT[name]

    @settings(max_examples=examples, deadline=None)
    @given(tensors(dtypes, count))
    def check(inputs):
        expected = function(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for ours, theirs in zip(run(function, inputs), expected, strict=True):
            assert same_bits(ours, theirs), (ours, theirs)

    check()


INEXACT = {
    "exponentials": lambda x: (x.exp(), x.expm1(), x.sigmoid(), x.tanh()),
    "logarithms": lambda x: (x.abs().sqrt(), x.abs().log(), x.abs().log1p(), x.abs().log2()),
    "trigonometry": lambda x: (x.clamp(-9, 9).sin(), x.clamp(-9, 9).cos(), x.atan()),
    "activations": lambda x: (
        torch.nn.functional.gelu(x), torch.nn.functional.silu(x), torch.nn.functional.softplus(x)
    ),
    "sums": lambda x: (x.sum(), x.mean(), x.flatten().sum(0)),
    "softmax": lambda x: (torch.softmax(x.flatten(), 0), torch.log_softmax(x.flatten(), 0)),
    "special": lambda x: (x.erf(), torch.special.entr(x.abs()), torch.hypot(x, x)),
}  # fmt: skip


@HANDLERS
@pytest.mark.parametrize("name", INEXACT)
def test_inexact_operators_are_as_near_to_the_truth_as_eager(name, run, examples):
    function = INEXACT[name]

    @settings(max_examples=examples, deadline=None)
    @given(tensors(FLOATS))
    def check(inputs):
        truth = function(*(x.double() for x in inputs))
        results = zip(run(function, inputs), function(*inputs), truth, strict=True)
        for ours, theirs, exact in results:
            assert ours.dtype == theirs.dtype
            assert near(ours, theirs, exact, magnitude(name, inputs)), (ours, theirs, exact)

    check()


def magnitude(name: str, inputs: list[torch.Tensor]) -> torch.Tensor:
    """How large the terms are that may cancel, and leave their rounding errors: all elements of a
    sum, the element itself in `x * (1 + erf(x))`.
    """
    (x,) = (x.double().nan_to_num(0, 0, 0).abs() for x in inputs)
    none = torch.zeros((), dtype=torch.float64)
    return {"sums": x.sum(), "softmax": x.sum(), "activations": x}.get(name, none)


def near(
    ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor, scale: torch.Tensor
) -> bool:
    """Tell whether our error is eager's or a few units in the last place of the result or of
    `scale`; results that are not finite are the same.
    """
    limits = torch.finfo(ours.dtype)
    finite = theirs.isfinite() & exact.isfinite()
    if not torch.equal(ours.isnan(), theirs.isnan()):
        return False
    error, own = (ours.double() - exact).abs(), (theirs.double() - exact).abs()
    unit = (torch.maximum(exact.abs(), scale) * limits.eps).clamp(min=limits.tiny)
    return bool((error <= torch.maximum(FACTOR * own, ULPS * unit))[finite].all())


@settings(max_examples=30, deadline=None)
@given(tensors((torch.bfloat16, torch.float16), 2))
def test_emulated_rounding_is_eagers_bit_by_bit(inputs):
    def function(x, y):
        shifted = (x + 0.1) / 0.3 - (0.7 - y)
        return ((x + y) * x - y).abs() * 0.1, (x * y).clamp(-2, 2) + x, shifted

    with config.patch(emulate_eager=True):
        results = by_interpreter(function, inputs)
    for ours, theirs in zip(results, function(*inputs), strict=True):
        assert same_bits(ours, theirs)


WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@settings(max_examples=20, deadline=None)
@given(tensors(FLOATS), st.sampled_from([by_interpreter, by_kernels]))
def test_bits_viewed_as_integers_and_back_are_eagers(inputs, run):
    def function(x):
        words = x.view(WORDS[x.itemsize])
        return words ^ 1, (words ^ 1).view(x.dtype), torch.where(words > 9, x, x.flip(0)) * 0.1

    for ours, theirs in zip(run(function, inputs), function(*inputs), strict=True):
        assert same_bits(ours, theirs)
