"""`python -m tests.nets [--minutes N] [--only NAME] [--seed S]`: cast the nets; 1 if one caught.

Each net is cast again and again, with another seed, until its part of the minutes is over.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic

from tests.nets.registry import NETS, TOTAL, Net
from tests.nets.report import VARIABLE, Tally

ROOT = Path(__file__).parents[2]
LONGEST_TURN = 600
"""Seconds of a processor after which a turn counts as crashed: a program that does not end."""
LIMITED = ("sh", "-c", f'ulimit -t {LONGEST_TURN}; exec "$@"', "sh")
MOST_WAITING = 4
"""A turn may take so many times its seconds where others use the processors as well."""


def environment(report: Path) -> dict[str, str]:
    """Random examples, one thread, and a place for the report."""
    own = {"HYPOTHESIS_PROFILE": "net", "OMP_NUM_THREADS": "1", VARIABLE: str(report)}
    found = filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")])
    return os.environ | own | {"PYTHONPATH": os.pathsep.join(found)}


def cast_once(net: Net, seed: int) -> Tally:
    """One turn: what it has tried and caught. A turn that has tried nothing counts as crashed."""
    command = [sys.executable, "-m", *shlex.split(net.command.format(seed=seed))]
    most = MOST_WAITING * LONGEST_TURN
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        try:
            done = subprocess.run(
                [*LIMITED, *command], cwd=ROOT, env=environment(report), capture_output=True,
                text=True, timeout=most,
            )  # fmt: skip
            text = f"status {done.returncode}: {(done.stdout + done.stderr)[-600:]}"
        except subprocess.TimeoutExpired:
            text = f"not done after {most} s"
        if report.exists() and (tally := Tally.read(report)).tried:
            return tally
    return Tally(tried=1, crashed=1, failures=[f"crashed: {shlex.join(command)}: {text}"])


def cast(net: Net, minutes: float, seed: int) -> tuple[Net, Tally]:
    """All turns of a net."""
    begin, tally = monotonic(), Tally()
    while True:
        found = cast_once(net, seed)
        found.failures = [f"seed {seed}: {failure}" for failure in found.failures]
        tally.add(found)
        seed += 1
        tally.seconds = monotonic() - begin
        if tally.seconds >= 60 * minutes:
            return net, tally


def main(arguments: list[str]) -> int:
    """Cast, print a line for each net, and say whether anything was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.nets", description=__doc__)
    parser.add_argument("--minutes", type=float, default=TOTAL, help="until the last net is in")
    parser.add_argument("--only", help="the name of one net")
    parser.add_argument("--seed", type=int, default=0, help="of the first turn")
    parser.add_argument("--jobs", type=int, default=2, help="nets at a time")
    options = parser.parse_args(arguments)
    chosen = [net for net in NETS if options.only in (None, net.name)]
    chosen.sort(key=lambda net: -net.share)  # so that none begins when the others are done
    if not chosen:
        parser.error(f"there is no net {options.only!r}: {', '.join(n.name for n in NETS)}")
    jobs = min(options.jobs, len(chosen))
    minutes = jobs * options.minutes / sum(net.share for net in chosen)
    head = ("programs", "wrong", "crashed", "lost exceptions", "seconds")
    print(_row("net", head), flush=True)
    total = Tally()
    with ThreadPoolExecutor(jobs) as pool:
        turns = partial(_cast_for, minutes=minutes, seed=options.seed)
        for net, tally in pool.map(turns, chosen):
            _print(net.name, tally)
            print(*[f"\n{failure}\n" for failure in tally.failures], sep="", end="", flush=True)
            total.add(tally)
    _print("all", total)
    return int(total.caught > 0)


def _cast_for(net: Net, minutes: float, seed: int) -> tuple[Net, Tally]:
    return cast(net, net.share * minutes, seed)


def _print(name: str, tally: Tally) -> None:
    counts = (tally.tried, tally.wrong, tally.crashed, tally.lost, round(tally.seconds))
    print(_row(name, counts), flush=True)


def _row(name: str, cells: Sequence[object]) -> str:
    widths = (9, 6, 8, 16, 8)
    columns = (f"{cell!s:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{name:20} {' '.join(columns)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
