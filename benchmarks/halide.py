"""Halide beside our CPU kernels and torch.compile: the same loop bodies, several schedules.

Each program is compiled with an empty cache by each way, and checked against eager. Then all ways
run by turns. The seconds of compiling are those of the first call. A star marks a program of which
a kernel fell back to the CPU target.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

import minitorch2
from benchmarks.compilers import EAGER, OURS, PEER, Compiler
from benchmarks.conditions import conditions
from minitorch2 import config, stages

SCHEDULES = ("ours", "mullapudi2016", "adams2019", "li2018")
"""The schedules for a CPU; anderson2021 makes those for GPUs."""
ROWS, COLUMNS = 512, 1024
ROUNDS = 30
TOLERANCE = 1e-4

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": lambda x: F.gelu(x) * 2,
    "transposed": lambda x: x.t().contiguous() + 1,
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "sum of rows": lambda x: (x * x).sum(1),
    "sum of columns": lambda x: (x * x).sum(0),
}
"""One or two kernels each, on a matrix of float32."""


@dataclass
class Measured:
    """Median seconds of a call and seconds of the first one, by way, and what was not right."""

    program: str
    seconds: dict[str, float] = field(default_factory=dict)
    compiling: dict[str, float] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def ways(peer: bool) -> dict[str, Compiler]:
    """All ways to run a program, eager first."""

    def by_halide(schedule: str) -> Compiler:
        options = {"halide_schedule": schedule}
        return lambda f: minitorch2.compile(f, backend="halide", options=options)

    found: dict[str, Compiler] = {EAGER: lambda f: f, OURS: minitorch2.compile}
    found |= {f"Halide, {name}": by_halide(name) for name in SCHEDULES}
    return found | ({PEER: torch.compile} if peer else {})


def measure(name: str, chosen: dict[str, Compiler]) -> Measured:
    """Compile a program in each way, check it, and let all ways take turns."""
    result, x = Measured(name), torch.randn(ROWS, COLUMNS)
    expected, ready = PROGRAMS[name](x), {}
    minitorch2.reset()
    torch.compiler.reset()
    for way, compiler in chosen.items():
        with config.patch(cache=False), stages.collect(texts=False) as log:
            ready[way] = compiler(PROGRAMS[name])
            start = perf_counter()
            found = ready[way](x)
        result.compiling[way] = perf_counter() - start
        result.fallbacks[way] = log.counts["halide_fallbacks"]
        if not torch.allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE):
            result.wrong.append(way)
    samples: dict[str, list[float]] = {way: [] for way in chosen}
    for _ in range(ROUNDS):
        for way, function in ready.items():
            start = perf_counter()
            function(x)
            samples[way].append(perf_counter() - start)
    result.seconds = {way: median(spent) for way, spent in samples.items()}
    return result


def run(peer: bool, only: str, results: Path, console: Console) -> int:
    """Measure all programs; write JSON; the status is 1 if any result was wrong."""
    chosen = ways(peer)
    measured = [measure(name, chosen) for name in PROGRAMS if only in name]
    console.print(table(measured))
    results.mkdir(exist_ok=True)
    sizes = {"rows": ROWS, "columns": COLUMNS, "rounds": ROUNDS}
    run_of = conditions(f"python -m benchmarks halide{' --peer' * peer}")
    run_of |= {"threads": torch.get_num_threads(), **sizes}
    report = {**run_of, "results": [asdict(each) for each in measured]}
    (results / "halide.json").write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(each.wrong for each in measured) else 0


def table(measured: list[Measured]) -> Table:
    """Microseconds of a call, and the seconds of the first one."""
    shown = Table(
        title=f"microseconds a call (seconds to compile), {torch.get_num_threads()} threads"
    )
    names = list(measured[0].seconds)
    for column in ("", *names):
        shown.add_column(column, justify="right" if column else "left")
    for each in measured:
        cells = (
            f"{each.seconds[way] * 1e6:.0f} ({each.compiling[way]:.1f})"
            + "*" * bool(each.fallbacks[way])
            + " WRONG" * (way in each.wrong)
            for way in names
        )
        shown.add_row(each.program, *cells)
    means = (geometric_mean(m.seconds[OURS] / m.seconds[way] for m in measured) for way in names)
    shown.add_row(f"speed, {OURS} = 1", *(f"{mean:.2f}" for mean in means))
    return shown
