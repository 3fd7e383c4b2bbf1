"""Tables of docs/evaluation.md, made of stored rows: `python -m benchmarks.evaluate.page`.

The rows lie in `benchmarks/results/evaluation/`, where `python -m benchmarks evaluate --output`
wrote them. Beside them, `conditions.json` says of each device how they were measured. A table of
the page stands between two comments that name it, and so do the conditions. With `--check` nothing
is changed; the exit status is 1 if the page is not what the rows say.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.evaluate import rows
from benchmarks.evaluate.tables import backends_of, details, figure4, shown

ROOT = Path(__file__).parents[2]
STORED = ROOT / "benchmarks" / "results" / "evaluation"
PAGE = ROOT / "docs" / "evaluation.md"
REGION = re.compile(r"(<!-- ([a-z0-9, ]+): begin -->\n).*?(<!-- \2: end -->)", re.S)


def rendered(page: str) -> str:
    """The page with the tables that the stored rows give."""
    shown_tables = shown(rows.load(STORED / "rows.jsonl"))
    texts = {name: grid.markdown() for name, grid in shown_tables.items()}
    peers = rows.load(STORED / "peers.jsonl")  # on a machine that is not that of the other rows
    texts["peers"] = details("peers", peers, backends_of(peers)).markdown()
    texts["conditions"] = conditions()
    return REGION.sub(lambda found: f"{found[1]}{texts[found[2]]}\n{found[3]}", page)


def conditions() -> str:
    """How the rows of each device were measured, as a list."""
    stored = json.loads((STORED / "conditions.json").read_text(encoding="utf-8"))
    return "\n".join(map(told, stored.values()))


def told(found: dict[str, Any]) -> str:
    """The conditions of a device as an item of a list."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return (
        f"- *{found['title']}*: {found['machine']}; {versions}; load: {found['load']}; "
        f"{found['date']} (commit {found['commit']}). Command: `{found['command']}`. "
        f"{found['note']}"
    )


def drawings() -> dict[Path, str]:
    """A figure for each device: the text by its path."""
    found = rows.load(STORED / "rows.jsonl")
    devices = dict.fromkeys(row.question.device for row in found)
    return {
        PAGE.with_name(f"evaluation_{device}.svg"): drawn
        for device in devices
        for drawn in figure4([r for r in found if r.question.device == device]).values()
    }


def main(arguments: Sequence[str]) -> int:
    """Write the page and its figures, or say whether they are up to date."""
    texts = {PAGE: rendered(PAGE.read_text()), **drawings()}
    if "--check" in arguments:
        return int(any(not path.exists() or path.read_text() != texts[path] for path in texts))
    for path, text in texts.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
