"""Finite differences for one operator of each kind; `gradcheck.py` checks the whole database."""

import pytest

from tests.operators.gradcheck import check
from tests.operators.sweep import OPERATORS

KINDS = """
    add pow where sum var cumsum amax softmax matmul linalg.norm linalg.solve index_add gather
    sort diagonal as_strided cat roll nn.functional.conv2d nn.functional.max_pool2d
    nn.functional.layer_norm nn.functional.batch_norm nn.functional.embedding
    nn.functional.cross_entropy nn.functional.interpolate:bilinear fft.rfft
""".split()  # noqa: SIM905  (reads as a table)


@pytest.mark.parametrize("name", KINDS)
def test_gradients_match_finite_differences(name: str) -> None:
    outcome = check(OPERATORS[name], "aot_eager_decomp_partition", limit=1)
    assert outcome.status == "pass", outcome.note


@pytest.mark.parametrize("name", ["pow", "softmax", "matmul", "nn.functional.batch_norm"])
def test_second_derivatives_match_finite_differences(name: str) -> None:
    outcome = check(OPERATORS[name], "aot_eager_decomp_partition", limit=1, second=True)
    assert outcome.status == "pass", outcome.note


@pytest.mark.parametrize("name", ["mul", "tanh", "log_softmax", "mean"])
def test_gradients_of_kernels_match_finite_differences(name: str) -> None:
    outcome = check(OPERATORS[name], "numba", limit=1)
    assert outcome.status == "pass", outcome.note
