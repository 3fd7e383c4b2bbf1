"""The order of passes over scripts, from a graph as written to the graph of a plan.

=========================  =======================================================================
list                       after it
=========================  =======================================================================
``REQUIRED``               no calls; types of tensors are known as far as the inputs' tell
``DERIVATIVE_PRESERVING``  less to do; gradients are as before
``GUARDED``                what profiles saw is checked, and holds behind the check
``REGIONS``                tensor operators stand in regions, which are compiled
=========================  =======================================================================

`disabled_passes` and `pass_limits` name these passes, too; logs carry their names (TorchScript
overview, "JIT Logging", "JIT Optimization Limiter").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minitorch2 import stages
from minitorch2.script.ir.graph import Graph
from minitorch2.script.passes.batch_matmuls import batch_matmuls
from minitorch2.script.passes.chunk import chunk
from minitorch2.script.passes.create_differentiable_graphs import (
    create_differentiable_graphs,
    is_tensor_operator,
)
from minitorch2.script.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from minitorch2.script.passes.eliminate_dead_code import eliminate_dead_code
from minitorch2.script.passes.eliminate_guards import eliminate_guards
from minitorch2.script.passes.fuse_graphs import fuse_graphs
from minitorch2.script.passes.inline import inline
from minitorch2.script.passes.insert_bailouts import insert_bailouts
from minitorch2.script.passes.insert_guards import insert_guards
from minitorch2.script.passes.lower_tuples import lower_tuples
from minitorch2.script.passes.move_guards import move_guards
from minitorch2.script.passes.peephole import peephole
from minitorch2.script.passes.pool_constants import pool_constants
from minitorch2.script.passes.propagate_constants import propagate_constants
from minitorch2.script.passes.propagate_types import propagate_types
from minitorch2.script.passes.remove_expands import remove_expands
from minitorch2.script.passes.remove_mutation import remove_mutation
from minitorch2.script.passes.rewriting import ScriptPass
from minitorch2.script.passes.simplify_branches import simplify_branches
from minitorch2.script.passes.unroll_loops import unroll_loops

REQUIRED: Final = [
    inline,
    remove_expands,
    lower_tuples,
    propagate_constants,
    simplify_branches,
    chunk,
    propagate_types,
]
DERIVATIVE_PRESERVING: Final = [
    eliminate_dead_code,
    eliminate_common_subexpressions,
    pool_constants,
    peephole,
    unroll_loops,
    propagate_constants,
    simplify_branches,
    remove_mutation,
    chunk,
    batch_matmuls,
    eliminate_common_subexpressions,
    pool_constants,
    eliminate_dead_code,
]
GUARDED: Final = [
    insert_guards,
    move_guards,
    eliminate_guards,
    insert_bailouts,  # behind them, what guards tell is believed
    propagate_types,
    peephole,
    propagate_constants,
    simplify_branches,
    chunk,
    propagate_types,
    pool_constants,
    eliminate_dead_code,
]


def run_passes(passes: Iterable[ScriptPass], graph: Graph) -> None:
    """Run passes in order."""
    with stages.phase("passes"):
        for run in passes:
            run(graph)


def prepare(graph: Graph) -> None:
    """Inline and simplify a graph in place; its inputs have the types of one specialization.

    Profile nodes are put into what this gives.
    """
    run_passes([*REQUIRED, *DERIVATIVE_PRESERVING], graph)


def guard(graph: Graph) -> None:
    """Turn the profile nodes of a graph into bailouts, in place."""
    run_passes(GUARDED, graph)


def make_regions(graph: Graph, *, needs_gradient: bool, smallest: int = 2) -> None:
    """Put the tensor operators of a graph into regions, in place.

    The backend fuses what it can in each.

    Args:
        needs_gradient: whether any input requires a gradient: then regions are differentiable.
        smallest: the fewest operators that are worth a region.
    """
    with stages.phase("passes"):
        if needs_gradient:
            create_differentiable_graphs(graph, smallest)
        else:
            fuse_graphs(graph, smallest, is_tensor_operator)
