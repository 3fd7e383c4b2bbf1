"""The numba backend: autograd, then loops, then generated kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from minitorch2 import config
from minitorch2.autograd.aot import requires_grad
from minitorch2.backends.channels_last import aot_channels_last
from minitorch2.backends.graph_cache import Compilers, compiled_once
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.errors.cautions import caution_once
from minitorch2.graph.graph_module import GraphModule
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
_FOR_GPUS: Final = ("cudagraphs", "max_autotune")
"""Options that change nothing here."""


def numba(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile forward and backward to Numba kernels.

    Images lie channels-last in inference only: gradients of batch norms read them column by column,
    which costs the CPU more than oneDNN saves.
    """
    options = config.current()
    named = [name for name in _FOR_GPUS if getattr(options, name)]
    if named:
        caution_once(
            _LOGGER,
            f"tensors on the CPU: no effect of {' and '.join(named)}, as there are no launches to "
            "replay and no templates to measure; results are the same. Fix: leave the mode or the "
            "option out",
        )
    return compiled_once(gm, example_inputs, NUMBA, _build)


def _build(gm: GraphModule, example_inputs: list[Any], compilers: Compilers) -> Callable[..., Any]:
    if torch.is_grad_enabled() and any(map(requires_grad, example_inputs)):
        return compilers.program(gm, example_inputs)
    return aot_channels_last(gm, example_inputs, compilers)
