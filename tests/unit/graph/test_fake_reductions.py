"""Metadata of norms, losses and reductions without meta kernels equals what eager gives."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from minitorch2.graph.fake_kernels import FAKE_KERNELS
from minitorch2.graph.fake_reductions import FAKE_REDUCTIONS

aten = torch.ops.aten
X, W = torch.rand(4, 6), torch.rand(6)
IMAGE, CHANNELS = torch.rand(2, 8, 3, 5), torch.rand(8)
TARGET = torch.zeros(4, dtype=torch.int64)
NORM = (CHANNELS, CHANNELS, CHANNELS.clone(), CHANNELS.clone())

CALLS: list[tuple[Any, ...]] = [
    (aten.native_layer_norm.default, X, [6], W, W, 1e-5),
    (aten.native_layer_norm.default, IMAGE, [3, 5], None, None, 1e-5),
    (aten.native_layer_norm.default, X.double(), [6], W.double(), None, 1e-5),
    (aten.native_group_norm.default, IMAGE, CHANNELS, CHANNELS, 2, 8, 15, 4, 1e-5),
    (aten.native_batch_norm.default, IMAGE, *NORM, True, 0.1, 1e-5),
    (aten._log_softmax.default, X, 1, False),
    (aten._log_softmax.default, X.t(), 0, False),
    (aten._safe_softmax.default, X, -1),
    (aten.mean.default, X),
    (aten.mean.dim, X, [0]),
    (aten.mean.dim, IMAGE.permute(0, 2, 3, 1), [1, -1], True),
    (aten.std.correction, X, [1]),
    (aten.std.correction, IMAGE, None),
    (aten.var_mean.correction, X, [1]),
    (aten.var_mean.correction, IMAGE.permute(0, 2, 3, 1), [0, 2]),
    (aten.logsumexp.default, IMAGE, [1, 2], True),
    (aten.linalg_vector_norm.default, X),
    (aten.linalg_vector_norm.default, IMAGE, 1, [0], True),
    (aten.nll_loss_forward.default, X, TARGET, None, 1, -100),
    (aten.nll_loss_forward.default, X, TARGET, W, 0, -100),
    (aten.upsample_bilinear2d.default, IMAGE, [6, 7], False),
    (aten.glu.default, X),
    (aten.glu.default, IMAGE, 1),
    (aten.stack.default, [X, X, X], 1),
    (aten.stack.default, [X, X], -1),
    (aten.any.default, X),
    (aten.all.default, X > 0),
    (aten.any.dim, IMAGE, 1, True),
    (aten.all.dims, IMAGE, [0, 2]),
    *((func, X, X.clone(), r) for r in (0, 1, 2) for func in (
        aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default)),
    (aten.binary_cross_entropy.default, X, X.clone(), None, 0),
    (aten.binary_cross_entropy_with_logits.default, X, X.clone()),
    (aten.binary_cross_entropy_with_logits.default, X, X.clone(), None, None, 0),
]  # fmt: skip

REFUSED: list[tuple[Any, ...]] = [
    (aten.native_layer_norm.default, X, [5], None, None, 1e-5),
    (aten.native_layer_norm.default, X, [6], torch.rand(5), None, 1e-5),
    (aten.native_group_norm.default, IMAGE, None, None, 2, 8, 15, 3, 1e-5),
    (aten.mean.default, torch.arange(3)),
    (aten.mean.dim, X, [2]),
    (aten._log_softmax.default, X, 2, False),
    (aten.logsumexp.default, X, [2]),
    (aten.glu.default, torch.rand(4, 5)),
    (aten.stack.default, [X, W]),
    (aten.stack.default, [X, X], 3),
    (aten.nll_loss_forward.default, X, TARGET[:3], None, 1, -100),
]


def on_meta(value: Any) -> Any:
    if isinstance(value, list):
        return [on_meta(item) for item in value]
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def facts(result: Any) -> list[Any]:
    tensors = result if isinstance(result, (tuple, list)) else [result]
    return [(tuple(t.shape), t.stride(), t.dtype) for t in tensors]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: str(call[0]))
def test_the_rule_says_what_eager_gives(call: Any) -> None:
    func, *arguments = call
    found = FAKE_KERNELS[func](*map(on_meta, arguments))
    assert found is not None and facts(found) == facts(func(*arguments))


@pytest.mark.parametrize("call", REFUSED, ids=lambda call: str(call[0]))
def test_what_is_wrong_is_still_refused(call: Any) -> None:
    func, *arguments = call
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        func(*arguments)
    try:
        found = FAKE_KERNELS[func](*map(on_meta, arguments))
    except (RuntimeError, IndexError, ValueError):
        return
    assert found is None


@pytest.mark.parametrize("func", sorted(FAKE_REDUCTIONS, key=str), ids=str)
def test_every_rule_is_compared(func: Any) -> None:
    compared = {call[0] for call in CALLS}
    assert func in compared or func in (aten.all.dim, aten.any.dims)


MODELS = {
    "norms": "nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),"
    " nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(8), nn.RMSNorm(8))",
    "transformer": "nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(64, 4))",
    "activations": "nn.Sequential(nn.Hardswish(), nn.GELU(), nn.Softplus(), nn.Mish(), nn.GLU(),"
    " nn.LogSoftmax(-1))",
}


@pytest.mark.parametrize(
    "name",
    [
        "transformer",
        pytest.param("norms", marks=pytest.mark.slow),
        pytest.param("activations", marks=pytest.mark.slow),
    ],
)
def test_a_first_call_does_not_import_torch_dynamo(name: str) -> None:
    code = f"""
import sys, torch, minitorch2
from torch import nn
model = {MODELS[name]}
result = minitorch2.compile(model)(torch.randn(2, 3, 8, 8, requires_grad=True))
target = torch.zeros(2, dtype=torch.int64)
torch.nn.functional.cross_entropy(result.flatten(1), target).backward()
print("torch._dynamo" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False"], done.stderr
