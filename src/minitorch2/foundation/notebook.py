"""Reports as HTML that a notebook shows beside other output."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_RULES = (
    "td, th { text-align: left; vertical-align: top; }",
    "pre, .listing { font: 13px/1.45 ui-monospace, monospace; }",
    ".listing td { white-space: pre; }",
    ".captured { background: #2e8b5733; }",
    ".break { background: #daa52044; }",
    ".python { background: #cd5c5c33; }",
    ".not-reached { color: #888; }",
)
"""The style of what a notebook shows, light or dark."""


def in_notebook(body: str) -> str:
    """Return HTML whose style does not reach beyond it."""
    style = "\n".join(f".minitorch2 {rule}" for rule in _RULES)
    return f'<div class="minitorch2"><style>{style}</style>\n{body}\n</div>'


def table_in_notebook(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML for a notebook."""
    return in_notebook(table(headings, rows))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML; the texts of its cells are escaped."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    return "\n".join([f"<table><tr>{head}</tr>", *map(_row, rows), "</table>"])


def _row(cells: Sequence[object]) -> str:
    columns = (html.escape(str(cell)).replace("\n", "<br>") for cell in cells)
    return f"<tr>{''.join(f'<td>{column}</td>' for column in columns)}</tr>"
