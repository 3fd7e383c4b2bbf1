"""The order of passes: three places in the compilation, each with a list of passes.

==============  =================================================  ==============================
place           graph                                              may assume
==============  =================================================  ==============================
``pre_grad``    as captured: calls as the user wrote them          ``meta["val"]``; it may write
``joint``       forward and backward in one, before it is cut      functional, aten operators
``post_grad``   what a backend gets: forward, backward, inference  functional, aten operators
==============  =================================================  ==============================

A pass of your own runs behind those of its place (PyTorch's ``pre_grad_custom_pass``,
``joint_custom_post_pass`` and ``post_grad_custom_post_pass``)::

    @register_pass("post_grad")
    def my_pass(module):
        ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

from minitorch2 import config, stages
from minitorch2.errors import ConfigError
from minitorch2.graph.extensions import note_extension
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.passes import (
    eliminate_common_subexpressions,
    eliminate_dead_code,
    fold_batch_norm,
    fold_constants,
    fuse_attention,
    fuse_causal_attention,
    merge_concatenations,
    open_embedding_bags,
    simplify_algebra,
    simplify_views,
)
from minitorch2.graph.rewriting import Generator, Pass
from minitorch2.graph.verify import verify

Place: TypeAlias = Literal["pre_grad", "joint", "post_grad"]

PIPELINE: Final[dict[Place, list[Pass]]] = {
    "pre_grad": [fuse_causal_attention, fuse_attention, fold_batch_norm, open_embedding_bags],
    "joint": [
        eliminate_dead_code,
        simplify_views,
        simplify_algebra,
        merge_concatenations,
        fold_constants,
        eliminate_common_subexpressions,
    ],
    "post_grad": [],
}


def run_passes(place: Place, module: GraphModule) -> bool:
    """Run the passes of a place in order; whether any changed the graph.

    With the option ``verify`` the graph is checked first, and after each pass.
    """
    if config.current().verify:
        verify(module)
    with stages.phase("passes"):
        changes = [each.go_on(module) for each in PIPELINE[place]]
    return any(changes)


def register_pass(place: Place) -> Callable[[Generator | Pass], Pass]:
    """Run a pass of one's own at a place, behind those that are there; a decorator.

    It takes a generator of rewrites (see ``rewriting.py``) or a pass. Raises ConfigError for an
    unknown place.
    """
    if place not in get_args(Place):
        known = ", ".join(get_args(Place))
        raise ConfigError(f"there is no place {place!r}; there are {known}", code="unknown-place")

    def register(generator: Generator | Pass) -> Pass:
        added = generator if isinstance(generator, Pass) else Pass(generator)
        PIPELINE[place].append(added)
        note_extension(generator)
        return added

    return register
