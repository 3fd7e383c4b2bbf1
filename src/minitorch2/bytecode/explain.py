"""What capture made of a call, as data and as a readable report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from minitorch2.bytecode.compiled_frame import CompiledFrame, GraphBreak
from minitorch2.bytecode.dispatch import Region
from minitorch2.bytecode.guards import Guard
from minitorch2.graph.graph_module import GraphModule
from minitorch2.stages import Stage, StageLog


@dataclass(frozen=True)
class Explanation:
    """What was compiled during one call.

    Attributes:
        graphs: the captured graphs, in the order in which they were made.
        breaks: why graphs ended early; `as_is` are functions that ran in Python altogether.
        guards: of all entries, without repeats and without PyTorch's global settings.
        seconds: compile time by phase.
        counts: counters of the layers below: kernels, fallbacks, ...
        stages: the text of every stage.
        failures: internal errors of capture; each is a bug of minitorch2.
    """

    graphs: list[GraphModule]
    breaks: list[GraphBreak]
    as_is: list[GraphBreak]
    guards: list[Guard]
    seconds: dict[str, float]
    counts: dict[str, int]
    stages: list[Stage] = field(repr=False)
    failures: list[str] = field(default_factory=list)

    @property
    def graph_count(self) -> int:
        """How many graphs there are."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """How many graph breaks there are."""
        return len(self.breaks)

    @property
    def ops_per_graph(self) -> list[int]:
        """How many operations each graph holds."""
        return [sum(operations_of(graph).values()) for graph in self.graphs]

    @property
    def op_count(self) -> int:
        """How many operations were captured."""
        return sum(self.ops_per_graph)

    @property
    def ops(self) -> Counter[str]:
        """How often each operation was captured."""
        return sum((operations_of(graph) for graph in self.graphs), Counter())

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        yield f"graphs: {self.graph_count}, operations: {self.op_count} {self.ops_per_graph}"
        yield f"graph breaks: {self.graph_break_count}"
        yield from _numbered(map(str, self.breaks))
        if self.as_is:
            yield f"functions that run in Python: {len(self.as_is)}"
            yield from _numbered(map(str, self.as_is))
        yield f"guards: {len(self.guards)}"
        yield from (f"  {guard}" for guard in self.guards)
        yield "seconds: " + ", ".join(f"{name} {s:.3f}" for name, s in self.seconds.items())
        yield "counts: " + ", ".join(f"{name} {n}" for name, n in sorted(self.counts.items()))
        yield from (f"internal error: {failure}" for failure in self.failures)


def _numbered(texts: Iterable[str]) -> Iterable[str]:
    for number, text in enumerate(texts, 1):
        yield f"  {number}. " + text.replace("\n", "\n     ")


def operations_of(module: GraphModule) -> Counter[str]:
    """How often each operation occurs in a graph."""
    calls = (node for node in module.graph.nodes if node.op.startswith("call"))
    return Counter(getattr(node.target, "__name__", str(node.target)) for node in calls)


def explanation_of(region: Region, log: StageLog) -> Explanation:
    """The explanation of what a region compiled while a log was open."""
    frames = compiled_frames(region)
    guards = [guard for frame in frames for guard in frame.guards.guards if guard.sources()]
    return Explanation(
        graphs=[frame.graph for frame in frames if frame.graph is not None],
        breaks=[frame.graph_break for frame in frames if frame.graph_break is not None],
        as_is=[cache.as_is for cache in region.caches.values() if cache.as_is is not None],
        guards=list(dict.fromkeys(guards)),
        seconds=dict(log.seconds),
        counts=dict(log.counts),
        stages=log.stages,
        failures=list(region.failures),
    )


def compiled_frames(region: Region) -> list[CompiledFrame]:
    """All entries of a region, in the order in which they were made."""
    frames = [frame for cache in region.caches.values() for frame in cache.compiled]
    return sorted(frames, key=lambda frame: frame.number)
