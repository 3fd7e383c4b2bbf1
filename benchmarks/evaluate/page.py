"""Tables of docs/evaluation.md, made of stored rows: `python -m benchmarks.evaluate.page`.

The rows lie in `benchmarks/results/evaluation/`, where `python -m benchmarks evaluate --output`
wrote them. A table of the page stands between two comments that name it. With `--check` nothing is
changed; the exit status is 1 if the page is not what the rows say.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.evaluate import rows
from benchmarks.evaluate.tables import figure4, shown

ROOT = Path(__file__).parents[2]
STORED = ROOT / "benchmarks" / "results" / "evaluation"
PAGE = ROOT / "docs" / "evaluation.md"
REGION = re.compile(r"(<!-- ([a-z ]+): begin -->\n).*?(<!-- \2: end -->)", re.S)


def rendered(page: str) -> str:
    """The page with the tables that the stored rows give."""
    tables = {
        name: grid.markdown() for name, grid in shown(rows.load(STORED / "rows.jsonl")).items()
    }
    return REGION.sub(lambda found: f"{found[1]}{tables[found[2]]}\n{found[3]}", page)


def main(arguments: Sequence[str]) -> int:
    """Write the page and its figure, or say whether they are up to date."""
    page, figure = PAGE.read_text(), PAGE.with_name("evaluation.svg")
    text, drawn = rendered(page), figure4(rows.load(STORED / "rows.jsonl"))["figure4.svg"]
    if "--check" in arguments:
        return int((text, drawn) != (page, figure.read_text()))
    PAGE.write_text(text)
    figure.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
