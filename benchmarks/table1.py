"""The PyTorch 2 paper's Table 1 for this project: what is captured of many models, and how well.

Every program of the zoo is checked with each compiler in a process that has a time limit; several
share one, and the others go on in a new one if a program ends it. Results are written as they come,
so that `--resume` goes on where a run was stopped.
"""

import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.compilers import OURS, PEER
from benchmarks.zoo.check import Outcome
from benchmarks.zoo.programs import SUITES, Program, programs

TORCHSCRIPT = "torchscript"
SECONDS_A_PROGRAM = 120
PROGRAMS_A_PROCESS = 40


def outcomes(chosen: list[Program], compiler: str, backend: str) -> Iterator[Outcome]:
    """Check the programs, some of them in each process."""
    count = 0
    while count < len(chosen):
        batch = chosen[count : count + PROGRAMS_A_PROCESS]
        for outcome in in_process(batch, compiler, backend):
            count += 1
            yield outcome


def in_process(batch: list[Program], compiler: str, backend: str) -> Iterator[Outcome]:
    """Check programs in one process, until one of them crashes or takes too long."""
    command = [sys.executable, "-m", "benchmarks.zoo.check", compiler, backend]
    command += [program.name for program in batch]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        lines = lines_of(process)
        for program in batch:
            line = next_line(lines)
            if line:
                yield Outcome(**json.loads(line))
                continue
            process.kill()
            error = f"no result in {SECONDS_A_PROGRAM} s" if line is None else "the process ended"
            yield Outcome(program.name, program.suite, compiler, error)
            return


def lines_of(process: subprocess.Popen[str]) -> queue.Queue[str]:
    """The lines that a process writes, as they come; an empty one at the end."""
    lines: queue.Queue[str] = queue.Queue()
    stream = process.stdout
    assert stream is not None
    threading.Thread(target=read_lines, args=(stream, lines), daemon=True).start()
    return lines


def read_lines(stream: IO[str], lines: queue.Queue[str]) -> None:
    while line := stream.readline():
        lines.put(line)
    lines.put("")


def next_line(lines: queue.Queue[str]) -> str | None:
    """The next line; None if it does not come in time."""
    try:
        return lines.get(timeout=SECONDS_A_PROGRAM)
    except queue.Empty:
        return None


def run(peer: bool, only: str, backend: str, folder: Path, resume: bool, console: Console) -> int:
    """Check all programs whose name contains `only`; the status is 1 if ours was wrong."""
    path = folder / ("table1.json" if backend == "eager" else f"table1_{backend}.json")
    chosen = [program for program in programs() if only in program.name]
    known = load(path)
    for compiler in (OURS, PEER, TORCHSCRIPT) if peer else (OURS,):
        missing = [e for e in chosen if not (resume and (compiler, e.name) in known)]
        found = outcomes(missing, compiler, backend)
        for outcome in track(found, compiler, total=len(missing), console=console):
            known[compiler, outcome.program] = outcome
            save(path, known.values())
    names = {program.name for program in chosen}
    shown = [outcome for outcome in known.values() if outcome.program in names]
    console.print(*tables(shown), sep="\n")
    return int(any(each.wrong for each in shown if each.compiler == OURS))


def load(path: Path) -> dict[tuple[str, str], Outcome]:
    """What earlier runs found, by compiler and program."""
    if not path.exists():
        return {}
    found = [Outcome(**each) for each in json.loads(path.read_text())["results"]]
    return {(each.compiler, each.program): each for each in found}


def save(path: Path, found: Iterable[Outcome]) -> None:
    path.parent.mkdir(exist_ok=True)
    report = {"results": [asdict(each) for each in found]}
    path.write_text(json.dumps(report, indent=1) + "\n")


def tables(found: list[Outcome]) -> Iterator[Table]:
    """The summary of each suite, then the programs that are not one graph with ours."""
    yield summary(found)
    yield shortcomings([each for each in found if each.compiler == OURS])


ROWS = {
    "programs": lambda group: len(group),
    "works": lambda group: share(each.works for each in group),
    "wrong results": lambda group: sum(each.wrong for each in group),
    "operators captured": lambda group: f"{mean(each.captured for each in group):.1%}",
    "operators per graph": lambda group: f"{operators_a_graph(group):.1f}",
    "graphs per working program": lambda group: f"{mean(e.calls for e in group if e.works):.2f}",
    "0 breaks": lambda group: share(each.works and each.breaks == 0 for each in group),
    "1 to 9 breaks": lambda group: share(each.works and 1 <= each.breaks < 10 for each in group),
    "10 or more breaks": lambda group: share(each.works and each.breaks >= 10 for each in group),
}
"""What the table says of the outcomes of one compiler on one suite."""


def summary(found: list[Outcome]) -> Table:
    """A column for each compiler, a block of rows for each suite."""
    names = list(dict.fromkeys(each.compiler for each in found))
    shown = Table("programs", "", *names, title="Table 1: capture")
    for suite in SUITES:
        groups = [[e for e in found if (e.compiler, e.suite) == (name, suite)] for name in names]
        if not any(groups):
            continue
        for i, (row, value) in enumerate(ROWS.items()):
            cells = [str(value(group)) if group else "" for group in groups]
            shown.add_row("" if i else suite, row, *cells, end_section=row == list(ROWS)[-1])
    return shown


def shortcomings(found: list[Outcome]) -> Table:
    """What does not work or breaks, and why."""
    shown = Table("program", "graphs", "breaks", "why", title="not in one graph")
    for each in found:
        if each.error or each.breaks:
            why = each.error or "; ".join(brief(reason) for reason in counted(each.reasons))
            shown.add_row(each.program, str(each.calls), str(each.breaks), why)
    return shown


def counted(reasons: list[str]) -> Iterator[str]:
    for reason, count in Counter(reasons).items():
        yield f"{count}x {reason}" if count > 1 else reason


def brief(reason: str) -> str:
    """A reason without the line of the user and the remedy."""
    lines = [line.strip() for line in reason.splitlines()]
    return next((line for line in lines if line.endswith("]")), lines[0])


def operators_a_graph(group: Iterable[Outcome]) -> float:
    """How many operators the graphs of working programs have."""
    works = [each for each in group if each.works]
    inside = sum(each.operators - each.outside for each in works)
    return inside / max(1, sum(each.calls for each in works))


def share(holds: Iterable[bool]) -> str:
    values = list(holds)
    return f"{sum(values)} ({sum(values) / len(values):.0%})"


def mean(numbers: Iterable[float]) -> float:
    values = list(numbers)
    return sum(values) / len(values) if values else 0.0
