"""`python -m benchmarks evaluate`: measure the rows that are missing, write them, print tables."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

from rich.console import Console

from benchmarks.evaluate import rows
from benchmarks.evaluate.backends import BACKENDS, available
from benchmarks.evaluate.rows import DTYPES, INFERENCE, TRAINING, Found, Question, Row
from benchmarks.evaluate.suites import SUITES, cases_of
from benchmarks.evaluate.tables import figure4, shown
from benchmarks.peers import NEEDS, how, is_installed, takes
from minitorch2.demo.first_result import CACHE_VARIABLES

ROOT = Path(__file__).parents[2]


def parser() -> argparse.ArgumentParser:
    """The flags, by the names of the paper's appendix A.7."""
    found = argparse.ArgumentParser(prog="python -m benchmarks evaluate", description=__doc__)
    found.add_argument("--suite", action="append", choices=SUITES, help="one of them; all if none")
    found.add_argument("--backend", action="append", choices=BACKENDS, help="all that can run here")
    modes = found.add_mutually_exclusive_group()
    for mode in (INFERENCE, TRAINING):
        modes.add_argument(f"--{mode}", action="store_const", dest="mode", const=mode)
    dtypes = found.add_mutually_exclusive_group()
    for dtype in DTYPES:
        dtypes.add_argument(f"--{dtype}", action="store_const", dest="dtype", const=dtype)
    found.set_defaults(mode=None, dtype=DTYPES[0])
    found.add_argument("--freezing", action="store_true", help="parameters are constants")
    found.add_argument("--device", default="cpu")
    found.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains it")
    found.add_argument("--output", type=Path, required=True, help="the folder of the rows")
    found.add_argument("--limit", type=float, default=300.0, help="seconds that a row may take")
    found.add_argument("--repeats", type=int, default=100)
    found.add_argument("--seconds", type=float, default=10.0, help="of timing a row; then it ends")
    found.add_argument("--minutes", type=float, default=None, help="after which no row begins")
    found.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th case")
    found.add_argument("--again", action="store_true", help="measure failures again")
    return found


def questions(options: argparse.Namespace) -> Iterator[Question]:
    """The rows that are asked for, all backends of a case together."""
    chosen = options.backend or available(options.device)
    first, step = map(int, options.shard.split("/"))
    named = [(s, c.name) for s in options.suite or SUITES for c in cases_of(s)]
    for suite, case in named[first::step]:
        for backend in chosen:
            question = Question(
                suite, case, backend, options.dtype, options.device, options.freezing,
                repeats=options.repeats, seconds=options.seconds,
            )  # fmt: skip
            if options.only in case and options.mode in (None, question.mode):
                yield question


def answer(question: Question, limit: float) -> Row:
    """Measure a row in two processes with one fresh cache, if the backend offers it."""
    if not takes(question.backend, question.needed):
        return Row(question, Found(offered=False))
    with tempfile.TemporaryDirectory(prefix="minitorch2-evaluate-") as cache:
        found = in_process(question, cache, limit, [])
        if not found.failure:
            warm = in_process(question, cache, limit, ["--first"])
            found = replace(found, warm_seconds=warm.warm_seconds, failure=warm.failure)
    return Row(question, found)


def in_process(question: Question, cache: str, limit: float, flags: list[str]) -> Found:
    """The answer of a worker, or the reason why there is none."""
    command = [sys.executable, "-m", "benchmarks.evaluate.worker", json.dumps(asdict(question))]
    environment = os.environ | {name: str(Path(cache, name)) for name in CACHE_VARIABLES}
    try:
        done = subprocess.run(
            [*command, *flags], cwd=ROOT, env=environment, capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Found(failure=f"no result in {limit:.0f} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"the process ended with {done.returncode}"]
        return Found(failure=error_of(lines))
    return Found(**json.loads(done.stdout.splitlines()[-1]))


def error_of(lines: list[str]) -> str:
    """The line of a traceback that names the error."""
    named = [line for line in lines if line[:1].isalpha() and ": " in line]
    return (named or lines)[-1][:200]


def run(arguments: Sequence[str], console: Console) -> int:
    """Measure what is missing and print the tables; 1 if one of our results was wrong."""
    options = parser().parse_args(arguments)
    for name in options.backend or ():
        if name in NEEDS and not is_installed(name):
            raise SystemExit(f"not installed: {how(name)}")
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "rows.jsonl"
    known = {row.question.key: row for row in rows.load(path)}
    asked = list(questions(options))
    kept = {key for key, row in known.items() if not (options.again and row.found.failure)}
    missing = [question for question in asked if question.key not in kept]
    console.print(f"{len(asked)} rows, {len(missing)} to be measured")
    for question in within(options.minutes, missing):
        row = answer(question, options.limit)
        known[question.key] = row
        rows.append(path, row)
        console.print(f"{question.case}: {question.backend}: {row.outcome}", markup=False)
    found = list(known.values())
    rows.write_csv(options.output / "rows.csv", found)
    for name, text in figure4(found).items():
        (options.output / name).write_text(text)
    console.print(*(grid.printed() for grid in shown(found).values()), sep="\n")
    return int(any(row.found.failure == "wrong results" for row in found))


def within(minutes: float | None, missing: list[Question]) -> Iterator[Question]:
    """The questions that begin before so many minutes are over."""
    start = perf_counter()
    for question in missing:
        if minutes is not None and perf_counter() - start > 60 * minutes:
            return
        yield question
