"""How many bytes kernels for a GPU move, counted without one: each pointer's memory, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minitorch2.autograd.decompositions import losses, normalizations
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.loopir.lower_graph import lower_graph
from tests.unit.codegen.aten_graph import record
from tests.unit.codegen.triton.run_lowered import Kernels


def passes_over(program: Callable[..., Any], x: torch.Tensor, *others: torch.Tensor) -> float:
    """What all kernels of a program read and write, in units of the size of `x`."""
    cuda = torch.device("cuda", 0)
    inputs = [FakeTensor(tensor, cuda) for tensor in (x, *others)]
    made = Kernels(lower_graph(record(program, *inputs)))
    layouts = [
        made.buffers[name].fixed_layout()
        for kernel in made.kernels.values()
        for name in kernel.buffers
    ]
    return sum(int(a.storage_size()) * a.dtype.itemsize for a in layouts) / x.nbytes


def empty(*size: int) -> torch.Tensor:
    return torch.empty(size, device="meta")


def images(channels: int, extent: int) -> torch.Tensor:
    return empty(32, channels, extent, extent).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(("channels", "extent"), [(64, 56), (512, 28), (2048, 7)])
def test_batch_norm_of_channels_last_images(channels: int, extent: int) -> None:
    def forward(x: Any, w: Any, b: Any, mean: Any, var: Any) -> Any:
        return normalizations.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)

    def backward(x: Any, g: Any, w: Any, mean: Any, rstd: Any) -> Any:
        return normalizations.native_batch_norm_backward(
            g, x, w, None, None, mean, rstd, True, 1e-5, [True] * 3
        )

    x, numbers = images(channels, extent), empty(channels)
    # The kernel that adds partial sums reads the first image's first pixel, too.
    assert passes_over(forward, x, *[numbers] * 4) <= 2 + 1 + 1.05
    assert passes_over(backward, x, x, *[numbers] * 3) <= 2 + 3 + 0.05


def test_layer_norm_with_weights() -> None:
    def backward(x: Any, g: Any, w: Any, mean: Any, rstd: Any) -> Any:
        return normalizations.native_layer_norm_backward(g, x, [768], mean, rstd, w, w, [True] * 3)

    x, statistics = empty(16, 512, 768), empty(16, 512, 1)
    assert passes_over(backward, x, x, empty(768), statistics, statistics) <= 3 + 2 + 0.07


def test_a_loss_is_computed_where_its_row_is() -> None:
    """The kernel that sums the losses of rows looks no element up, and needs no statistics."""

    def forward(x: Any, target: Any) -> Any:
        return losses.nll_loss_forward(x.log_softmax(-1), target, None, 1, -100)

    target = torch.empty(4096, dtype=torch.int64, device="meta")
    assert passes_over(forward, empty(4096, 1024), target) <= 1 + 0.01
