"""What capture made of a call, as data and as a readable report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from minitorch2.bytecode.compiled_frame import CompiledFrame, GraphBreak
from minitorch2.bytecode.dispatch import Region
from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.observe.costs import BreakCost, ExplainedRegion, costs_of, operations_of
from minitorch2.bytecode.observe.listing import Listing, listing_of
from minitorch2.bytecode.observe.report_html import page, part
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine
from minitorch2.stages import Stage, StageLog


@dataclass(frozen=True)
class BreakReason:
    """A graph break in the form of `torch.compile`'s reports.

    Attributes:
        reason: what happened.
        user_stack: the calls that led there, outermost first.
    """

    reason: str
    user_stack: tuple[SourceLine, ...]


@dataclass(frozen=True)
class Explanation:
    """What was compiled during one call.

    Attributes:
        graphs: the captured graphs, in the order in which they were made.
        breaks: why graphs ended early; `as_is` are functions that ran in Python altogether.
        costs: each line that broke graphs with what that costs, dearest first.
        guards: of all entries, without repeats and without PyTorch's global settings.
        guard_microseconds: what asking each entry's guards costs, in the order of their making;
            the settings of PyTorch are asked, too.
        seconds: compile time by phase.
        counts: counters of the layers below: kernels, fallbacks, ...
        stages: the text of every stage.
        source: the user's source, line by line.
        uncaptured: operators that ran in Python although no graph broke: behind the captured
            functions, such as in hooks.
        failures: internal errors of capture, each a bug of minitorch2, and what backends raised.
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
        """How many graphs there are."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """How many graph breaks there are."""
        return len(self.breaks)

    @property
    def break_reasons(self) -> list[BreakReason]:
        """The breaks with the calls that led to each."""
        return [BreakReason(each.cause, each.stack or (each.line,)) for each in self.breaks]

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

    @property
    def fallbacks(self) -> Counter[str]:
        """How often which operator of a graph runs as in eager PyTorch, where and why: it has no
        loops.
        """
        return self._reported("fallback")

    @property
    def library_calls(self) -> Counter[str]:
        """The same of operators that run as in eager PyTorch by choice: products, convolutions,
        sorting, poolings, random numbers.
        """
        return self._reported("library_call")

    def _reported(self, name: str) -> Counter[str]:
        return Counter(stage.text for stage in self.stages if stage.name == name)

    @property
    def ops_outside_graphs(self) -> int:
        """How many operators ran in Python."""
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
        """The user's source: which lines were captured, and which ran in Python."""
        return self.source

    def to_html(self) -> str:
        """Everything as one HTML page that needs nothing else."""
        return page(self)

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return part(self)

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
    """The explanation of what a region compiled while a log was open."""
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
    """All entries of a region, in the order in which they were made."""
    frames = [frame for cache in region.caches.values() for frame in cache.compiled]
    return sorted(frames, key=lambda frame: frame.number)
