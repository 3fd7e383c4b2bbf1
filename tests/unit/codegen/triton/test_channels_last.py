"""Convolutions go channels-last by themselves; only what enters and what leaves is turned."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from minitorch2 import config, stages
from minitorch2.autograd import DECOMPOSITIONS, aot_autograd
from minitorch2.backends.aot_eager import run_boxed
from minitorch2.codegen.triton import channels_last
from minitorch2.codegen.triton.channels_last import CHANNELS_LAST, with_expected_order
from minitorch2.graph.graph_module import GraphModule


@pytest.fixture(autouse=True)
def on_any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels_last, "_pays", lambda x, weight, groups: x.dim() == 4)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8),
        nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1),
    )  # fmt: skip


def compiled(model: nn.Module) -> Any:
    import minitorch2

    def backend(gm: GraphModule, inputs: list[Any]) -> Any:
        return aot_autograd(
            with_expected_order(gm),
            inputs,
            forward_compiler=run_boxed,
            decompositions={**DECOMPOSITIONS, **CHANNELS_LAST},
        )

    return minitorch2.compile(model, backend=backend)


def test_one_copy_in_and_one_out() -> None:
    model, x = network().eval(), torch.randn(2, 3, 12, 12)
    with stages.collect() as log, torch.no_grad():
        result = compiled(model)(x)
    torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-5)
    assert result.stride() == model(x).stride()
    assert log.texts("aten graph.py")[0].count("aten.clone") == 2


def test_weights_are_turned_for_templates() -> None:
    model, x = network().eval(), torch.randn(2, 3, 12, 12)
    with stages.collect() as log, torch.no_grad(), config.patch(max_autotune=True):
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-5)
    assert log.texts("aten graph.py")[0].count("aten.clone") == 2 + 1  # not for a window of one


def test_a_bias_is_added_by_the_kernel_behind() -> None:
    model, x = network().eval(), torch.randn(2, 3, 12, 12)
    with stages.collect() as log, torch.no_grad():
        compiled(model)(x)
    calls = log.texts("aten graph.py")[0].split("aten.convolution.default(")[1:]
    assert len(calls) == 3 and all(", None, [" in call for call in calls)


def test_gradients() -> None:
    model = network()
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    with stages.collect() as log:
        outcome = []
        for called in (model, compiled(model)):
            model.zero_grad()
            result = called(x)
            (gradient,) = torch.autograd.grad(result.square().sum(), x)
            outcome.append((result, gradient))
    for got, expected in zip(*outcome, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)
    assert outcome[0][1].stride() == outcome[1][1].stride()
    texts = [log.texts(f"{part} graph.py")[0] for part in ("forward", "backward")]
    turned = [text.count("memory_format=torch.channels_last") for text in texts]
    assert "[True, True, False]" in texts[1], "the bias' gradient is no work of the library"
    assert turned == [1, 1]  # the input, and the gradient of the result
    assert "permute" not in texts[1], "what the rule has laid out is not laid out again"
