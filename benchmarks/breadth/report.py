"""`python -m benchmarks breadth`: measure, print a table with the worst first, write JSON."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.breadth.programs import programs
from benchmarks.breadth.trial import Trial, tried
from benchmarks.compilers import EAGER, OURS, PEER

LEAST_RATIO = 0.97
"""Below it, a program counts as slower than eager: what is above is within the noise."""


def run(only: str, device: str, peer: bool, results: Path, console: Console) -> int:
    """Measure the programs whose name contains `only`; 1 if one was wrong, failed or slower.

    torch.compile has a column if it is asked for and there is a C++ compiler for it.
    """
    chosen = [EAGER, OURS]
    if peer and any(map(shutil.which, ("c++", "g++", "clang++"))):
        chosen.append(PEER)
    elif peer:
        console.print(f"no C++ compiler here: the column {PEER} is left out")
    cases = [case for case in programs() if only in case.name]
    trials = list[Trial]()
    for case in cases:
        trials.append(tried(case, chosen, device))
        console.print(line_of(trials[-1]), soft_wrap=True, markup=False, highlight=False)
        write(trials, device, results)
    if not trials:
        raise SystemExit(f"no program contains {only!r}")
    console.print(table(trials, chosen, device))
    return int(any(t.wrong or t.failed or t.ratio() < LEAST_RATIO for t in trials))


def write(trials: list[Trial], device: str, results: Path) -> None:
    results.mkdir(exist_ok=True)
    found = [asdict(trial) for trial in trials]
    report = {"device": device, "threads": torch.get_num_threads(), "programs": found}
    (results / "breadth.json").write_text(json.dumps(report, indent=1) + "\n")


def line_of(trial: Trial) -> str:
    """A program in a line, and the slowest of its kernels and calls if eager was faster."""
    times = " / ".join(f"{name} {1e3 * s:.3g} ms" for name, s in trial.seconds.items())
    slow = [f"{ms:.3g} ms {name} x{count}" for name, (ms, count) in trial.slowest.items()]
    return "; ".join([f"{trial.program}: {times}", *found_out(trial), *slow])


def found_out(trial: Trial) -> list[str]:
    """What is wrong with a program."""
    wrong = [f"WRONG: {', '.join(trial.wrong)}"] if trial.wrong else []
    return wrong + [f"{name} FAILED: {text}" for name, text in trial.failed.items()]


def table(trials: list[Trial], chosen: list[str], device: str) -> Table:
    """A row a program, the worst against eager first."""
    threads = torch.get_num_threads()
    shown = Table(title=f"breadth, {device}, {threads} threads: milliseconds, median and minimum")
    others = chosen[1:]
    for column in ("program", *chosen, *(f"{name} over {EAGER}" for name in others)):
        shown.add_column(column, justify="left" if column == "program" else "right")
    for trial in sorted(trials, key=Trial.ratio):
        times = (_times(trial, name) for name in chosen)
        ratios = (f"{trial.ratio(name):.2f}x" for name in others)
        name = " ".join([trial.program, *(f"[bold red]{each}[/]" for each in found_out(trial))])
        shown.add_row(name, *times, *ratios)
    shown.add_section()
    means = (_mean(trials, name) for name in others)
    shown.add_row("geometric mean", *[""] * len(chosen), *means)
    return shown


def _times(trial: Trial, name: str) -> str:
    if name not in trial.seconds:
        return "-"
    return f"{1e3 * trial.seconds[name]:.3g} {1e3 * trial.least[name]:.3g}"


def _mean(trials: list[Trial], name: str) -> str:
    found = [ratio for trial in trials if (ratio := trial.ratio(name))]
    return f"{geometric_mean(found):.2f}x" if found else "-"
