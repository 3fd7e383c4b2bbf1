"""One kernel serves all sizes: compiled once, run forward and backward for several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages

SHAPES = [(5, 6), (8, 9), (3, 17), (33, 12)]
PROGRAMS: dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = {
    # kernels of forward and backward together
    "pointwise": (2, lambda x: x.sin() * 2),
    "softmax": (2, lambda x: torch.softmax(x * 2, -1)),
    "layer_norm": (2, lambda x: F.layer_norm(x, x.shape[1:])),
    "mean_over_rows": (3, lambda x: (x - x.mean(0)).pow(2).sum() / x.shape[0]),
    "cat": (2, lambda x: torch.cat([x, x * 3], 1).relu().sum(1)),
    "flattened": (2, lambda x: x.view(x.shape[0] * x.shape[1]).sin()),
    "window": (2, lambda x: x[:, 1:-1].cos()),
    "transposed": (2, lambda x: x.t().contiguous().exp()),
    "divided_by_a_root": (2, lambda x: x.cos() / x.shape[1] ** 0.5),
    "variance": (2, lambda x: x.var(1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_for_all_sizes(name: str) -> None:
    kernels, program = PROGRAMS[name]
    with stages.collect() as log, config.patch(suppress_errors=False):
        fast = minitorch2.compile(program, backend="numba", dynamic=True)
        for shape in SHAPES:
            assert_same_values_and_gradients(fast, program, torch.randn(shape))
    assert (log.counts["graphs"], log.counts["kernels"]) == (1, kernels)
    assert log.counts["fallbacks"] == 0


def test_kernel_size_squared_in_a_product() -> None:
    """The number of iterations was printed as s0*s3*(a + b*a + b)."""
    weight = torch.randn(4, 3, 3, 3)
    program = lambda x: F.conv2d(x, weight, padding=1).relu()  # noqa: E731
    fast = minitorch2.compile(program, backend="numba", dynamic=True)
    for batch, side in [(5, 6), (2, 9)]:
        assert_same_values_and_gradients(fast, program, torch.randn(batch, 3, side, side))


def test_sizes_that_are_rounded_floats_are_kernel_arguments() -> None:
    program = lambda x: F.interpolate(x, scale_factor=1.5) * 2  # noqa: E731
    fast = minitorch2.compile(program, backend="numba", dynamic=True)
    for side in (6, 9, 10):
        assert_same_values_and_gradients(fast, program, torch.randn(2, 3, side, side))


def test_a_ratio_of_sizes_keeps_its_brackets() -> None:
    """The scale was printed as s2 / 2*s2: the kernel read behind the image."""
    program = lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 1)) * 2  # noqa: E731
    fast = minitorch2.compile(program, backend="numba", dynamic=True)
    for rows, columns in [(12, 5), (7, 9)]:
        assert_same_values_and_gradients(fast, program, torch.randn(2, 3, rows, columns))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.repeat(2, 1, 3),  # the index was taken modulo 0
        lambda x: x.reshape(-1, x.shape[-1]).sin(),  # and divided by 0
        lambda x: F.pad(x, (1, 2)).sum(),
        lambda x: x.flip(0).transpose(0, 2).sum((0, 1)),
        lambda x: F.layer_norm(x, x.shape[2:]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dynamic", [True, None])
def test_tensors_without_elements(
    program: Callable[[torch.Tensor], torch.Tensor], dynamic: bool | None
) -> None:
    fast = minitorch2.compile(program, backend="numba", dynamic=dynamic)
    for shape in [(0, 2, 4), (3, 0, 2), (2, 3, 4)]:
        assert_same_values_and_gradients(fast, program, torch.randn(shape))


def test_negative_pads_may_be_symbols() -> None:
    """The gradient of an odd size's pad crops; it was as large as the padded image."""
    program = lambda x: F.pad(x, (0, x.shape[1] % 2, x.shape[0] - 4, 1)) * 2  # noqa: E731
    fast = minitorch2.compile(program, backend="numba", dynamic=True)
    for shape in [(6, 7), (3, 8), (2, 5), (4, 9)]:
        assert_same_values_and_gradients(fast, program, torch.randn(shape))


@pytest.mark.parametrize("shape", [(5, 40000), (40000, 5), (3, 200, 300), (2, 17000, 3)])
@pytest.mark.parametrize("dim", [-1, 0, (0, 1), None])
def test_long_sums_are_made_of_pieces(shape: tuple[int, ...], dim: Any) -> None:
    """Fast as sums of float32, exact as those of float64: the error of the last rounding."""
    program = lambda x: x.sum(dim) if dim is not None else x.sum()  # noqa: E731
    fast = minitorch2.compile(program, backend="numba", dynamic=True)
    x = torch.rand(shape)
    with stages.collect() as log:
        for y in (x, x[:, :2].contiguous(), x[:, :0].contiguous()):
            exact = program(y.double())
            torch.testing.assert_close(fast(y).double(), exact, rtol=2e-6, atol=0)
    assert all("float32(0.0)" in text for text in log.texts("wrapper.py"))


def assert_same_values_and_gradients(
    fast: Callable[..., Any], program: Callable[..., Any], x: torch.Tensor
) -> None:
    found, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
    result, expected = fast(found), program(wanted)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    tangent = torch.randn_like(expected)
    result.backward(tangent)
    expected.backward(tangent)
    torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-4, atol=1e-4)
