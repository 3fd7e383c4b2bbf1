"""`python -m minitorch2 cache {info,clear,explain,save,load}`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from minitorch2.cache import report, storage
from minitorch2.cache.bundle import load_bundle, save_bundle
from minitorch2.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Do one action and print its result; the status is 1 if a file is not a bundle."""
    parser = argparse.ArgumentParser(prog="python -m minitorch2 cache", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    info = actions.add_parser("info", help="where it is and what is in it")
    info.add_argument("--json", action="store_true", help="print it as JSON")
    actions.add_parser("clear", help="remove everything")
    explain = actions.add_parser("explain", help="why entries had to be made")
    explain.add_argument("which", nargs="?", default="", help="start of a digest or of a name")
    save = actions.add_parser("save", help="write all entries to a bundle")
    save.add_argument("file", type=Path)
    load = actions.add_parser("load", help="take in the entries of a bundle (machine code!)")
    load.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    try:
        print("\n".join(_lines(options)))
    except (ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _lines(options: argparse.Namespace) -> list[str]:
    if options.action == "info":
        return [json.dumps(report.info_data(), indent=1)] if options.json else report.info()
    if options.action == "clear":
        return [f"removed {storage.clear()} files"]
    if options.action == "explain":
        return report.explanations(options.which) or ["no such entry"]
    if options.action == "save":
        bundle = save_bundle(found.digest for found in report.entries())
        options.file.write_bytes(bundle)
        return [f"wrote {len(bundle)} bytes"]
    return [f"took in {load_bundle(options.file.read_bytes())} entries"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
