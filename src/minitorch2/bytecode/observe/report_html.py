"""Reports as HTML: an explanation as a page that needs nothing else, others for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minitorch2.bytecode.explain import Explanation

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { padding: .15em .8em; text-align: left; }
th { border-bottom: 1px solid #999; } td { vertical-align: top; }
pre, .listing { font: 13px/1.45 ui-monospace, monospace; } .listing td { white-space: pre; }
.captured { background: #e6f4e6; } .break { background: #fff3c4; } .python { background: #fbe3e3; }
.not-reached { color: #888; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd; }
  .captured { background: #173d1c; } .break { background: #4d4212; }
  .python { background: #4c1d1d; }
}
"""

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


def page(explanation: Explanation) -> str:
    """The page: numbers, breaks by cost, the user's source, guards, graphs."""
    body = "\n".join(_sections(explanation))
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>minitorch2.explain"
        f"</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def part(explanation: Explanation) -> str:
    """The same for a notebook: no page of its own."""
    return in_notebook("\n".join(_sections(explanation)))


def in_notebook(body: str) -> str:
    """HTML whose style does not reach beyond it."""
    style = "\n".join(f".minitorch2 {rule}" for rule in _RULES)
    return f'<div class="minitorch2"><style>{style}</style>\n{body}\n</div>'


def text_in_notebook(text: str) -> str:
    """Text as it is."""
    return in_notebook(f"<pre>{html.escape(text)}</pre>")


def table_in_notebook(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """One table."""
    return in_notebook(_table(headings, rows))


def _sections(e: Explanation) -> Iterator[str]:
    yield "<h1>What was captured</h1>"
    yield _table(
        ("graphs", "operators", "outside graphs", "breaks", "in Python", "guards"),
        [
            (
                e.graph_count, e.op_count, e.ops_outside_graphs, e.graph_break_count,
                len(e.as_is), len(e.guards),
            )
        ],
    )  # fmt: skip
    if e.costs:
        yield "<h2>Graph breaks, dearest first</h2>"
        headings = ("outside", "before", "after", "where and why")
        rows = [(c.outside, c.before, c.after, str(c.graph_break)) for c in e.costs]
        yield _table(headings, rows)
    yield f"<h2>Source</h2>\n{e.source.to_html()}"
    yield "<h2>Guards</h2>"
    yield _table(("guard", "needed by"), [(guard, guard.user_line or "") for guard in e.guards])
    yield "<h2>Seconds</h2>"
    yield _table(("phase", "seconds"), [(name, f"{s:.3f}") for name, s in e.seconds.items()])
    for number, graph in enumerate(e.graphs):
        yield f"<h2>Graph {number}</h2>\n<pre>{html.escape(graph.code)}</pre>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    return "\n".join([f"<table><tr>{head}</tr>", *map(_row, rows), "</table>"])


def _row(cells: Sequence[object]) -> str:
    columns = (html.escape(str(cell)).replace("\n", "<br>") for cell in cells)
    return f"<tr>{''.join(f'<td>{column}</td>' for column in columns)}</tr>"
