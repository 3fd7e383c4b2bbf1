"""An explanation as HTML: a part of a notebook. `page` writes pages."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING

from minitorch2.foundation.notebook import in_notebook, table

if TYPE_CHECKING:
    from minitorch2.bytecode.observe.explain import Explanation


def part(explanation: Explanation) -> str:
    """Return the explanation for a notebook: not a page of its own."""
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
