"""The report on the capture of a call, as data and as readable text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from minitorch2.bytecode.compiling.compiled_frame import CompiledFrame, GraphBreak
from minitorch2.bytecode.dispatch import Region
from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.observe.costs import BreakCost, ExplainedRegion, costs_of, operations_of
from minitorch2.bytecode.observe.listing import Listing, listing_of
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine
from minitorch2.stages import Stage, StageLog


@dataclass(frozen=True)
class BreakReason:
    """A graph break in the form of `torch.compile`'s reports.

    Attributes:
        reason: the event.
        user_stack: the calls that led there, outermost first.
    """

    reason: str
    user_stack: tuple[SourceLine, ...]


@dataclass(frozen=True)
class Explanation:
    """The report on everything that was compiled during one call.

    Attributes:
        graphs: the captured graphs, in the order in which they were made.
        breaks: the graph breaks; `as_is` are functions that ran in Python altogether.
        costs: each line that broke graphs with its cost, the most expensive first.
        guards: the guards of all entries, without repeats and PyTorch's global settings.
        guard_microseconds: the time to check each entry's guards, in the order of their making;
            the settings of PyTorch are checked, too.
        seconds: compile time by phase.
        counts: counters of the layers below: kernels, fallbacks, ...
        stages: the text of every stage.
        source: the user's source, line by line.
        uncaptured: operators that ran in Python although no graph broke: behind the captured
            functions, such as in hooks.
        failures: internal errors of capture, each a bug of minitorch2, and errors of backends.
    """

    graphs: list[GraphModule]
    breaks: list[GraphBreak]
    as_is: list[GraphBreak]
    guards: list[Guard]
    seconds: dict[str, float]
    counts: dict[str, int]
    stages: list[Stage] = field(repr=False)
    costs: list[BreakCost] = field(default_factory=list)
    source: Listing = field(default=Listing(()), repr=False)
    uncaptured: int = 0
    failures: list[str] = field(default_factory=list)
    guard_microseconds: list[float] = field(default_factory=list)

    @property
    def graph_count(self) -> int:
        """The number of graphs."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """The number of graph breaks."""
        return len(self.breaks)

    @property
    def break_reasons(self) -> list[BreakReason]:
        """The breaks with the calls that led to each."""
        return [BreakReason(each.cause, each.stack or (each.line,)) for each in self.breaks]

    @property
    def ops_per_graph(self) -> list[int]:
        """The number of operations of each graph."""
        return [sum(operations_of(graph).values()) for graph in self.graphs]

    @property
    def op_count(self) -> int:
        """The number of captured operations."""
        return sum(self.ops_per_graph)

    @property
    def ops(self) -> Counter[str]:
        """The number of captures of each operation."""
        return sum((operations_of(graph) for graph in self.graphs), Counter())

    @property
    def fallbacks(self) -> Counter[str]:
        """The operators of graphs that run as in eager PyTorch because they have no loops.

        Each is counted with its place and reason.
        """
        return self._reported("fallback")

    @property
    def library_calls(self) -> Counter[str]:
        """The operators that run as in eager PyTorch by choice, counted like `fallbacks`.

        They are products, convolutions, sorting, poolings and random numbers.
        """
        return self._reported("library_call")

    def _reported(self, name: str) -> Counter[str]:
        return Counter(stage.text for stage in self.stages if stage.name == name)

    @property
    def ops_outside_graphs(self) -> int:
        """The number of operators that ran in Python."""
        return self.uncaptured + sum(cost.outside for cost in self.costs)

    @property
    def out_guards(self) -> list[Guard]:
        """`guards`, by the name that `torch.compile`'s reports use."""
        return self.guards

    @property
    def compile_times(self) -> dict[str, float]:
        """`seconds`, by the name that `torch.compile`'s reports use."""
        return self.seconds

    def listing(self) -> Listing:
        """Return the user's source: which lines were captured, and which ran in Python."""
        return self.source

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        yield f"graphs: {self.graph_count}, operations: {self.op_count} {self.ops_per_graph}"
        yield f"operations outside graphs: {self.ops_outside_graphs}"
        yield f"graph breaks: {self.graph_break_count}"
        yield from _numbered(str(cost) for cost in self.costs if cost.graphs)
        if self.as_is:
            yield f"functions that run in Python: {len(self.as_is)}"
            yield from _numbered(str(cost) for cost in self.costs if not cost.graphs)
        cost = sum(self.guard_microseconds)
        yield f"guards: {len(self.guards)}, {cost:.1f} microseconds when all entries are asked"
        yield from (f"  {guard}" for guard in self.guards)
        yield "seconds: " + ", ".join(f"{name} {s:.3f}" for name, s in self.seconds.items())
        yield "counts: " + ", ".join(f"{name} {n}" for name, n in sorted(self.counts.items()))
        yield from (f"fallback: {text} ({n})" for text, n in self.fallbacks.most_common())
        yield from (f"library call: {text} ({n})" for text, n in self.library_calls.most_common())
        yield from (f"internal error: {failure}" for failure in self.failures)


def _numbered(texts: Iterable[str]) -> Iterable[str]:
    for number, text in enumerate(texts, 1):
        yield f"  {number}. " + text.replace("\n", "\n     ")


def explanation_of(region: ExplainedRegion, log: StageLog) -> Explanation:
    """Return the explanation of everything that a region compiled while a log was open."""
    frames = compiled_frames(region)
    guards = [guard for frame in frames for guard in frame.guards.guards if guard.sources()]
    caches = list(region.caches.values())
    as_is = [(cache.code, cache.as_is) for cache in caches if cache.as_is is not None]
    return Explanation(
        graphs=[frame.graph for frame in frames if frame.graph is not None],
        breaks=[frame.graph_break for frame in frames if frame.graph_break is not None],
        as_is=[reason for _, reason in as_is],
        guards=list(dict.fromkeys(guards)),
        seconds=dict(log.seconds),
        counts=dict(log.counts),
        stages=log.stages,
        costs=costs_of(region),
        source=listing_of(frames, as_is),
        uncaptured=region.outside[None],
        failures=list(region.failures),
        guard_microseconds=[frame.guards.microseconds for frame in frames],
    )


def compiled_frames(region: Region) -> list[CompiledFrame]:
    """Return all entries of a region, in the order in which they were made."""
    frames = [frame for cache in region.caches.values() for frame in cache.compiled]
    return sorted(frames, key=lambda frame: frame.number)
