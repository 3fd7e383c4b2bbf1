"""The numba backend: autograd, then loops, then generated kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from minitorch2.autograd import aot_autograd
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.graph.graph_module import GraphModule


def numba(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile forward and backward to Numba kernels."""
    return aot_autograd(gm, example_inputs, forward_compiler=partial(compile_graph, target="numba"))
