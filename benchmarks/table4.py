"""Table 4 of the PyTorch 2 paper: what each optimization is worth.

    python -m benchmarks table4 [--only TEXT] [--device cuda] [--twice]

Each line switches one off and tells the geometric mean of the speedups over eager, for inference
and for training. A speedup is a median of rounds, which go on until it is known within 2 %
(`settled`), so a mean of several models is known better. On a CPU a few models of `models` are
measured, and each round compiles anew. On a GPU a few of `gpu_models` are, in float16, as there:
side by side, each model in a process of its own, when nobody compiles. With `--twice` all of it is
done twice, and the largest difference of two cells is told.

On a CPU two of the paper's lines have nothing to switch off: matrix products are library calls, and
there are no recorded launches.
"""

import json
import time
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
from benchmarks import gpu_models, models
from benchmarks.cases import Case, Function
from benchmarks.compilers import EAGER, Compiler
from benchmarks.measure import Result, keep_memory, measure
from benchmarks.settled import settled
from minitorch2.graph.patterns import FAMILIES

ALL = "all optimizations"
TRAINING = "training"
CPU_MODELS = (
    "gpt", "convolutions", "dense net", "BertForMaskedLM", "GPT2LMHeadModel",
    "ResNetForImageClassification",
)  # fmt: skip
GPU_MODELS = ("DistilBERT 64x128", "GPT-2 32x256")
"""With batches that keep the GPU busy: the host's speed is another one in each process."""
GPU_SECONDS = 600.0
"""When those that are compiled by then are measured."""
SWITCHES: dict[str, dict[str, Any]] = {
    ALL: {},
    "without loop reordering": {"reorder_loops": False},
    "without parameter freezing": {"freezing": False},
    "without templates of products": {"max_autotune": False},
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
    "without templates of products": (1.85, 1.41),
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
    on_gpu = device != "cpu"
    base = {"freezing": True, "cudagraphs": on_gpu, "max_autotune": on_gpu}
    lines = {name: base | change for name, change in SWITCHES.items()}
    able = {n: o for n, o in lines.items() if n == ALL or o != lines[ALL]}
    compiled = {n: partial(minitorch2.compile, options=o) for n, o in able.items()}
    return {EAGER: lambda function: function, **compiled}


def on_device(case: Case, device: str) -> Case:
    """The same case with its module and its inputs elsewhere.

    What is no module may hold modules: a training step does. They are made on the device.
    """

    def make() -> Function:
        function = case.make()
        if isinstance(function, torch.nn.Module):
            return function.to(device)
        with torch.device(device):
            return case.make()

    def inputs() -> tuple[Tensor, ...]:
        return tuple(tensor.to(device) for tensor in case.inputs())

    return replace(case, make=make, inputs=inputs)


def run(only: str, device: str, budget: float, twice: bool, results: Path, console: Console) -> int:
    """Measure, print and write; 1 if a result was wrong."""
    on_gpu = torch.device(device).type == "cuda"
    results.mkdir(exist_ok=True)
    report: dict[str, Any] = {"device": device, "runs": []}
    tables: list[list[Line]] = []
    for _ in range(1 + twice):
        found = measured_on_gpu(only) if on_gpu else measured_here(only, device, budget)
        if not found:
            raise SystemExit(f"no model of {device} contains {only!r}, or none could be measured")
        tables.append(lines_of(found))
        console.print(table(tables[-1], device))
        report["runs"].append(
            {"lines": [*map(asdict, tables[-1])], "models": [*map(asdict, found)]}
        )
        if len(tables) == 2:
            report["largest_difference"], where = largest_difference(*tables)
            console.print(f"largest difference: {report['largest_difference']:.1%} ({where})")
        (results / "table4.json").write_text(json.dumps(report, indent=1) + "\n")
    return int(any(model["wrong"] for run in report["runs"] for model in run["models"]))


def largest_difference(first: list[Line], second: list[Line]) -> tuple[float, str]:
    """The largest difference of two tables' cells, relative to the first, and the cell."""
    differences = [
        (abs(getattr(again, mode) / speedup - 1), f"{line.name}, {mode}")
        for line, again in zip(first, second, strict=True)
        for mode in ("inference", TRAINING)
        if (speedup := getattr(line, mode)) is not None
    ]
    return max(differences)


def measured_here(only: str, device: str, budget: float) -> list[Result]:
    """The cases of the models, one by one in this process; each round compiles anew."""
    keep_memory()
    named = {f"{name}, {mode}" for name in CPU_MODELS for mode in ("inference", TRAINING)}
    cases = [case for case in models.cases() if case.name in named and only in case.name]
    chosen = [on_device(case, device) for case in cases]
    return [_settled(case, compilers(device), budget) for case in track(chosen, "table4")]


def _settled(case: Case, compilers: dict[str, Compiler], budget: float) -> Result:
    wrong: set[str] = set()

    def round_of_it() -> dict[str, float]:
        found = measure(case, compilers, budget)
        wrong.update(found.wrong)
        return found.seconds

    return Result(case.name, settled(round_of_it, EAGER), sorted(wrong))


def measured_on_gpu(only: str) -> list[Result]:
    """Models of `gpu_models`; those that failed say so, and do not count."""
    jobs = [(name, t) for t in (False, True) for name in GPU_MODELS if only in name]
    deadline = time.time() + GPU_SECONDS
    measured = gpu_models.at_once(jobs, partial(compilers, "cuda"), deadline) if jobs else []
    return [result for job in jobs if (result := _as_result(*job, measured)) is not None]


def _as_result(name: str, training: bool, measured: list[gpu_models.Measured]) -> Result | None:
    of_it = [m for m in measured if (m.model, m.training) == (name, training)]
    by_compiler = {m.compiler: m for m in of_it if not m.failure}
    if by_compiler.keys() != compilers("cuda").keys():
        return None
    eager, kind = by_compiler[EAGER], TRAINING if training else "inference"
    wrong = [c for c, m in by_compiler.items() if not m.is_as_near_as(eager)]
    seconds = {c: m.milliseconds / 1e3 for c, m in by_compiler.items()}
    return Result(f"{name}, {kind}", seconds, wrong)


def lines_of(found: list[Result]) -> list[Line]:
    """The geometric means, line by line."""
    names = [name for name in found[0].seconds if name != EAGER]

    def mean(name: str, wanted: Callable[[Result], bool]) -> float | None:
        speedups = [result.speedup(name) for result in found if wanted(result)]
        return geometric_mean(speedups) if speedups else None

    return [
        Line(
            name,
            mean(name, lambda result: not result.case.endswith(TRAINING)),
            mean(name, lambda result: result.case.endswith(TRAINING)),
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
