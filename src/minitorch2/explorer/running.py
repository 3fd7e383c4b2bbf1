"""The user's script, run as Python would run it, by the commands that watch it."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path


def script_options(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command that runs a script; end with status 2 if there is none."""
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    options = parser.parse_args(arguments)
    if not options.script.is_file():
        parser.error(f"there is no script {options.script}")
    return options


def run_script(script: Path, arguments: Sequence[str]) -> int:
    """Run a script as Python would; return its exit status."""
    argv, path = sys.argv, list(sys.path)
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.path[:] = argv, path
    return 0
