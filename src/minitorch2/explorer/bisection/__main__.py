"""`python -m minitorch2 bisect SCRIPT`: find the graph of a script that is wrong, and the blame.

The script runs in a fork of this process. If that dies, the script runs again, and each graph is
first tried in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from minitorch2 import config
from minitorch2.backends import fitting_backend, lookup_backend
from minitorch2.explorer.bisection.minimize import SECONDS
from minitorch2.explorer.bisection.search import FILE, searched
from minitorch2.explorer.bisection.trials import FORK, Trial, ending
from minitorch2.explorer.running import run_script, script_options


def bisect(arguments: Sequence[str]) -> int:
    """Run a script, and cut the first compiled graph that is wrong down to a small program.

    The status is 1 if one is wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m minitorch2 bisect", description=bisect.__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path(FILE), help="the small program")
    parser.add_argument("--tolerance", type=float, help="relative error allowed, for all dtypes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="most time for cutting")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = script_options(parser, arguments)
    status = _forked(options, own_process=False)
    if status < 0:
        text = f"the script died of {ending(status)}: each graph gets a process of its own"
        print(text, file=sys.stderr)
        status = _forked(options, own_process=True)
    return abs(status)


def _forked(options: argparse.Namespace, *, own_process: bool) -> int:
    """Search in a fork of this process; return its status, negative if a signal has ended it."""
    child = FORK.Process(target=_search, args=(options, own_process))
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def _search(options: argparse.Namespace, own_process: bool) -> None:
    """Search, print what is found, and end the process with the status."""
    found = searched(
        lambda: _ran(options), options.output, own_process=own_process,
        tolerance=options.tolerance, seconds=options.seconds,
    )  # fmt: skip
    print(json.dumps(found.as_data(), indent=1) if options.json else found)
    sys.exit(found.difference is not None)


def _ran(options: argparse.Namespace) -> None:
    """Run the script with each compiled graph compared; all its threads see the environment."""
    with config.patch(compare=True, suppress_errors=False):
        run_script(options.script, options.arguments)


def check(
    program: FunctionType, inputs: list[Any], *, backend: str | None, options: Mapping[str, Any]
) -> int:
    """Print how a program fails; return 1 if it does, as a status.

    Args:
        backend: its name; None for the one that fits the inputs.
    """
    to_use = fitting_backend if backend is None else lookup_backend(backend)
    found = Trial(to_use, options).difference_of(program, inputs)
    print(found or "nothing is wrong")
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(bisect(sys.argv[1:]))
