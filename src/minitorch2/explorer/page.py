"""A store as one file of HTML that needs no other: data, style and scripts are inside.

The data are JSON in an element that the browser does not run. The scripts show texts as text only,
so nothing in the user's program can become markup.
"""

from __future__ import annotations

import html
import json
from importlib import resources

from minitorch2.explorer.store import Store

ASSETS = resources.files("minitorch2.explorer") / "assets"
SCRIPTS = ("provenance.js", "drawing.js", "columns.js", "steps.js", "main.js")
"""The scripts, in the order in which they are joined."""


def page_of(store: Store, title: str = "minitorch2 explorer") -> str:
    """Return the page that shows a store."""
    parts = {
        "title": html.escape(title),
        "style": _asset("page.css"),
        "script": "\n".join(map(_asset, SCRIPTS)),
        "data": as_script_data(store.as_data()),
    }
    page = _asset("page.html")
    for name in ("title", "style", "script", "data"):  # last what holds the user's texts
        page = page.replace("{{" + name + "}}", parts[name])
    return page


def as_script_data(data: object) -> str:
    """Return data as JSON that may stand in a script element: it holds no ``<``."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
