"""`python -m benchmarks SUITE [--peer]`: measure, print a table, write JSON."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import (
    captures,
    compile_time,
    dynamic,
    figure4,
    halide,
    kernels,
    lazy,
    memory,
    meta_coverage,
    models,
    overhead,
    scale,
    script,
    table1,
    table2,
    table4,
)
from benchmarks.breadth import report as breadth
from benchmarks.compilers import OURS, Compiler, compilers
from benchmarks.evaluate import run as evaluate
from benchmarks.measure import Result, measure_all
from benchmarks.peers import needed_by, takes

SUITES = {"kernels": kernels.cases, "models": models.cases, "overhead": overhead.cases}
RESULTS = Path(__file__).parent / "results"


def results_of(
    suite: str, chosen: dict[str, Compiler], only: str, budget: float
) -> Iterable[Result]:
    """Measure a suite's cases whose name contains `only`, those that all take."""
    if suite == "compile_time":
        return compile_time.results(list(chosen))
    named = (case for case in SUITES[suite]() if only in case.name)
    cases = [case for case in named if all(takes(name, needed_by(case)) for name in chosen)]
    return track(measure_all(cases, chosen, budget), suite, total=len(cases))


def table(suite: str, results: list[Result]) -> Table:
    """Seconds of each compiler, and how much faster ours is than the others."""
    shown = Table(title=f"{suite}, {torch.get_num_threads()} threads, medians")
    names = list(results[0].seconds)
    for column in (suite, *names, *(f"over {name}" for name in names if name != OURS)):
        shown.add_column(column, justify="left" if column == suite else "right")
    for result in results:
        ratios = [result.speedup(OURS, over) for over in names if over != OURS]
        wrong = f" [bold red]WRONG: {', '.join(result.wrong)}[/]" if result.wrong else ""
        shown.add_row(
            result.case + wrong,
            *(duration(result.seconds[name]) for name in names),
            *(f"{ratio:.2f}x" for ratio in ratios),
        )
    if len(results) > 1:
        others = [name for name in names if name != OURS]
        means = [geometric_mean(r.speedup(OURS, over) for r in results) for over in others]
        shown.add_section()
        shown.add_row("geometric mean", *[""] * len(names), *(f"{mean:.2f}x" for mean in means))
    return shown


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-6:.1f} us"


def main(arguments: Sequence[str]) -> int:
    """Run one suite; the status is 1 if any result was wrong."""
    console = Console()
    console.width = max(console.width, 110)
    if arguments[:1] == ["evaluate"]:
        return evaluate.run(arguments[1:], console)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    others = [
        "breadth",
        "captures",
        "compile_time",
        "dynamic",
        "evaluate",
        "halide",
        "lazy",
        "memory",
        "meta_coverage",
        "scale",
        "script",
        "table1",
        "table2",
        "table4",
    ]
    parser.add_argument("suite", choices=[*SUITES, *others])
    parser.add_argument("--peer", action="store_true", help="torch.compile in the same run")
    parser.add_argument("--numba", action="store_true", help="our kernels by Numba, too")
    parser.add_argument("--others", action="store_true", help="ONNX Runtime and OpenVINO, too")
    parser.add_argument("--quick", action="store_true", help="captures: no kernels are compiled")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains it")
    parser.add_argument("--seconds", type=float, default=2.0, help="spent on timing each case")
    parser.add_argument("--backend", default="eager", help="table1: what runs the graphs")
    parser.add_argument("--resume", action="store_true", help="table1: only what is missing")
    parser.add_argument("--device", default="cpu", help="breadth, scale, table4: where it runs")
    parser.add_argument("--twice", action="store_true", help="table4: say how much two runs differ")
    options = parser.parse_args(arguments)
    if options.suite == "table1":
        given = options.peer, options.only, options.backend
        return table1.run(*given, RESULTS, options.resume, console)
    if options.suite == "meta_coverage":
        return meta_coverage.run(options.only, RESULTS, console)
    if options.suite == "breadth":
        return breadth.run(options.only, options.device, options.peer, RESULTS, console)
    if options.suite == "captures":
        return captures.run(options.quick, options.only, RESULTS, console)
    if options.suite == "halide":
        return halide.run(options.peer, options.only, RESULTS, console)
    if options.suite == "script":
        return script.run(options.only, RESULTS, console)
    if options.suite == "scale":
        return scale.run(RESULTS, console, options.device, options.peer, options.only)
    if options.suite == "lazy":
        return lazy.run(options.only, 2000, console)
    if options.suite == "dynamic":
        return dynamic.run(options.peer, RESULTS, console)
    if options.suite == "memory":
        return memory.run(options.peer, options.only, RESULTS, console)
    if options.suite == "table2":
        return table2.run(options.peer, options.only, RESULTS, console)
    if options.suite == "table4":
        given = options.only, options.device, options.seconds, options.twice
        return table4.run(*given, RESULTS, console)
    chosen = compilers(options.peer, numba=options.numba, others=options.others)
    measured = results_of(options.suite, chosen, options.only, options.seconds)
    results = list(measured)
    if not results:
        parser.error(f"no case of {options.suite} contains {options.only!r}")
    console.print(table(options.suite, results))
    RESULTS.mkdir(exist_ok=True)
    report = {"threads": torch.get_num_threads(), "results": [asdict(each) for each in results]}
    (RESULTS / f"{options.suite}.json").write_text(json.dumps(report, indent=1) + "\n")
    if options.suite == "models":
        (RESULTS / "figure4.svg").write_text(figure4.figure(results))
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
