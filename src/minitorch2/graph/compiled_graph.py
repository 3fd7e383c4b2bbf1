"""The result of compiling a functional graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

BoxedCall: TypeAlias = Callable[[list[Any]], list[Any]]
"""A call in the boxed convention: it takes one list, may empty it, and returns a list."""


@dataclass(frozen=True)
class CompiledGraph:
    """A compiled graph, and what its compiler has learned.

    Attributes:
        written: the arguments to whose memory it writes, among those that were donated to it.
        source: gives the text of its module; raises UnspellableError if an object has no text.
        counts: the counts of its compilation, as `stages` shows them.
    """

    call: BoxedCall
    written: tuple[int, ...] = ()
    source: Callable[[], str] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


def compiled_graph(
    compiled: BoxedCall | CompiledGraph, donated: tuple[int, ...] = ()
) -> CompiledGraph:
    """Return what a compiler gives; a function alone may write to all donated arguments."""
    return compiled if isinstance(compiled, CompiledGraph) else CompiledGraph(compiled, donated)
