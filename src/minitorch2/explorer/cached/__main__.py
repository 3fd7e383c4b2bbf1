"""`python -m minitorch2 cache {info,clear,explain,save,load}`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from minitorch2.cache import storage
from minitorch2.cache.bundle import load_bundle, save_bundle
from minitorch2.errors import ConfigError
from minitorch2.explorer.cached import report


def main(arguments: Sequence[str]) -> int:
    """Do one action and print its result; the status is 1 if a file or an entry is missing."""
    parser = argparse.ArgumentParser(prog="python -m minitorch2 cache", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as JSON")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("info", parents=[common], help="where it is and what is in it")
    actions.add_parser("clear", parents=[common], help="remove everything")
    explain = actions.add_parser("explain", parents=[common], help="why entries had to be made")
    explain.add_argument("which", nargs="?", default="", help="start of a digest or of a name")
    save = actions.add_parser("save", parents=[common], help="write all entries to a bundle")
    save.add_argument("file", type=Path)
    taken = "take in the entries of a bundle (machine code!)"
    load = actions.add_parser("load", parents=[common], help=taken)
    load.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    try:
        data, lines = _done(options)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(_told(options.action, error), file=sys.stderr)
        return 1
    print(json.dumps(data, indent=1) if options.json else "\n".join(lines))
    return 0


def _told(action: str, error: OSError) -> str:
    """Return the words for a file that cannot be read or written."""
    fix = {
        "load": "give the path of a bundle that `python -m minitorch2 cache save` has written",
        "save": "give the path of a file, in a folder that exists and that you may write to",
    }.get(action, "see that you may read and write the folder of the cache")
    return f"cannot {action} {error.filename}: {error.strerror}\nFix: {fix}"


def _done(options: argparse.Namespace) -> tuple[object, list[str]]:
    """Do the action; return its result as data and as lines."""
    if options.action == "info":
        return report.info_data(), report.info()
    if options.action == "clear":
        removed = storage.clear()
        return {"removed": removed}, [f"removed {removed} files"]
    if options.action == "explain":
        lines = report.explanations(options.which)
        if options.which and not lines:
            raise ConfigError(
                f"no entry of the cache begins with {options.which!r}",
                fix="leave the name out to see all, or give the start of a digest or of a name",
            )
        return report.explanations_data(options.which), lines or ["the cache is empty"]
    if options.action == "save":
        bundle = save_bundle(found.digest for found in report.entries())
        options.file.write_bytes(bundle)
        return {"bytes": len(bundle)}, [f"wrote {len(bundle)} bytes"]
    taken = load_bundle(options.file.read_bytes())
    return {"entries": taken}, [f"took in {taken} entries"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
