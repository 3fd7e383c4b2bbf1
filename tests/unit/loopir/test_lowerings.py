"""Every lowering against eager PyTorch, through the NumPy interpreter; fixed and symbolic sizes."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import tensor

import minitorch2
from minitorch2.loopir.buffers import ExternKernel
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.lowering import LOWERINGS
from tests.unit.loopir.trace_aten import check, trace

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
EDGES = tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, INF, -INF, NAN, 1e-30, -1e30])


def numbers(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 2).to(dtype)


def integers(*shape, low=-9, high=10, seed=0, dtype=torch.int64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


X, Y, ROW = numbers(4, 8), numbers(4, 8, seed=1), numbers(8, seed=2)
INDEX = tensor([0, 2, -1, 3])

CASES = {
    "permute_and_select": (lambda x: x.permute(1, 0)[:, :8] + x[2, :], numbers(8, 8)),
    "softmax": (lambda x: torch.softmax(x, -1), X),
    "log_softmax": (lambda x: torch.log_softmax(x, 0), X),
    "softmax_of_infinities": (lambda x: torch.softmax(x, 0), tensor([1.0, INF, -INF])),
    "matmul_and_relu": (lambda x, y: torch.relu(x @ y.t()) + 1, X, Y),
    "linear": (lambda x, w, b: F.linear(x, w, b), X, Y, numbers(4)),
    "bmm": (lambda x: torch.bmm(x, x.transpose(1, 2)), numbers(2, 3, 4)),
    "var_std_mean": (lambda x: (x.var(-1), x.std(0, keepdim=True), x.mean((0, 1))), X),
    "var_mean": (lambda x: torch.var_mean(x, 1, correction=0), numbers(4, 9)),
    "cat": (lambda x: torch.cat([x, x * 2, x[:2]]), X),
    "cat_promotes": (lambda x, i: torch.cat([x, i]), X, integers(2, 8)),
    "cat_skips_empty_vectors": (lambda x, e: torch.cat([e, x]), X, torch.zeros(0)),
    "stack": (lambda x: torch.stack([x, x * 2], 1), X),
    "pad_and_crop": (lambda x: F.pad(x, (1, 2, -1, 3), value=5.0), X),
    "index": (lambda x, i: (x[i], x[:, i], x[i, i], x[None, :, i], x[i[:, None], i]), X, INDEX),
    "index_apart": (lambda x, i: x[i, :, i], numbers(4, 3, 4), INDEX),
    "gather": (lambda x, i: torch.gather(x, 1, i), X, integers(4, 3, low=0, high=8)),
    "index_select": (lambda x, i: (x.index_select(0, i), x.index_select(1, i)), X, INDEX.abs()),
    "embedding": (lambda i, w: F.embedding(i, w), integers(2, 3, low=0, high=4), X),
    "take": (lambda x, i: torch.take(x, i), X, INDEX),
    "reshapes": (
        lambda x: (
            x.view(2, 2, 8).permute(1, 0, 2).reshape(4, 8),
            x.view(-1),
            x.view(8, 4) + 1,
            x.t().reshape(4, 8),
            x.view(4, 2, 2, 2).sum((1, 3)),
        ),
        X,
    ),
    "heads": (
        lambda x: (x.view(2, 3, 2, 4).transpose(1, 2) * 2).transpose(1, 2).reshape(2, 3, 8),
        numbers(2, 3, 8),
    ),
    "split_and_unbind": (lambda x: [a + 1 for a in x.split(3, 1)] + list(x.unbind(0)), X),
    "split_with_sizes": (lambda x: [a * 2 for a in x.split([1, 5, 2], 1)], X),
    "chunk": (lambda x: [a * 2 for a in x.chunk(3, 1)], X),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), X),
    "first_of_equals": (lambda x: (x.argmax(0), x.argmin(0), x.max(0)), tensor([1.0, 3, 3, 1])),
    "argmax_of_nan": (lambda x: (x.argmax(0), x.max(0), x.min(0)), tensor([1.0, NAN, 3, NAN])),
    "max_min": (lambda x: (x.max(0), x.min(1), x.amax((0, 1)), x.amin(1), x.max(), x.min()), X),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), X),
    "any_all": (lambda x: ((x > 0).any(), (x > 0).all(1), x.any(0), x.all()), X),
    "any_of_bytes": (lambda x: (x.any(0), x.all(0)), integers(3, 4, low=0, dtype=torch.uint8)),
    "count_nonzero": (lambda x: torch.count_nonzero(x, 0), integers(9, 4, low=0, high=2)),
    "prod": (lambda x: (x.prod(), x.prod(1), x.prod(0, dtype=torch.float64)), X),
    "sum_of_ints": (
        lambda x: (x.sum(), x.sum(0), x.sum((0, 1), dtype=torch.float32)),
        integers(9, 9),
    ),
    "sum_of_bools": (lambda x: (x.sum(), x.sum(0)), X > 0),
    "nansum": (lambda x: x.nansum(), EDGES[:4].add(NAN)),
    "logsumexp": (lambda x: (torch.logsumexp(x, 1), torch.logsumexp(x, (0, 1), True)), X),
    "logsumexp_of_infinities": (lambda x: torch.logsumexp(x, 0), tensor([-INF, -INF])),
    "norms": (
        lambda x: (
            x.norm(),
            x.norm(1, 0),
            torch.linalg.vector_norm(x, INF, 1),
            torch.linalg.vector_norm(x, -INF, 1),
            torch.linalg.vector_norm(x, 0, 1),
            torch.linalg.vector_norm(x, 3.0),
        ),
        X,
    ),
    "arange": (lambda x: torch.arange(8) + x, X),
    "arange_of_floats": (lambda x: torch.arange(0.5, 4.5, 0.5) + x, X),
    "arange_down": (lambda x: torch.arange(9, 1, -1) * x, X),
    "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-2), torch.eye(4, 8) * x), X),
    "creation": (
        lambda x: (
            torch.full((3,), 2),
            torch.zeros_like(x),
            torch.ones(2, 2, dtype=torch.int8),
            x.new_full((2,), 7),
            torch.full_like(x, 3),
            torch.tensor(3.5) + x,
        ),
        X,
    ),
    "activations": (
        lambda x: (
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.elu(x, 0.7),
            F.mish(x),
            F.leaky_relu(x),
            F.hardswish(x),
            F.hardsigmoid(x),
            F.softplus(x, 2, 1),
            F.relu6(x),
            F.hardtanh(x, -0.5, 0.5),
            F.hardshrink(x),
            F.softshrink(x),
            F.threshold(x, 0.1, 20),
            F.relu(x),
            F.selu(x),
            F.celu(x),
        ),
        X,
    ),
    "backwards": (
        lambda g, x: (
            aten.gelu_backward(g, x),
            aten.gelu_backward(g, x, approximate="tanh"),
            aten.silu_backward(g, x),
            aten.sigmoid_backward(g, x),
            aten.tanh_backward(g, x),
            aten.threshold_backward(g, x, 0),
            aten.hardtanh_backward(g, x, -0.5, 0.5),
            aten.leaky_relu_backward(g, x, 0.1, False),
            aten.hardswish_backward(g, x),
            aten.hardsigmoid_backward(g, x),
            aten.softplus_backward(g, x, 2, 1),
        ),
        X,
        Y,
    ),
    "where": (lambda x, y: (torch.where(x > 0, x, 0.0), torch.where(x > y, 1, y)), X, Y),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -INF), X),
    "conv": (
        lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
        numbers(2, 3, 8, 8),
        numbers(4, 3, 3, 3),
    ),
    "flip_and_roll": (
        lambda x: (x.flip(0, 1), x.roll(3, 1), x.roll(-5), x.roll((1, 2), (0, 1))),
        X,
    ),
    "diagonal_and_unfold": (
        lambda x: (x.diagonal(1), x.diagonal(-2) + 1, x.unfold(1, 3, 2) * 2),
        X,
    ),
    "slice_scatter": (
        lambda x: (
            torch.slice_scatter(x, x[:, 1:7:2] * 2, 1, 1, 7, 2),
            torch.select_scatter(x, x[0] * 2, 0, -1),
        ),
        X,
    ),
    "slice_and_select_backward": (
        lambda g: (
            aten.slice_backward(g, (4, 19), 1, 3, 18, 2),
            aten.select_backward(g, (4, 3, 8), 1, 1),
        ),
        X,
    ),
    "slices": (
        lambda x: (x[1:] * 2, x[:, -3:] + 1, x[-1] * 2, x[:, ::3].sum(), x[5:] + 1, x[:9] * 2),
        X,
    ),
    "cumsum": (lambda x: x.cumsum(1) * 2, X),
    "sort_and_topk": (lambda x: (x.sort(1), x.topk(2, 1)), X),
    "rounded_division": (
        lambda x, y: (
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            x % y,
            torch.fmod(x, y),
            x // y,
        ),
        X,
        Y,
    ),
    "powers": (
        lambda x: (x**2, x**3, x.abs() ** 0.5, x.abs() ** 2.5, x**-1, 2**x, x**1, x**-0.5),
        X,
    ),
    "integer_arithmetic": (
        lambda a, b: (
            a + b,
            a * b,
            a // b,
            a % b,
            torch.fmod(a, b),
            a / b,
            a & b,
            a | b,
            a ^ b,
            ~a,
            a << 2,
            a >> 1,
            a.abs(),
            -a,
            a**3,
            a.sign(),
            torch.sub(a, b, alpha=3),
            torch.div(a, b, rounding_mode="trunc"),
            a.clamp(-2, 2),
            a.float().exp(),
        ),
        integers(20),
        integers(20, low=1, seed=1) * tensor([1, -1] * 10),
    ),
    "bytes_wrap": (
        lambda a, b: (a + b, a * b, a - b, -a, ~a, a << 3, a >> 9, a > b),
        integers(20, low=0, high=256, dtype=torch.uint8),
        integers(20, low=0, high=256, seed=1, dtype=torch.uint8),
    ),
    "numbers_that_wrap": (
        lambda a: (a + -1, a * 300, a - 256, a == -1),
        integers(20, low=0, high=256, dtype=torch.uint8),
    ),
    "bool_arithmetic": (
        lambda a, b: (a + b, a * b, a & b, a | b, a ^ b, ~a, a < b, torch.maximum(a, b)),
        X > 0,
        Y > 0,
    ),
    "logic": (
        lambda a, b: (
            torch.logical_and(a, b),
            torch.logical_or(a, b),
            torch.logical_xor(a, b),
            torch.logical_not(a),
        ),
        integers(9, low=-1, high=2),
        EDGES[:9],
    ),
    "alpha": (
        lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=0.5), torch.rsub(x, y)),
        X,
        Y,
    ),
    "addcmul": (
        lambda x, y: (
            torch.addcmul(x, y, y, value=2),
            torch.addcdiv(x, y, y),
            torch.lerp(x, y, 0.3),
        ),
        X,
        Y,
    ),
    "clamp": (lambda x, y: (x.clamp(-1, 1), x.clamp(min=y), x.clamp(max=0), x.clamp(1, -1)), X, Y),
    "extremes": (
        lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y)),
        EDGES,
        EDGES.flip(0),
    ),
    "questions": (
        lambda x: (
            x.isnan(),
            x.isinf(),
            x.isfinite(),
            x.isposinf(),
            x.isneginf(),
            x.signbit(),
            x.nan_to_num(),
            x.nan_to_num(1.0, 2.0, 3.0),
        ),
        EDGES,
    ),
    "questions_of_ints": (
        lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.signbit(), x.floor(), x.round()),
        integers(5),
    ),
    "rounding": (
        lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac(), x.sign()),
        tensor([0.5, 1.5, 2.5, -0.5, -1.5, 2.4]),
    ),
    "remainders_at_edges": (
        lambda x, y: (x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="floor")),
        EDGES,
        EDGES.roll(1),
    ),
    "two_arguments": (
        lambda x, y: (
            torch.atan2(x, y),
            torch.copysign(x, y),
            torch.logaddexp(x, y),
            torch.xlogy(x, y.abs()),
        ),
        X,
        Y,
    ),
    "casts": (
        lambda x: (
            x.int(),
            x.double(),
            x.bool(),
            x.half().float(),
            x.bfloat16(),
            x.to(torch.uint8).long(),
        ),
        X.abs() * 10,
    ),
    "bits": (lambda x: x.view(torch.int32), X),
    "copies": (
        lambda x: (x.clone(), x.t().contiguous(), x.expand(2, 4, 8).clone(), torch.fill(x, 2)),
        X,
    ),
    "views_returned": (lambda x: (x.t(), x[1], x[:, ::2], x.expand(3, 4, 8), x), X),
    "as_strided": (lambda x: x.as_strided((3, 3), (2, 1), 1) + 1, X),
    "as_strided_of_a_slice": (lambda x: x[1:].as_strided((3, 3), (2, 1), 9) + 1, X),
    "squeezes": (
        lambda x: (x.squeeze() * 2, x.squeeze(0) + 1, x.unsqueeze(-1) * x, x.squeeze((0, 2))),
        numbers(1, 3, 1),
    ),
    "sdpa": (lambda q: F.scaled_dot_product_attention(q, q, q), numbers(1, 2, 8, 16)),
    "scatter": (lambda x, i: x.scatter(1, i, 1.0), X, integers(4, 3, low=0, high=8)),
    "repeat": (lambda x: (x.repeat(2, 1, 3), x.repeat(1, 2) * 2), X),
    "pixel_shuffle": (
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2) * 2),
        numbers(2, 4, 4, 6),
    ),
    "prelu": (lambda x, w: F.prelu(x, w), X, numbers(8).abs()),
    "heaviside": (lambda x: torch.heaviside(x, tensor(0.5)), tensor([-1.0, 0.0, 2.0, INF])),
    "split_reductions": (
        lambda x: (x.sum(), x.amax(), x.mean(0), x.sum(1), x.var((0, 1))),
        numbers(2 * 3 * 37, 1024, dtype=torch.float64),
    ),
    "max_pool": (lambda x: F.max_pool2d(x, 2) * 2, numbers(1, 2, 4, 4)),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("name", CASES)
def test_lowering_agrees_with_eager(name, dynamic):
    function, *inputs = CASES[name]
    computed_addresses = any(word in name for word in ("index", "gather", "embedding", "take"))
    check(function, *inputs, dynamic=dynamic, prove_bounds=not computed_addresses)


LOW_PRECISION = {
    "softmax": (lambda x: torch.softmax(x * 2 + 1, -1), X),
    "sum": (lambda x: (x * 2 + 1).sum(-1), X),
    "mean_var": (lambda x: (x.mean(0), x.var(1)), X),
    "promotes_with_int": (lambda x: x + torch.arange(8) * 3, X),
    "promotes_with_scalar": (lambda x: x * 0.1 + 2, X),
    "compares": (lambda x: (x > 0.5, x == x), X),
    "matmul": (lambda x: x @ x.t() + 1, X),
    "gelu": (lambda x: F.gelu(x), X),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LOW_PRECISION)
def test_low_precision_agrees_with_eager(name, dtype):
    function, x = LOW_PRECISION[name]
    tolerance = 2e-2 if dtype == torch.bfloat16 else 4e-3
    check(function, x.to(dtype), rtol=tolerance, atol=tolerance)


UNARY = sorted(
    {"abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "deg2rad",
     "erf", "erfc", "exp", "exp2", "expm1", "floor", "frac", "lgamma", "log", "log10", "log1p",
     "log2", "neg", "positive", "rad2deg", "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid",
     "sign", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "logit"}
)  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_at_their_edges(name):
    function = getattr(torch, name)
    check(function, EDGES, rtol=3e-6, atol=1e-6)
    check(function, numbers(4, 3).t(), rtol=3e-6, atol=1e-6)
    check(function, numbers(5, dtype=torch.float64))


@pytest.mark.parametrize(
    "name", [n for n in UNARY if n not in ("frac", "relu", "deg2rad", "rad2deg")]
)
def test_unary_functions_of_integers(name):
    check(getattr(torch, name), integers(3, 4), rtol=3e-6, atol=1e-6)


def test_zero_size():
    empty = torch.zeros(0, 4)
    check(lambda x: (x * 2 + 1, x.sum(0), x.sum(), x.prod(), x.any(), x.reshape(4, 0)), empty)
    check(lambda x: (torch.cat([x, x]), x.t() + 1, x.sum(1)), empty)
    check(lambda x: x.mean(), empty)


def test_zero_dimensional():
    x = tensor(2.5)
    check(lambda x: (x * 2, x.sum(), x.view(1), x.expand(3) + 1, x.argmax(), x.sum(0)), x)
    check(lambda x, y: (x + y, y * x.double(), x + tensor(2)), x, numbers(3))


def test_what_is_unknown_falls_back_visibly():
    from minitorch2 import stages

    with stages.collect() as log:
        check(lambda x: torch.special.i0(x) + 1, X, fallbacks=1)
    assert log.counts["fallbacks"] == 1
    check(lambda x: torch.view_as_real(torch.complex(x, x) * 2), X, fallbacks=3)
    check(lambda x: torch.linalg.qr(x), X, fallbacks=1)


def test_an_operator_that_mutates_is_refused():
    from minitorch2.errors import LoweringError

    with pytest.raises(LoweringError, match="functionalize"):
        check(lambda x: torch.special.i0(x).add_(1), X)


def test_library_calls_are_planned_not_fallbacks():
    found = check(lambda x: torch.mm(x, x.t()) + 1, X)
    assert found.externs == ["aten.mm.default"] and not found.fallbacks
    assert str(found.lowered.buffers[0].out_variant) == "aten.mm.out"
    assert found.kernels == 2  # the transposition costs nothing


def test_emulate_eager_keeps_its_rounding_points():
    from minitorch2 import config

    x, y = numbers(64, dtype=torch.bfloat16), numbers(64, seed=1, dtype=torch.bfloat16)
    with config.patch(emulate_eager=True):
        check(lambda x, y: (x * 1.1 + y) * x - y, x, y, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("eps", [None, 0.0123])
def test_emulate_eager_rounds_each_step_of_logit(eps, dtype):
    """Eager's, on the CPU, computes `log(x / (1 - x))` in 16 bits; so does its gradient."""

    def gradient(function):
        x = torch.rand(2000, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
        result = function(x)
        result.sum().backward()
        return result.detach(), x.grad

    def program(x):
        return torch.logit(x, eps)

    fast = minitorch2.compile(program, fullgraph=True, options={"emulate_eager": True})
    for result, expected in zip(gradient(fast), gradient(program), strict=True):
        assert torch.equal(result, expected)


def test_random_numbers_are_eagers_in_order():
    def program(x):
        return torch.rand_like(x) + torch.bernoulli(x.sigmoid()), torch.randn(3), torch.rand(2)

    gm = trace(program, [X])
    lowered = lower_graph(gm)
    assert all(b.has_side_effects for b in lowered.buffers if isinstance(b, ExternKernel))
    torch.manual_seed(3)
    expected = program(X)
    torch.manual_seed(3)
    for value, answer in zip(interpret(lowered, [X]), expected, strict=True):
        torch.testing.assert_close(value, answer)


def test_results_that_alias_an_input_are_copied():
    """An unknown view operator must not hand out memory that the schedule may reuse."""
    complex_input = torch.randn(3, 2, dtype=torch.complex64)
    lowered = lower_graph(trace(lambda x: x.t(), [complex_input]))
    (kernel,) = lowered.buffers
    assert kernel.copies_result and kernel.out_variant is None


def test_a_lowering_that_disagrees_with_eager_is_not_used(monkeypatch):
    wrong = LOWERINGS[aten.sin.default]
    monkeypatch.setitem(
        LOWERINGS, aten.cos.default, lambda x: wrong(x.view((4,), lambda i: (0, 0)))
    )
    check(lambda x: x.cos() + 1, X, fallbacks=1)
