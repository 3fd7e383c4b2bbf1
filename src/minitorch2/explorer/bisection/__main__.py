"""`python -m minitorch2 bisect SCRIPT`: find the graph of a script that is wrong, and the blame.

The script runs in a fork of this process. If that dies, the script runs again, and each graph is
first tried in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FunctionType
from typing import Any

from minitorch2 import config
from minitorch2.backends import fitting_backend, lookup_backend
from minitorch2.explorer.bisection.differences import Difference, raised
from minitorch2.explorer.bisection.frontends import FRONTENDS
from minitorch2.explorer.bisection.levels import Blame
from minitorch2.explorer.bisection.minimize import SECONDS
from minitorch2.explorer.bisection.search import CAPTURE, FILE, Bisection, searched
from minitorch2.explorer.bisection.trials import FORK, Trial, ending
from minitorch2.explorer.running import script_error, script_options


def bisect(arguments: Sequence[str]) -> int:
    """Run a script, and cut the first compiled graph that is wrong down to a small program.

    If the script fails, it runs again in eager PyTorch, silently: what does not fail there is
    wrong, too. The status is 0 if nothing is wrong, 1 if something is, and 3 if the script fails in
    eager PyTorch as well.
    """
    parser = argparse.ArgumentParser(prog="python -m minitorch2 bisect", description=bisect.__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path(FILE), help="the small program")
    parser.add_argument("--tolerance", type=float, help="relative error allowed, for all dtypes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="most time for cutting")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = script_options(parser, arguments)
    status, found = _forked(_search, options, False)
    if status < 0:
        text = f"the script died of {ending(status)}: each graph gets a process of its own"
        print(text, file=sys.stderr)
        status, found = _forked(_search, options, True)
    fails = isinstance(found, Difference)
    if isinstance(found, Difference):
        found = _judged(found, options)
    if found is None:
        return abs(status)
    print(json.dumps(found.as_data(), indent=1) if options.json else found)
    return int(found.difference is not None) or FAILS * fails


FAILS = 3
"""The status for a script that fails in eager PyTorch, too."""

Answer = Bisection | Difference | None
"""The result of a search; or the exception that ended the script while its graphs were right."""


def _forked(
    task: Callable[..., Answer], *arguments: argparse.Namespace | bool
) -> tuple[int, Answer]:
    """Run a task in a fork of this process; return its status, and its result if it has ended."""
    reading, writing = FORK.Pipe(duplex=False)
    child = FORK.Process(target=lambda: writing.send(task(*arguments)))
    child.start()
    writing.close()
    try:
        found: Answer = reading.recv()
    except EOFError:
        found = None
    child.join()
    assert child.exitcode is not None
    return child.exitcode, found


def _search(options: argparse.Namespace, own_process: bool) -> Answer:
    """Run the script with each compiled graph compared; all its threads see the environment."""
    ended: list[Difference] = []

    def run() -> None:
        with config.patch(compare=True, suppress_errors=False):
            ended.extend(_raised(options))

    found = searched(
        run, options.output, own_process=own_process, tolerance=options.tolerance,
        seconds=options.seconds,
    )  # fmt: skip
    return ended[0] if ended and found.difference is None else found


def _raised(options: argparse.Namespace) -> Iterator[Difference]:
    """Run the script; yield the exception or the status that ends it as a possible difference."""
    error = script_error(options)
    if isinstance(error, SystemExit) and error.code:
        yield Difference("exception", "SystemExit", f"ends the script: {error.code}")
    elif isinstance(error, Exception):
        yield raised(error)


def _eagerly(options: argparse.Namespace) -> Answer:
    """Return the failure with which the script ends if nothing is compiled; print nothing of it."""
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        config.patch(disable=True),
    ):
        return next(_raised(options), None)


def _judged(found: Difference, options: argparse.Namespace) -> Bisection:
    """Return the result for a script that fails although each of its graphs is right."""
    print("the script fails: it runs again in eager PyTorch, silently", file=sys.stderr)
    _, eager = _forked(_eagerly, options)
    if isinstance(eager, Difference) and found.is_like(eager):
        own = f"the script fails in eager PyTorch, too: {eager.where} {eager.text}"
        return Bisection(None, note=f"{own}\nno graph that was compiled until then is wrong")
    return Bisection(found, Blame(CAPTURE))


def check(
    program: FunctionType,
    inputs: list[Any],
    *,
    backend: str | None,
    options: Mapping[str, Any],
    frontend: str | None = None,
) -> int:
    """Print how a program fails; return 1 if it does, as a status.

    Args:
        backend: its name; None for the one that fits the inputs.
        frontend: that of `minitorch2.bisect`; None for `compile`.
    """
    to_use = fitting_backend if backend is None else lookup_backend(backend)
    way = None if frontend is None else FRONTENDS[frontend]
    found = Trial(to_use, options, frontend=way).difference_of(program, inputs)
    print(found or "nothing is wrong")
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(bisect(sys.argv[1:]))
