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

AS_KERNELS = """
    abs add addcdiv amax any argmin atan2 cat clamp constant_pad_nd copysign cumsum diagonal
    div:floor_rounding expm1 flip fmod gather index_add index_put index_select lerp log_softmax
    logsumexp masked_fill mean nan_to_num nn.functional.avg_pool2d nn.functional.cross_entropy
    nn.functional.embedding nn.functional.gelu nn.functional.group_norm
    nn.functional.interpolate:bilinear nn.functional.layer_norm pow remainder roll scatter_add
    softmax split std sum tril var_mean where __getitem__
""".split()  # noqa: SIM905  (reads as a table)


@pytest.mark.parametrize("name", INTERPRETED)
def test_loop_bodies_and_gradients_match_eager(name):
    op = OPERATORS[name]
    backward = op.supports_autograd
    outcome = check_operator(op, torch.float32, "interpret", limit=2, backward=backward)
    assert outcome.status in ("pass", "fallback"), outcome.note


@pytest.mark.parametrize("backend", ["numba", "triton"])
@pytest.mark.parametrize("name", AS_KERNELS)
def test_kernels_and_gradients_match_eager(name, backend):
    """What users run: a printer may be wrong where the loop bodies are right."""
    op = OPERATORS[name]
    outcome = check_operator(op, torch.float32, backend, limit=1, backward=op.supports_autograd)
    assert outcome.status in ("pass", "fallback"), outcome.note


@pytest.mark.parametrize("backend", ["interpret", "numba", "triton"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["add", "sum", "tril", "where", "clamp", "amax", "pow"])
def test_other_dtypes_match_eager(name, dtype, backend):
    if dtype in OPERATORS[name].dtypes:
        outcome = check_operator(OPERATORS[name], dtype, backend, limit=2)
        assert outcome.status in ("pass", "fallback"), outcome.note


REINTERPRETED = [torch.bool, torch.int16, torch.float16, torch.bfloat16, torch.float32,
                 torch.complex64, torch.float8_e4m3fn]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "interpret", "numba", "triton"])
@pytest.mark.parametrize("dtype", REINTERPRETED, ids=str)
def test_memory_is_viewed_as_another_dtype(dtype, backend):
    outcome = check_operator(OPERATORS["view_dtype"], dtype, backend, limit=5)
    assert outcome.status in ("pass", "fallback"), outcome.note
    assert outcome.samples == 5
