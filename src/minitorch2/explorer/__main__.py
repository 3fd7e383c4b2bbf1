"""The commands `explain`, `explore` and `profile` of a script, and `trace` of a folder.

`bisect` has a file of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from minitorch2 import config, stages
from minitorch2.bytecode.dispatch.background import finish_compiling
from minitorch2.errors import ConfigError
from minitorch2.explorer import trace as tracing
from minitorch2.explorer.bisection.__main__ import bisect
from minitorch2.explorer.job import Job, chrome_trace, read_job
from minitorch2.explorer.page import page_of
from minitorch2.explorer.profiled.machine import limits_of
from minitorch2.explorer.profiled.plans import PlanLog
from minitorch2.explorer.profiled.report import profile_of
from minitorch2.explorer.recorder import Recorder
from minitorch2.explorer.running import run_script, script_options
from minitorch2.explorer.store import Store
from minitorch2.explorer.summary import summary_data, summary_lines


def explain(arguments: Sequence[str]) -> int:
    """Run a script, and print where its graphs break, what is compiled again, and what both cost.

    Processes that the script starts are told, too. Returns the script's exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m minitorch2 explain", description=explain.__doc__
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(output=None)
    options = script_options(parser, arguments)
    with TemporaryDirectory() as folder, _tracing(folder):
        status = run_script(options)
        finish_compiling()
        job = read_job(Path(folder)) if any(Path(folder).iterdir()) else Job([])
    print(json.dumps(summary_data(job), indent=1) if options.json else _explained(job))
    return status


def _explained(job: Job) -> str:
    lines = summary_lines(job) if job.processes else ["nothing was compiled"]
    return "\n".join(lines)


@contextmanager
def _tracing(folder: str) -> Iterator[None]:
    """Trace into a folder what this process and those that it starts compile inside the block."""
    known = {config.TRACE_VARIABLE: ""} | os.environ
    os.environ[config.TRACE_VARIABLE] = folder
    tracing.begin()
    try:
        yield
    finally:
        tracing.end()
        os.environ[config.TRACE_VARIABLE] = known[config.TRACE_VARIABLE]


def explore(arguments: Sequence[str]) -> int:
    """Run a script, and write the page of all that it compiles; return the script's exit status.

    The page is written even if the script raises.
    """
    parser = argparse.ArgumentParser(
        prog="python -m minitorch2 explore", description=explore.__doc__
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="a file for the page, in place of explorer.html"
    )
    parser.add_argument(
        "--json", action="store_true", help="the records as JSON: printed, or written to OUTPUT"
    )
    options = script_options(parser, arguments)
    recorder = Recorder()
    try:
        with _everywhere(recorder):
            status = run_script(options)
            finish_compiling()
            recorder.compile_backward()
    finally:
        store = recorder.store
        text = json.dumps(store.as_data()) if options.json else page_of(store, options.script.name)
        if options.json and options.output is None:
            print(text)
        else:
            output: Path = options.output or Path("explorer.html")
            output.write_text(text, encoding="utf-8")
            print(f"{output}: {_counted(store)}")
    return status


@contextmanager
def _everywhere(log: stages.StageLog) -> Iterator[None]:
    stages.open_everywhere(log)
    try:
        yield
    finally:
        stages.close_everywhere(log)


def profile(arguments: Sequence[str]) -> int:
    """Run a script, and print where its time goes, what it could be, and its peaks of memory.

    Graphs are compiled anew. Returns the script's exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m minitorch2 profile", description=profile.__doc__
    )
    parser.add_argument("-o", "--output", type=Path, help="a file for the Chrome trace")
    parser.add_argument("--json", action="store_true", help="print the profile as JSON")
    parser.add_argument(
        "--bandwidth", type=float, metavar="GB/s", help="the machine's, instead of a probe's"
    )
    parser.add_argument(
        "--peak", type=float, metavar="GFLOP/s", help="the machine's, instead of a probe's"
    )
    options = script_options(parser, arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    stated = [None if each is None else each * 1e9 for each in (options.bandwidth, options.peak)]
    limits = limits_of(device, *stated)
    log = PlanLog()
    os.environ.setdefault("KINETO_LOG_LEVEL", _SILENT)
    with _everywhere(log), torch.profiler.profile(profile_memory=True) as recorded:
        status = run_script(options)
    found = profile_of(recorded, log, limits, options.output)
    print(json.dumps(found.as_data(), indent=1) if options.json else "\n".join(found.lines()))
    return status


_SILENT = "6"
"""The level of PyTorch's profiler above that of the lines it prints at each start and stop."""


def _counted(store: Store) -> str:
    compilations = list(store.compilations.values())
    breaks = sum(len(each.breaks) for each in compilations)
    found = {"compilation": len(compilations), "graph break": breaks}
    texts = [f"{number} {name}{'s' * (number != 1)}" for name, number in found.items()]
    return ", ".join([*texts, f"{len(store.as_is)} in Python"])


def trace(arguments: Sequence[str]) -> int:
    """Print the summary of a traced job; write its page and its Chrome trace into the folder."""
    parser = argparse.ArgumentParser(prog="python -m minitorch2 trace", description=trace.__doc__)
    parser.add_argument("folder", type=Path, help="that of MINITORCH2_TRACE")
    parser.add_argument("-o", "--output", type=Path, help="another folder for what is written")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args(arguments)
    try:
        job = read_job(options.folder)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    output: Path = options.output or options.folder
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"cannot write into {output}: {error.strerror}")
    lines = list(summary_lines(job))
    store = job.store()
    store.report = lines
    (output / "index.html").write_text(page_of(store, "minitorch2 trace"), encoding="utf-8")
    (output / "chrome.json").write_text(json.dumps(chrome_trace(job)), encoding="utf-8")
    print(json.dumps(summary_data(job), indent=1) if options.json else "\n".join(lines))
    if not options.json:
        print(
            f"written: {os.path.join(output, 'index.html')}, {os.path.join(output, 'chrome.json')}"
        )
    return 0


COMMANDS = {
    "bisect": bisect,
    "explain": explain,
    "explore": explore,
    "profile": profile,
    "trace": trace,
}
"""The commands by name, for the front door of the package."""


if __name__ == "__main__":
    sys.exit(explore(sys.argv[1:]))
