"""Checks programs with one compiler, in this process: a line of JSON for each.

`python -m benchmarks.zoo.check COMPILER BACKEND NAME...`
"""

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from benchmarks.zoo.captures import CAPTURES, GRAPH, Report
from benchmarks.zoo.observe import difference, observe
from benchmarks.zoo.programs import Program, programs
from minitorch2.bytecode.compiling.rerun import KEEPING

SEEDS = (1, 2)
"""Captured with the first; other numbers in the same shapes must be right as well."""


@dataclass
class Outcome:
    """How a compiler did on a program.

    Attributes:
        error: why it does not work: an exception, or what differs from eager; empty if it works.
        wrong: it ran, and something differs from eager.
        operators: how many operators eager PyTorch dispatches.
        outside: how many of them ran outside graphs.
        graphs: how many graphs were compiled.
        calls: how many graphs ran in one call.
        breaks: graph breaks: by the compiler's own account, but at least one less than `calls`,
            and at least one if operators ran outside.
        reasons: the compiler's account of them.
        seconds: what the check took.
    """

    program: str
    suite: str
    compiler: str
    error: str = ""
    wrong: bool = False
    operators: int = 0
    outside: int = 0
    graphs: int = 0
    calls: int = 0
    breaks: int = 0
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def works(self) -> bool:
        """Whether everything was as in eager PyTorch."""
        return not self.error

    @property
    def captured(self) -> float:
        """The share of operators that ran in graphs."""
        return max(0.0, 1 - self.outside / max(1, self.operators)) if self.works else 0.0


def check(program: Program, compiler: str, backend: str) -> Outcome:
    """Compare a program with eager: outputs, gradients and buffers, for each of the seeds."""
    outcome, start = Outcome(program.name, program.suite, compiler), time.perf_counter()
    model = program.build()
    expected = [observe(program, model, model, seed) for seed in SEEDS]
    outcome.operators, _, _ = profiled(program, model, model)
    report = Report()
    options = {"backend": backend} if compiler == "minitorch2" else {}
    try:
        model = program.build()
        with CAPTURES[compiler](program, model, report, **options) as call:
            got = [observe(program, model, call, seed) for seed in SEEDS]
            _, outcome.outside, outcome.calls = profiled(program, model, call)
    except Exception as error:
        outcome.error = f"{type(error).__name__}: {error}"[:1000]
    else:
        outcome.error = next(filter(None, map(difference, got, expected)), "")
        outcome.wrong = bool(outcome.error)
    outcome.graphs, outcome.reasons = report.graphs, report.breaks
    outcome.breaks = max(len(report.breaks), outcome.calls - 1, outcome.outside > 0)
    outcome.seconds = time.perf_counter() - start
    return outcome


def profiled(program: Program, model: torch.nn.Module, call: Any) -> tuple[int, int, int]:
    """Of one forward call: operators in all, operators outside graphs, and runs of graphs."""
    log = profile(activities=[ProfilerActivity.CPU], acc_events=True)

    def watched(*args: Any, **kwargs: Any) -> Any:
        with log:
            return call(*args, **kwargs)

    observe(program, model, watched, SEEDS[0])
    events = log.events() or []
    operators = [event for event in events if is_operator(event) and not within(event, is_operator)]
    outside = [event for event in operators if not within(event, is_compilers)]
    graphs = [event for event in events if is_graph(event) and not within(event, is_graph)]
    return len(operators), len(outside), len(graphs)


def is_operator(event: FunctionEvent) -> bool:
    return bool(event.name.startswith("aten::"))


def is_graph(event: FunctionEvent) -> bool:
    return bool(event.name == GRAPH)


def is_compilers(event: FunctionEvent) -> bool:
    """Whether an event stands for a graph, or for what is done so that it may be run again."""
    return is_graph(event) or event.name == KEEPING


def within(event: FunctionEvent, wanted: Callable[[FunctionEvent], bool]) -> bool:
    """Whether an event happened during a wanted one."""
    parent = event.cpu_parent
    while parent is not None:
        if wanted(parent):
            return True
        parent = parent.cpu_parent
    return False


def main(arguments: Sequence[str]) -> None:
    """Check the programs named, in their order."""
    compiler, backend, *names = arguments
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    known = {program.name: program for program in programs()}
    for name in names:
        print(json.dumps(asdict(check(known[name], compiler, backend))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
