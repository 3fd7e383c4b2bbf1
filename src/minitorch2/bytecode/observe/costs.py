"""The costs of graph breaks: the operators that ran outside any graph, and those they keep apart.

An explained call runs under a mode that sees each operator of the program. Operators inside a
compiled graph, or run by the compiler, are not counted. Each of the others belongs to the break of
the nearest function on the Python stack that is residual code, or runs as it is.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from minitorch2.bytecode.compiling.compiled_frame import BoundEntry, CompiledFrame, GraphBreak
from minitorch2.bytecode.dispatch import Dispatcher, Region
from minitorch2.bytecode.dispatch.region import ClosingContinuation
from minitorch2.bytecode.guards.sources import Source
from minitorch2.foundation.generated_code import GUARDS
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine
from minitorch2.native.torch_internals import modes

QUESTIONS = frozenset(
    {
        *("__get__", "__set__", "__delete__", "__repr__", "__format__", "__hash__", "__len__"),
        *("size", "stride", "dim", "ndimension", "numel", "nelement", "element_size"),
        *("is_contiguous", "storage_offset", "data_ptr", "untyped_storage", "get_device"),
        *("is_floating_point", "is_complex", "is_tensor", "has_names"),
    }
)
"""The methods that a tensor answers without an operator."""


class ExplainedRegion(Region):
    """A region that also counts the operators which run outside its graphs.

    Attributes:
        outside: their number, by the break to blame; None for those outside captured functions.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.outside: Counter[GraphBreak | None] = Counter()
        self._residuals: dict[int, CompiledFrame] = {}
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count operators inside the block: they are in a graph, or the compiler's own."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def compile(
        self, function: FunctionType, values: tuple[object, ...], varying: frozenset[Source]
    ) -> CompiledFrame | None:
        """Compile a frame, and remember the entry that each residual code belongs to."""
        with self.paused():
            compiled = super().compile(function, values, varying)
        if compiled is not None:
            self._residuals[id(compiled.residual)] = compiled
        return compiled

    def compile_graph(self, module: GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        """Run the backend; operators of its compiled function are in the graph."""
        run = super().compile_graph(module, inputs)

        def in_graph(*args: Any) -> Any:
            with self.paused():
                return run(*args)

        return in_graph

    def measure_guards(self, entry: BoundEntry, values: tuple[object, ...]) -> bool:
        """Measure without the mode, which guards would see and which slows PyTorch down."""
        holds, guards = super().measure_guards(entry, values), entry.compiled.guards
        top = modes.count_function_modes() - 1
        if top >= 0 and isinstance(modes.function_mode_at(top), Operators):
            with modes.without_innermost_function_mode():
                asked = guards.with_settings_of_now()
                asked.measure(asked.fast_check, values)
                guards.microseconds = asked.microseconds
        return holds

    def note(self, name: str, frame: FrameType | None) -> None:
        """Note that an operator was called from a Python frame."""
        if self._pauses or name in QUESTIONS:
            return
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(GUARDS):
                return
            blamed = self._to_blame(code)
            if blamed is not None:
                self.outside[blamed] += 1
                return
            frame = frame.f_back
        self.outside[None] += 1

    def _to_blame(self, code: CodeType) -> GraphBreak | None:
        """Return the break because of which this code runs in Python."""
        if id(code) in self._residuals:
            return self._residuals[id(code)].graph_break
        cache = self.caches.get(id(code))
        return None if cache is None else cache.as_is


class Operators(TorchFunctionMode):
    """Tells a region of each operator that Python calls."""

    def __init__(self, region: ExplainedRegion) -> None:
        super().__init__()
        self._region = region

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Count the operator, and run it; PyTorch's own compiler takes modes into its graphs."""
        if not torch.compiler.is_dynamo_compiling():
            self._region.note(getattr(func, "__name__", ""), sys._getframe(1))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class BreakCost:
    """The cost of graph breaks at one line of the user's program.

    A function that cannot be inlined breaks its caller's graph, and then its own: that is one line
    with two broken graphs.

    Attributes:
        graph_break: the reason and the place.
        graphs: the number of graphs it ended; 0 for a function that runs in Python altogether.
        outside: operators that ran outside any graph because of it.
        before: operators of the graphs that it ended.
        after: operators of the graphs that follow them.
        stacks: the calls that led there, for each of the graphs.
    """

    graph_break: GraphBreak
    graphs: int
    outside: int
    before: int
    after: int
    stacks: tuple[tuple[SourceLine, ...], ...]

    @property
    def weight(self) -> tuple[int, int, int]:
        """The order of breaks: first by operators outside graphs, then by operators kept apart."""
        return self.outside, min(self.before, self.after), self.before + self.after

    @property
    def summary(self) -> str:
        """The cost in one line."""
        kept_apart = f", {self.before} before the break and {self.after} behind it"
        return f"operators: {self.outside} outside graphs" + (kept_apart if self.graphs else "")

    def __str__(self) -> str:
        lines = str(self.graph_break).splitlines()
        return "\n".join([*lines, f"  Cost: {self.summary}"])


def operations_of(module: GraphModule) -> Counter[str]:
    """Return the number of occurrences of each operation in a graph."""
    calls = (node for node in module.graph.nodes if node.op.startswith("call"))
    return Counter(getattr(node.target, "__name__", str(node.target)) for node in calls)


def size_of(compiled: CompiledFrame) -> int:
    """Return the number of operations in an entry's graph."""
    return 0 if compiled.graph is None else sum(operations_of(compiled.graph).values())


def costs_of(region: ExplainedRegion) -> list[BreakCost]:
    """Return the cost of each line at which graphs broke, the most expensive first."""
    groups: dict[tuple[object, ...], list[tuple[GraphBreak, CompiledFrame | None]]] = {}
    for cache in list(region.caches.values()):
        found = [(each.graph_break, each) for each in cache.compiled]
        for graph_break, compiled in [*found, (cache.as_is, None)]:
            if graph_break is not None:
                place = (graph_break.reason, graph_break.line)
                groups.setdefault(place, []).append((graph_break, compiled))
    costs = [_cost(region, group) for group in groups.values()]
    return sorted(costs, key=lambda cost: cost.weight, reverse=True)


def _cost(
    region: ExplainedRegion, group: list[tuple[GraphBreak, CompiledFrame | None]]
) -> BreakCost:
    frames = [compiled for _, compiled in group if compiled is not None]
    breaks = list(dict.fromkeys(graph_break for graph_break, _ in group))
    return BreakCost(
        max(breaks, key=lambda graph_break: len(graph_break.stack)),
        graphs=len(frames),
        outside=sum(region.outside[graph_break] for graph_break in breaks),
        before=sum(map(size_of, frames)),
        after=sum(size_of(rest) for frame in frames for rest in _rests(region, frame)),
        stacks=tuple(dict.fromkeys(each.stack for each in breaks if each.stack)),
    )


def _rests(region: Region, compiled: CompiledFrame) -> list[CompiledFrame]:
    """Return the entries of the continuations that an entry's residual code calls."""
    rests: list[CompiledFrame] = []
    for value in compiled.references.values():
        if isinstance(value, Dispatcher):
            rests += value.cache.compiled
        elif isinstance(value, ClosingContinuation):
            rests += region.cache_of(value.code).compiled
    return rests
