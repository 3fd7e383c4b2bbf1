"""Autograd with convolutions channels-last, for programs that cannot tell the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch2.autograd import DECOMPOSITIONS, aot_autograd
from minitorch2.codegen.channels_last import CHANNELS_LAST, reads_order, with_expected_order
from minitorch2.graph.graph_module import GraphModule
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)


def aot_channels_last(
    gm: GraphModule, example_inputs: list[Any], forward_compiler: Callable[..., Any]
) -> Callable[..., Any]:
    """`aot_autograd`; images lie channels-last between convolutions.

    A program that names strides, or that views an image in a way that only row-major ones allow,
    keeps eager's order throughout.
    """
    if not reads_order(gm):
        try:
            return aot_autograd(
                with_expected_order(gm),
                example_inputs,
                forward_compiler=forward_compiler,
                decompositions={**DECOMPOSITIONS, **CHANNELS_LAST},
            )
        except RuntimeError as error:  # what eager's own views say
            _LOGGER.debug("images stay row-major: %s", error)
    return aot_autograd(gm, example_inputs, forward_compiler=forward_compiler)
