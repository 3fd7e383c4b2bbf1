"""An explanation as HTML: a page that needs nothing else, or a part of a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING

from minitorch2.foundation.notebook import in_notebook, table

if TYPE_CHECKING:
    from minitorch2.bytecode.observe.explain import Explanation

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


def page(explanation: Explanation) -> str:
    """Return the page: numbers, breaks by cost, the user's source, guards, graphs."""
    body = "\n".join(_sections(explanation))
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>minitorch2.explain"
        f"</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def part(explanation: Explanation) -> str:
    """Return the same for a notebook: not a page of its own."""
    return in_notebook("\n".join(_sections(explanation)))


def _sections(e: Explanation) -> Iterator[str]:
    yield "<h1>What was captured</h1>"
    yield table(
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
        yield table(headings, rows)
    yield f"<h2>Source</h2>\n{e.source.to_html()}"
    yield "<h2>Guards</h2>"
    yield table(("guard", "needed by"), [(guard, guard.user_line or "") for guard in e.guards])
    yield "<h2>Seconds</h2>"
    yield table(("phase", "seconds"), [(name, f"{s:.3f}") for name, s in e.seconds.items()])
    for number, graph in enumerate(e.graphs):
        yield f"<h2>Graph {number}</h2>\n<pre>{html.escape(graph.code)}</pre>"
