"""Convolutions go channels-last by themselves; only what enters and what leaves is turned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import minitorch2
from minitorch2 import config, stages
from minitorch2.autograd import DECOMPOSITIONS, aot_autograd
from minitorch2.autograd.runtime import run_as_it_is
from minitorch2.codegen import channels_last
from minitorch2.codegen.channels_last import CHANNELS_LAST, with_expected_order
from minitorch2.graph.graph_module import GraphModule


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels_last, "_is_on_gpu", lambda x: True)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8),
        nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1),
    )  # fmt: skip


def compiled(model: nn.Module) -> Any:
    def backend(gm: GraphModule, inputs: list[Any]) -> Any:
        return aot_autograd(
            with_expected_order(gm),
            inputs,
            forward_compiler=run_as_it_is,
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


@pytest.mark.usefixtures("as_on_a_gpu")
def test_weights_are_turned_once() -> None:
    model, x = network().eval(), torch.randn(2, 3, 12, 12)
    with stages.collect() as log, torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-4, atol=1e-5)
    assert log.texts("aten graph.py")[0].count("aten.clone") == 2 + 1  # not for a window of one


@pytest.mark.usefixtures("as_on_a_gpu")
def test_weights_are_turned_once_for_forward_and_backward() -> None:
    with stages.collect() as log:
        compiled(network())(torch.randn(2, 3, 12, 12)).sum().backward()
    texts = [log.texts(f"{part} graph.py")[0] for part in ("forward", "backward")]
    assert [text.count("weight, memory_format=torch.channels_last") for text in texts] == [1, 0]


@pytest.mark.usefixtures("as_on_a_gpu")
def test_the_gradient_of_a_mean_has_the_order_of_its_image() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    with stages.collect() as log:
        result = compiled(model)(x)
        (gradient,) = torch.autograd.grad(result.square().sum(), x)
    (expected,) = torch.autograd.grad(model(x).square().sum(), x)
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-4)
    backward = log.texts("backward graph.py")[0]
    assert "permute" not in backward and "as_strided" not in backward


@pytest.mark.usefixtures("as_on_a_gpu")
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


READ_ORDER = {
    "a view": lambda images: images.view(2, -1),
    "a view that is written to": lambda images: images.view(-1).add_(1),
    "strides": lambda images: images.as_strided((2, 8), (392, 49)),
    "another dtype": lambda images: images.view(torch.int16),
    "an operator of the user's": lambda images: torch.ops.minitorch2_test.flat(images),
    "what leaves": lambda images: [images.flatten(1), images[0], images.unsqueeze(0)],
    "a stride as a number": lambda images: images * images.stride(1),
}


@pytest.fixture(params=["CPU", "as on a GPU"])
def device(request: pytest.FixtureRequest) -> None:
    if request.param != "CPU":
        request.getfixturevalue("as_on_a_gpu")


@pytest.fixture(scope="module")
def operator_of_the_users() -> Iterator[None]:
    """An operator that reads memory as it lies."""
    library = torch.library.Library("minitorch2_test", "FRAGMENT")
    library.define("flat(Tensor x) -> Tensor")
    library.impl("flat", lambda x: x.as_strided((x.numel(),), (1,)).clone(), "CPU")
    library.impl("flat", lambda x: x.new_empty(x.numel()), "Meta")
    yield
    library._destroy()


@pytest.mark.parametrize("name", READ_ORDER)
@pytest.mark.usefixtures("operator_of_the_users", "device")
def test_a_program_cannot_tell(name: str) -> None:
    layer, x = nn.Conv2d(3, 8, 3), torch.randn(2, 3, 9, 9)

    def program(x: torch.Tensor) -> Any:
        return READ_ORDER[name](layer(x))

    with torch.no_grad(), config.patch(suppress_errors=False):
        got, expected = minitorch2.compile(program, fullgraph=True)(x), program(x)
    for ours, theirs in zip(tree_leaves(got), tree_leaves(expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        assert ours.stride() == theirs.stride()


def test_inference_on_the_cpu_turns_what_enters_and_leaves() -> None:
    model, x = network().eval(), torch.randn(2, 3, 12, 12)
    with stages.collect() as log, torch.no_grad():
        minitorch2.compile(model)(x)
    assert log.texts("aten graph.py")[0].count("memory_format") == 2


def orders(model: nn.Module, x: torch.Tensor, **options: Any) -> list[bool]:
    """Return for each convolution of the wrapper whether its result is channels-last."""
    with stages.collect() as log, torch.no_grad():
        fast = minitorch2.compile(model, fullgraph=True, **options)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    calls = [line for line in log.texts("wrapper.py")[0].splitlines() if "convolution(" in line]
    return [", 1, " in call.rpartition("), (")[2] for call in calls]


def check_gradients(model: nn.Module, x: torch.Tensor, **options: Any) -> None:
    x.requires_grad_()
    expected, found = (
        torch.autograd.grad(f(x).square().sum(), [x, *model.parameters()])
        for f in (model, minitorch2.compile(model, fullgraph=True, **options))
    )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_weight_much_larger_than_its_image_keeps_both_row_major(dynamic: bool) -> None:
    """The library would turn the weight in each call, which took longer than the convolution."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.MaxPool2d(4), nn.Conv2d(32, 256, 3, padding=1),
        nn.ReLU(), nn.Conv2d(256, 128, 1), nn.Upsample(scale_factor=4), nn.Conv2d(128, 16, 1),
    )  # fmt: skip
    x = torch.randn(1, 3, 16, 16)
    assert orders(model, x, dynamic=dynamic) == [True, False, False, True]
    check_gradients(model, x, dynamic=dynamic)


@pytest.mark.parametrize(("groups", "is_turned"), [(16, True), (4, True), (2, False)])
def test_narrow_groups_of_channels_go_channels_last(groups: int, is_turned: bool) -> None:
    model, x = nn.Conv2d(64, 64, 3, groups=groups), torch.randn(2, 64, 12, 12)
    assert orders(model, x) == [is_turned]
    check_gradients(model, x)
