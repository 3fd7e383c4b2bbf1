"""Drawing of pictures as SVG: boxes, arrows, bars, grids and graphs, on a page that grows.

    picture ::= Picture(title), on which one draws; `str` is the SVG
    kind    ::= "" | "kept" | "again" | "group" | "good" | "bad" | "one" | "two" | "three" | "four"
                colours that the reader's choice of light or dark decides

Positions are pixels from the upper left corner. A box lies around its middle if it has a place in a
graph, and else begins at its corner.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

LETTER = 7.3  # pixels of a letter of 12 pixels
STYLE = """<style>
text { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px; fill: #0f172a }
.title { font-family: system-ui, Helvetica, Arial, sans-serif; font-size: 14px; font-weight: 700 }
.note { font-family: system-ui, Helvetica, Arial, sans-serif; fill: #475569 }
rect { fill: #f1f5f9; stroke: #475569 } .kept { fill: #bfdbfe } .again { stroke-dasharray: 5 3 }
.good { fill: #bbf7d0 } .bad { fill: #fecaca } .one { fill: #bfdbfe } .two { fill: #fde68a }
.three { fill: #ddd6fe } .four { fill: #fbcfe8 } .group { fill: none; stroke: #94a3b8 }
.back { fill: #ffffff; stroke: none }
line, path { stroke: #475569; fill: none; stroke-width: 1.4 } .arrow { marker-end: url(#a) }
.over { stroke: #b91c1c; stroke-width: 2.5 } .dashed { stroke-dasharray: 5 3 }
#a path { fill: #475569; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e2e8f0 } .note { fill: #94a3b8 } .back { fill: #0f172a }
  rect { fill: #1e293b; stroke: #94a3b8 } .kept, .one { fill: #1e40af } .two { fill: #854d0e }
  .three { fill: #5b21b6 } .four { fill: #9d174d } .good { fill: #166534 } .bad { fill: #991b1b }
  .group { fill: none } .back { fill: #0f172a; stroke: none }
  line, path { stroke: #94a3b8 } .over { stroke: #f87171 } #a path { fill: #94a3b8 }
}
</style>
<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
orient="auto"><path d="M0 0L10 5L0 10z"/></marker></defs>
"""


class Picture:
    """A drawing that is as large as what is drawn on it, with a margin."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.lines: list[str] = []
        self.width = self.height = 0.0

    def reach(self, x: float, y: float) -> None:
        """Let the page be at least so large."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(self, x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> None:
        """Write a line of text; `kind` may be "title" or "note", `anchor` "middle" or "end"."""
        place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
        self.lines.append(
            f'<text {place} class="{kind}" xml:space="preserve">{escape(content)}</text>'
        )
        length = len(content) * LETTER * (1.05 if kind == "title" else 0.9 if kind else 1)
        self.reach(x + length * {"start": 1, "middle": 0.5, "end": 0}[anchor], y + 4)

    def rect(self, x: float, y: float, width: float, height: float, kind: str = "") -> None:
        """Draw a rectangle from its corner."""
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        radius = min(6.0, height / 4)
        self.lines.append(f'<rect class="{kind}" {size} rx="{radius:g}"/>')
        self.reach(x + width, y + height)

    def box(
        self, x: float, y: float, lines: Sequence[str], kind: str = "", width: float = 0
    ) -> tuple[float, float]:
        """Draw lines of text in a box from its corner; return the width and height."""
        width = width or max(map(len, lines), default=0) * LETTER + 16
        height = 16.0 * len(lines) + 10
        self.rect(x, y, width, height, kind)
        for number, line in enumerate(lines):
            self.text(x + 8, y + 17 + 16 * number, line)
        return width, height

    def panel(
        self, x: float, y: float, title: str, lines: Sequence[str], kind: str = "", width: float = 0
    ) -> tuple[float, float]:
        """Draw a box under a title; return the width and height of both."""
        self.text(x, y + 12, title, "title")
        size = self.box(x, y + 20, lines, kind, width)
        return size[0], size[1] + 20

    def middle(self, x: float, y: float, lines: Sequence[str], kind: str, width: float) -> None:
        """Draw a box around its middle, with lines in the middle."""
        height = 15 * len(lines) + 8
        self.rect(x - width / 2, y - height / 2, width, height, kind)
        for number, line in enumerate(lines):
            self.text(x, y - height / 2 + 15 + 15 * number, line, "", "middle")

    def arrow(self, x: float, y: float, u: float, v: float, kind: str = "") -> None:
        """Draw an arrow from the first point to the second."""
        ends = f'x1="{x:g}" y1="{y:g}" x2="{u:g}" y2="{v:g}"'
        self.lines.append(f'<line class="arrow {kind}" {ends}/>')

    def line(self, x: float, y: float, u: float, v: float, kind: str = "") -> None:
        """Draw a line without a head."""
        self.lines.append(f'<line class="{kind}" x1="{x:g}" y1="{y:g}" x2="{u:g}" y2="{v:g}"/>')

    def curve(self, path: str, kind: str = "") -> None:
        """Draw an arrow along a path of SVG."""
        self.lines.append(f'<path class="arrow {kind}" d="{path}"/>')

    def grid(
        self,
        x: float,
        y: float,
        rows: Sequence[Sequence[tuple[str, str]]],
        width: float = 34,
        height: float = 24,
    ) -> None:
        """Draw cells of a text and a kind, row by row."""
        for i, row in enumerate(rows):
            for j, (content, kind) in enumerate(row):
                self.rect(x + width * j, y + height * i, width, height, kind)
                at = x + width * (j + 0.5), y + height * (i + 0.5) + 4
                self.text(*at, content, "", "middle")

    def bars(
        self,
        x: float,
        y: float,
        rows: Iterable[tuple[str, float, float, str, str]],
        scale: float,
        label: float = 90,
    ) -> None:
        """Draw bars: each row is a label, a start, an end, a kind, and a text behind the bar."""
        for number, (name, start, end, kind, behind) in enumerate(rows):
            top = y + 24 * number
            self.text(x + label - 8, top + 14, name, "", "end")
            self.rect(x + label + start * scale, top, max((end - start) * scale, 1), 18, kind)
            self.text(x + label + end * scale + 6, top + 14, behind, "note")

    def graph(
        self,
        x: float,
        y: float,
        nodes: Mapping[str, tuple[Sequence[str], str]],
        edges: Iterable[tuple[str, str]],
        width: float = 0,
        down: float = 62,
    ) -> dict[str, tuple[float, float]]:
        """Draw nodes in layers, each below all that it reads; return their middles."""
        edges = list(edges)
        longest = max(len(line) for lines, _ in nodes.values() for line in lines)
        width = width or longest * LETTER + 16
        where = {
            name: (x + width / 2 + (width + 24) * column, y + 22 + down * layer)
            for name, (column, layer) in _columns([*nodes], edges).items()
        }
        for start, end in edges:
            (a, b), (c, d) = where[start], where[end]
            half = 7.5 * len(nodes[start][0]) + 4, 7.5 * len(nodes[end][0]) + 4
            self.arrow(a, b + half[0], c, d - half[1])
        for name, (lines, kind) in nodes.items():
            self.middle(*where[name], lines, kind, width)
        return where

    def __str__(self) -> str:
        """Return the SVG."""
        width, height = round(self.width) + 16, round(self.height) + 14
        view = f'viewBox="0 0 {width} {height}" width="{width}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img">'
        back = f'<rect class="back" width="{width}" height="{height}" rx="12"/>'
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title, STYLE + back, *self.lines, "</svg>", ""])


def layers(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the layer of each node: one below the deepest node that it reads."""
    edges, depth = list(edges), dict.fromkeys(nodes, 0)
    for _ in nodes:
        for start, end in edges:
            depth[end] = max(depth[end], depth[start] + 1)
    return depth


def _columns(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]]
) -> dict[str, tuple[float, int]]:
    """Return a column and a layer for each node; layers with few nodes stand in the middle."""
    depth, used = layers(nodes, edges), dict[int, int]()
    places = dict[str, tuple[float, int]]()
    for node in nodes:
        places[node] = used.setdefault(depth[node], 0), depth[node]
        used[depth[node]] += 1
    widest = max(used.values())
    return {n: (c + (widest - used[layer]) / 2, layer) for n, (c, layer) in places.items()}
