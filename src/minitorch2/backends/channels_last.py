"""Autograd with convolutions channels-last, for programs that cannot tell the difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from minitorch2.autograd import DECOMPOSITIONS, aot_autograd
from minitorch2.backends.graph_cache import Compilers
from minitorch2.codegen.channels_last import CHANNELS_LAST, reads_order, with_expected_order
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
    compile_program = partial(
        aot_autograd, forward_compiler=compilers.forward, backward_compiler=compilers.backward
    )
    if not reads_order(gm):
        try:
            return compile_program(
                with_expected_order(gm),
                example_inputs,
                decompositions={**DECOMPOSITIONS, **CHANNELS_LAST},
            )
        except (RuntimeError, BackendError) as error:  # what eager's own views say
            _LOGGER.debug("images stay row-major: %s", error)
    return compile_program(gm, example_inputs)
