"""The triton backend: autograd, loops, generated kernels. Without a GPU, another one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from minitorch2 import stages
from minitorch2.backends.channels_last import aot_channels_last
from minitorch2.backends.eager import eager
from minitorch2.backends.graph_cache import compiled_once
from minitorch2.backends.numba import numba
from minitorch2.backends.registry import devices_of
from minitorch2.codegen.triton import templates as templates  # an extension: it registers itself
from minitorch2.codegen.triton.availability import why_unavailable
from minitorch2.codegen.triton.target import TRITON
from minitorch2.errors.cautions import caution_once
from minitorch2.graph.graph_module import GraphModule
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)


def triton(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile forward and backward to Triton kernels.

    If Triton kernels cannot run, a graph of CPU tensors is compiled by ``numba`` and any other
    graph runs as it is. A warning says so once, and `stages` counts it as ``triton_unavailable``.
    """
    devices = devices_of(gm, example_inputs)
    gpu = next((device for device in devices if device.type != "cpu"), None)
    missing = why_unavailable(gpu or torch.device("cpu"))
    if missing is not None:
        stages.count("triton_unavailable")
        instead = "Numba kernels are" if gpu is None else "PyTorch's own kernels are"
        caution_once(_LOGGER, f"no Triton kernels: {missing}; {instead} used instead")
        return numba(gm, example_inputs) if gpu is None else eager(gm, example_inputs)
    if gpu is not None:
        from minitorch2.codegen.triton import launch  # imports Triton, which may not be there

        launch.warm_up(gpu.index or 0)
    return compiled_once(gm, example_inputs, TRITON, aot_channels_last)
