"""The user's script, run as Python would run it, by the commands that watch it."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from types import TracebackType


def script_options(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command that runs a script, with options `output` and `json`.

    Ends with status 2, before anything runs, unless the script and the output's folder exist.
    """
    parser.add_argument(
        "-m", dest="module", action="store_true", help="SCRIPT is a module, as behind `python -m`"
    )
    parser.add_argument("script", type=Path, help="a file of Python; options of ours stand before")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    rest.required = False
    options = parser.parse_args(arguments)
    if not options.module and options.script.is_dir():
        parser.error(f"{options.script} is a folder: name a script in it")
    if not options.module and not options.script.is_file():
        parser.error(f"there is no script {options.script}")
    if options.output is not None and not options.output.parent.is_dir():
        parser.error(f"there is no folder {options.output.parent} for the output")
    if options.output is not None and options.output.is_dir():
        parser.error(f"the output {options.output} is a folder: name a file in it")
    return options


def run_script(options: argparse.Namespace) -> int:
    """Run a script as Python would; return its exit status, 1 if it raises."""
    error = script_error(options)
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        return error.code or 0
    return int(error is not None)


def script_error(options: argparse.Namespace) -> Exception | SystemExit | None:
    """Run a script as Python would; return the exception that ended it, whose text is printed.

    With `--json`, what the script prints goes to the error output.
    """
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(options.script), *options.arguments]
    sys.path[0] = "" if options.module else str(options.script.parent)
    try:
        with redirect_stdout(sys.stderr) if options.json else nullcontext():
            if options.module:
                runpy.run_module(str(options.script), run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(str(options.script), run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            sys.stderr.write(f"{end.code}\n")
        return end
    except Exception as error:  # noqa: BLE001 - it is the script's, and told as Python tells it
        own = _own_frames(error.__traceback__)
        traceback.print_exception(type(error), error, own, chain=own is not None)
        if isinstance(error, ImportError) and "relative import" in str(error):
            sys.stderr.write(_as_module(options.script))
        return error
    finally:
        sys.argv, sys.path[:] = argv, path
    return None


def _as_module(script: Path) -> str:
    """Return the advice for a script that imports from its own package, as `.name`."""
    *folders, name = script.with_suffix("").parts
    return f"a file of a package runs as a module: -m {'.'.join([*folders, name]).lstrip('/.')}\n"


def _own_frames(found: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the script's first frame on; None if no frame is the script's."""
    first = found
    while first is not None and first.tb_frame.f_code.co_filename in (__file__, _RUNPY):
        first = first.tb_next
    return first


_RUNPY = runpy.run_path.__code__.co_filename
