"""Table 4 of the PyTorch 2 paper: what each optimization is worth.

Each line switches one off and tells the geometric mean of the speedups over eager, for inference
and for training: `python -m benchmarks table4 [--only TEXT] [--device cuda]`. Matrix products are
library calls here, so the paper's line "without matmul templates" has nothing to switch off.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

import minitorch2
from benchmarks import models
from benchmarks.cases import Case, Function
from benchmarks.compilers import EAGER, Compiler
from benchmarks.measure import Result, measure
from minitorch2.graph.patterns import FAMILIES

ALL = "all optimizations"
SWITCHES: dict[str, dict[str, Any]] = {
    ALL: {},
    "without loop reordering": {"reorder_loops": False},
    "without parameter freezing": {"freezing": False},
    "without pattern matching": {"disabled_passes": tuple(FAMILIES)},
    "without cudagraphs": {"cudagraphs": False},
    "without fusion": {"fusion": False},
    "without inlining": {"inline_pointwise": False},
    "without fusion and inlining": {"fusion": False, "inline_pointwise": False},
}
"""What each line of the table changes."""

PAPER = {
    ALL: (1.91, 1.45),
    "without loop reordering": (1.91, 1.28),
    "without parameter freezing": (1.85, 1.45),
    "without pattern matching": (1.83, 1.45),
    "without cudagraphs": (1.81, 1.37),
    "without fusion": (1.68, 1.27),
    "without inlining": (1.58, 1.31),
    "without fusion and inlining": (0.80, 0.59),
}
"""Inference and training in the paper: float16 models of HuggingFace on an A100."""


@dataclass(frozen=True)
class Line:
    """A line of the table: speedups over eager (None without such models), and the paper's."""

    name: str
    inference: float | None
    training: float | None
    paper: tuple[float, float]


def compilers(device: str) -> dict[str, Compiler]:
    """Eager, and one compiler for each line that can make a difference on the device."""
    base = {"freezing": True, "cudagraphs": device != "cpu"}
    lines = {name: base | change for name, change in SWITCHES.items()}
    able = {n: o for n, o in lines.items() if n == ALL or o != lines[ALL]}
    compiled = {n: partial(minitorch2.compile, options=o) for n, o in able.items()}
    return {EAGER: lambda function: function, **compiled}


def on_device(case: Case, device: str) -> Case:
    """The same case with its module and its inputs elsewhere."""

    def make() -> Function:
        function = case.make()
        return function.to(device) if isinstance(function, torch.nn.Module) else function

    def inputs() -> tuple[Tensor, ...]:
        return tuple(tensor.to(device) for tensor in case.inputs())

    return replace(case, make=make, inputs=inputs)


def run(only: str, device: str, budget: float, results: Path, console: Console) -> int:
    """Measure, print and write; 1 if a result was wrong."""
    chosen = [on_device(case, device) for case in models.cases() if only in case.name]
    if not chosen:
        raise SystemExit(f"no case of models contains {only!r}")
    found = [measure(case, compilers(device), budget) for case in track(chosen, "table4")]
    lines = lines_of(found, {case.name for case in chosen if case.backward})
    console.print(table(lines, device))
    results.mkdir(exist_ok=True)
    report = {"device": device, "lines": [asdict(line) for line in lines]}
    report["models"] = [asdict(result) for result in found]
    (results / "table4.json").write_text(json.dumps(report, indent=1) + "\n")
    return int(any(result.wrong for result in found))


def lines_of(found: list[Result], training: set[str]) -> list[Line]:
    """The geometric means, line by line."""
    names = [name for name in found[0].seconds if name != EAGER]

    def mean(name: str, wanted: Callable[[Result], bool]) -> float | None:
        speedups = [result.speedup(name) for result in found if wanted(result)]
        return geometric_mean(speedups) if speedups else None

    return [
        Line(
            name,
            mean(name, lambda result: result.case not in training),
            mean(name, lambda result: result.case in training),
            PAPER[name],
        )
        for name in names
    ]


def table(lines: list[Line], device: str) -> Table:
    """The paper's table beside ours; in parentheses the difference from the first line."""
    shown = Table(title=f"What optimizations are worth: speedup over eager, {device}")
    for column in ("", "inference", "training", "paper, inference", "paper, training"):
        shown.add_column(column, justify="right" if column else "left")
    first = lines[0]
    for line in lines:
        shown.add_row(
            line.name,
            speedup(line.inference, first.inference),
            speedup(line.training, first.training),
            speedup(line.paper[0], first.paper[0]),
            speedup(line.paper[1], first.paper[1]),
        )
    return shown


def speedup(value: float | None, first: float | None) -> str:
    """`1.85x (-0.06)`"""
    if value is None or first is None:
        return "-"
    return f"{value:.2f}x" if value is first else f"{value:.2f}x ({value - first:+.2f})"
