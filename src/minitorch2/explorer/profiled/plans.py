"""The log that hears of graphs while they are compiled: their work, and what could not be done.

A graph is known by the name of its program, under which a profile shows its calls. The log takes
`loopir.py`, which only compilation makes, so graphs are compiled anew and not taken from a cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from minitorch2 import stages
from minitorch2.bytecode.compiling.compiled_frame import GraphBreak
from minitorch2.codegen.memory import Memory
from minitorch2.codegen.program import name_of
from minitorch2.codegen.wrapper import WrapperModule
from minitorch2.explorer.fusion import fusion_of
from minitorch2.explorer.profiled.peaks import PlannedPeak, planned_peak
from minitorch2.explorer.profiled.works import Sizes, Work, works_of
from minitorch2.explorer.store import Fusion
from minitorch2.graph.node import SourceLine
from minitorch2.logs import compile_id
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import Schedule

TAKEN: Final = frozenset([
    "loopir.py", "schedule.txt", "wrapper.py", "graph_break", "fallback", "library_call",
    "cudagraphs.txt", "source.py",
])  # fmt: skip


@dataclass(frozen=True)
class GraphPlan:
    """A compiled graph.

    Attributes:
        name: of its program.
        works: its kernels and library calls, in order.
        fusion: its schedule, with the reasons for pairs that are not one kernel.
        sizes: the bytes of each buffer, by name.
        outputs: the names of its results.
        peak: the most that its intermediates hold at a time; None if a size varies.
        compilation: the id of its compilation.
    """

    name: str
    works: tuple[Work, ...]
    fusion: Fusion
    sizes: dict[str, float]
    outputs: frozenset[str]
    peak: PlannedPeak | None
    compilation: str


@dataclass(frozen=True)
class OfEager:
    """An operator that runs as in eager PyTorch, with its line; `is_choice` if it need not."""

    operator: str
    line: str
    reason: str
    is_choice: bool


@dataclass
class PlanLog(stages.StageLog):
    """A log that keeps what a profile is compared with.

    Attributes:
        plans: the graphs, by the names of their programs.
        breaks: the graph breaks, with the ids of the compilations that they ended.
        of_eager: the operators that run as in eager PyTorch.
        functions: the names of the functions that were compiled, by the ids of compilations.
        refused: why launches are not replayed, with the name of the graph if it is known.
    """

    plans: dict[str, GraphPlan] = field(default_factory=dict)
    breaks: list[tuple[str, GraphBreak]] = field(default_factory=list)
    of_eager: list[OfEager] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    _lowered: LoweredGraph | None = None
    _plan: Schedule | None = None
    _last: str = ""

    def takes(self, name: str) -> bool:
        """Return whether a profile needs stages of this name."""
        return name in TAKEN

    def add(self, stage: stages.Stage, subject: Any = None) -> None:
        """Take in what a stage tells of its graph."""
        if stage.name == "loopir.py":
            self._lowered = subject
        elif stage.name == "source.py":
            self.functions[compile_id()] = subject.co_qualname
        elif stage.name == "schedule.txt":
            self._plan, _ = subject
        elif stage.name == "wrapper.py" and isinstance(subject, WrapperModule):
            self._close(name_of(stage.text + stage.main), subject)
        elif stage.name == "graph_break":
            self.breaks.append((compile_id(), subject))
        elif stage.name == "cudagraphs.txt":
            self.refused.append((self._last, stage.text))
        elif stage.name in ("fallback", "library_call") and subject is not None:
            target, lines, reason = subject
            place = "".join(_place(line) for line in lines[:1])
            is_choice = stage.name == "library_call"
            self.of_eager.append(OfEager(_name(target), place, reason, is_choice))

    def _close(self, name: str, module: WrapperModule) -> None:
        """Keep the graph whose program is printed."""
        lowered, plan = self._lowered, self._plan
        if lowered is None or plan is None:
            return
        memory, sizes = Memory(lowered, plan), Sizes.of(lowered)
        self.plans[name] = GraphPlan(
            name,
            tuple(works_of(module, plan, lowered)),
            fusion_of(plan),
            {each: sizes.bytes_of(each) for each in sizes.buffers},
            lowered.output_names,
            planned_peak(memory, plan),
            compile_id(),
        )
        self._lowered, self._plan, self._last = None, None, name


def _place(line: SourceLine | None) -> str:
    return "" if line is None else f"{line.file}:{line.line}"


def _name(target: object) -> str:
    schema = getattr(target, "_schema", None)
    return str(schema.name if schema is not None else target)
