"""Bugs that the operator sweep found, one test each."""

import inspect

import pytest
import torch

import minitorch2
from minitorch2.loopir.lowering import LOWERINGS
from tests.operators.compare import assert_equal, interpreted, observe


def check(function, *inputs, backward=False):
    """The same results (and gradients) as eager, by loop bodies that NumPy runs."""
    wanted = observe(function, (inputs, {}), lambda value: value, backward)
    fast = minitorch2.compile(function, backend=interpreted, fullgraph=True)
    given = observe(fast, (inputs, {}), lambda value: value, backward)
    for part, left, right in zip(("result", "gradient", "argument"), given, wanted, strict=True):
        assert_equal(left, right, part)


def test_derivatives_add_numbers_with_alpha_by_position():
    check(torch.acos, torch.rand(4, requires_grad=True), backward=True)
    check(lambda x: torch.ops.aten.sub.Scalar(x, 2, 3), torch.rand(4))


@pytest.mark.parametrize("operator", [o for o in LOWERINGS if o.overloadpacket.__name__ != "copy"],
                         ids=str)  # fmt: skip
def test_a_lowering_takes_what_the_schema_passes(operator):
    arguments = operator._schema.arguments
    positional = [0 for a in arguments if not a.kwarg_only]
    keywords = {a.name: 0 for a in arguments if a.kwarg_only}
    bound = inspect.signature(LOWERINGS[operator]).bind(*positional, **keywords)
    assert len(bound.args) + len(bound.kwargs) == len(arguments)


def test_index_lists_are_constants_of_their_own():
    def gather(x):
        return x[[0, 2, 3], [1, 3, 3], [0, 0, 2]] + x[[4, 4, 1], [0, 1, 2], [2, 1, 0]]

    for _ in range(5):
        check(gather, torch.randn(5, 5, 5))


def test_an_operator_without_a_meta_kernel_runs_in_python():
    def loss(x, target):
        return torch.nn.functional.multi_margin_loss(x, target)

    x, target = torch.randn(3, 4, requires_grad=True), torch.tensor([0, 3, 1])
    assert_equal(minitorch2.compile(loss, backend=interpreted)(x, target), loss(x, target))


def test_parts_of_conjugates_are_left_to_python():
    """A write to them would have to find its way through the conjugate."""
    x = torch.randn(5, 6, requires_grad=True)
    fast = minitorch2.compile(lambda x: torch.fft.hfft(x), backend=interpreted)
    assert_equal(fast(x), torch.fft.hfft(x))


def test_an_expanded_complex_tensor_is_an_argument_of_an_operator():
    x = torch.randn(3, 5, dtype=torch.complex64, requires_grad=True)
    check(lambda x: x.mean() * x.real, x, backward=True)
    check(lambda x: torch.var_mean(x), x, backward=True)


def test_variance_of_complex_numbers_is_real():
    check(lambda x: x.std(0), torch.randn(3, 5, dtype=torch.complex64))


@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid])
def test_derivatives_of_complex_activations_are_conjugated(function):
    check(function, torch.randn(6, dtype=torch.complex64, requires_grad=True), backward=True)


def test_integer_matrices_scale_by_integer_parts():
    x, a, b = (torch.randint(-5, 5, (2, 3, 3)) for _ in range(3))
    check(lambda x, a, b: torch.baddbmm(x, a, b, beta=1.7, alpha=2.6), x, a, b)


def test_hardtanh_of_integers_stays_integer():
    check(lambda x: torch.nn.functional.hardtanh(x, -2.7, 2.7), torch.arange(-5, 5))


def test_logsumexp_and_logit_of_integers_are_floats():
    check(lambda x: torch.logsumexp(x, 0), torch.tensor([1, 2, 3]))
    check(torch.logit, torch.tensor([True, False]))


def test_like_preserves_only_dense_layouts():
    gaps = torch.randn(4, 6, 5).transpose(1, 2)[:, ::2]
    for x in (gaps, torch.randn(4, 6).t(), torch.randn(2, 3, 4, 5)):
        check(torch.zeros_like, x)
    x = torch.randn(2, 3, 4, 5)
    check(lambda x: torch.ones_like(x, memory_format=torch.channels_last), x)


def test_weights_of_a_half_precision_norm_have_gradients_of_their_dtype():
    x = torch.randn(4, 3, 5, dtype=torch.float16, requires_grad=True)
    weight = torch.randn(3, dtype=torch.float32, requires_grad=True)
    check(lambda x, w: torch.nn.functional.group_norm(x, 3, w, w), x, weight, backward=True)


def test_running_statistics_of_16_bits():
    """PyTorch's meta kernel says float32 for them, and kernels read them so."""

    def train(x, weight, mean, variance):
        return torch.ops.aten._batch_norm_with_update(x, weight, weight, mean, variance, 0.5, 0.6)

    inputs = [torch.ones(3, dtype=torch.bfloat16) for _ in range(3)]
    check(train, torch.randn(2, 3, 4, dtype=torch.bfloat16), *inputs)


def test_a_complex_result_without_strides_of_its_own():
    """Loops do not copy complex numbers, not even into an expanded result."""
    fast = minitorch2.compile(lambda: torch.empty_strided((2, 3), (0, 1), dtype=torch.complex64))
    assert fast().shape == (2, 3)


def test_a_transposed_tensor_without_dimensions():
    check(lambda x: x.transpose(0, 0) + 1, torch.randn(()))


def test_a_quotient_by_infinity_is_rounded_down():
    x = torch.tensor([-6.5, 6.5, 0.0, -0.0, torch.inf, torch.nan])
    check(lambda x: (x // torch.inf, x // -torch.inf, x % torch.inf), x)


def test_nan_is_on_no_side_of_zero():
    check(lambda x: torch.heaviside(x, x + 5), torch.tensor([-1.0, 0.0, torch.nan, 2.0]))


def test_digamma_of_numbers_just_above_a_pole():
    """The tangent's argument used to be next to pi, where it lost half of its digits."""
    check(torch.digamma, torch.tensor([-5.9605, -2.9999, -7.4074, -0.5, -1e-3]))
