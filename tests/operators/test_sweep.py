"""A part of the sweep for every run of the tests; `sweep.py` runs the whole database."""

import pytest
import torch

from tests.operators.compare import check_operator
from tests.operators.sweep import OPERATORS

INTERPRETED = """
    abs acos add addbmm addcdiv addcmul addmm all amax any argmin atan2 baddbmm cat
    clamp constant_pad_nd copysign cumsum diagonal dist div:floor_rounding expand expm1 flip fmod
    gather index_add index_put index_select isclose lerp linalg.vector_norm log_softmax logsumexp
    masked_fill matmul max:reduction_with_dim mean nan_to_num nanquantile nn.functional.avg_pool2d
    nn.functional.conv2d nn.functional.cross_entropy nn.functional.embedding nn.functional.gelu
    nn.functional.group_norm nn.functional.interpolate:bilinear nn.functional.layer_norm
    nn.functional.mse_loss nn.functional.silu pow remainder roll scatter_add softmax sort split std
    sum tril var_mean where __getitem__
""".split()  # noqa: SIM905  (reads as a table)

WITH_NUMBA = """
    add amax cat clamp cumsum flip log_softmax nn.functional.gelu nn.functional.layer_norm
    pow remainder softmax sum where var_mean
""".split()  # noqa: SIM905  (reads as a table)


@pytest.mark.parametrize("name", INTERPRETED)
def test_loop_bodies_and_gradients_match_eager(name):
    op = OPERATORS[name]
    backward = op.supports_autograd
    outcome = check_operator(op, torch.float32, "interpret", limit=2, backward=backward)
    assert outcome.status in ("pass", "fallback"), outcome.note


@pytest.mark.parametrize("name", WITH_NUMBA)
def test_kernels_match_eager(name):
    outcome = check_operator(OPERATORS[name], torch.float32, "numba", limit=1)
    assert outcome.status == "pass", outcome.note


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["add", "sum", "tril", "where", "clamp", "amax", "pow"])
def test_other_dtypes_match_eager(name, dtype):
    if dtype in OPERATORS[name].dtypes:
        outcome = check_operator(OPERATORS[name], dtype, "interpret", limit=2)
        assert outcome.status in ("pass", "fallback"), outcome.note
