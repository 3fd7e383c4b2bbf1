"""Autograd with convolutions channels-last, for programs that cannot tell the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch2.autograd import DECOMPOSITIONS
from minitorch2.backends.graph_cache import Compilers, compiled_once
from minitorch2.codegen.channels_last import CHANNELS_LAST, reads_order, with_expected_order
from minitorch2.codegen.target import Target
from minitorch2.errors import BackendError
from minitorch2.graph.graph_module import GraphModule
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)


def aot_channels_last(
    gm: GraphModule, example_inputs: list[Any], compilers: Compilers
) -> Callable[..., Any]:
    """`aot_autograd`; images lie channels-last between convolutions.

    A program that names strides, or that views an image in a way that only row-major ones allow,
    keeps eager's order throughout.
    """
    if not reads_order(gm):
        try:
            table = {**DECOMPOSITIONS, **CHANNELS_LAST}
            return compilers.program(with_expected_order(gm), example_inputs, decompositions=table)
        except (RuntimeError, BackendError) as error:  # what eager's own views say
            _LOGGER.debug("images stay row-major: %s", error)
    return compilers.program(gm, example_inputs)


def kernels(target: Target[Any], gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile forward and backward for a target: the backend of one that has none of its own."""
    return compiled_once(gm, example_inputs, target, aot_channels_last)
