"""Run the aten graphs of forward and backward eagerly: checks the autograd layer without code
generation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch2.autograd import DECOMPOSITIONS, aot_autograd, default_partition, min_cut_partition
from minitorch2.autograd.runtime import run_as_it_is
from minitorch2.graph.graph_module import GraphModule


def aot_eager(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Functional forward and backward graphs, without decompositions, split the default way."""
    return aot_autograd(
        gm,
        example_inputs,
        forward_compiler=run_as_it_is,
        partition=default_partition,
        decompositions={},
    )


def aot_eager_decomp_partition(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Run the graph as code-generating backends see it: decomposed, split by a minimum cut."""
    return aot_autograd(
        gm,
        example_inputs,
        forward_compiler=run_as_it_is,
        partition=min_cut_partition,
        decompositions=DECOMPOSITIONS,
    )
