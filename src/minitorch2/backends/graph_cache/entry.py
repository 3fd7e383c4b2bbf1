"""Entries of the cache: a compiled graph as three Python texts, the plan first.

    entry    ::= plan, forward, backward*      with form feeds between them
    plan     ::= plan = ProgramPlan(...)       the work around the graphs
                 guards = (...)                learned facts about sizes
                 written = (...)               the arguments that each backward graph writes to
                 counts = ({...}, {...})       the counts while each graph was compiled
    forward  ::= the wrapper's module: kernels, and call(args)
    backward ::= the same of a part of the backward graph, which is mostly whole

Entries are programs, as the machine code is that lies beside them: the folder is its owner's only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from minitorch2 import stages
from minitorch2.autograd.compiled_program import CompiledProgram
from minitorch2.autograd.plan import ProgramPlan
from minitorch2.autograd.runtime import CompiledBackward, LazilyCompiled, joined
from minitorch2.backends.graph_cache.sizes import Guards
from minitorch2.codegen.program import load_program
from minitorch2.codegen.spelling import definitions
from minitorch2.graph.compiled_graph import CompiledGraph

_FORM_FEED: Final = "\n\f\n"
_OF_KERNELS: Final = ("kernels_compiled", "kernels_loaded", "kernels_shared")
"""Counts about object code, which a graph from the cache has to get as well."""


@dataclass(frozen=True)
class Entry:
    """A compiled graph as texts; ``counts`` of the forward graph and of those of backward."""

    plan: ProgramPlan
    guards: Guards
    forward: str
    backward: tuple[str, ...] = ()
    written: tuple[tuple[int, ...], ...] = ()
    counts: tuple[dict[str, int], ...] = field(default=({},))

    def payload(self) -> bytes:
        """Return the texts. Raises `UnspellableError` if the plan holds objects."""
        values = {
            "plan": self.plan,
            "guards": self.guards,
            "written": self.written,
            "counts": self.counts,
        }
        texts = (definitions(values), self.forward, *self.backward)
        return _FORM_FEED.join(texts).encode()

    def followed_by(self, compiled: CompiledGraph, text: str) -> Entry:
        """Return this entry with its backward graph, or the next part of it."""
        written = (*self.written, compiled.written)
        counts = (*self.counts, counted(compiled.counts))
        return replace(self, backward=(*self.backward, text), written=written, counts=counts)

    @staticmethod
    def read(payload: bytes) -> Entry:
        """Read an entry from the text that `payload` has returned."""
        plan, forward, *backward = payload.decode().split(_FORM_FEED)
        names: dict[str, Any] = {}
        exec(plan, names)
        values = {name: names[name] for name in ("plan", "guards", "written", "counts")}
        return Entry(forward=forward, backward=(*backward,), **values)

    def load(self) -> CompiledProgram:
        """Return the compiled program; its backward graph is loaded when it first runs."""
        with stages.phase("load"):
            forward = load_program(self.forward)
        stages.record("wrapper.py", self.forward)
        loading = (partial(self._load_backward, part) for part in range(len(self.backward)))
        return CompiledProgram(self.plan, forward, joined([*map(LazilyCompiled, loading)]))

    def _load_backward(self, part: int) -> CompiledBackward:
        count_again(self.counts[1 + part])
        with stages.phase("load"):
            call = load_program(self.backward[part])
        stages.record("wrapper.py", self.backward[part])
        return CompiledGraph(call, self.written[part]), None


def counted(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a compilation that a graph's entry records."""
    return {name: number for name, number in counts.items() if name not in _OF_KERNELS}


def count_again(counts: Mapping[str, int]) -> None:
    """Add the counts of the graph's compilation to those of this process."""
    for name, number in counts.items():
        stages.count(name, number)
