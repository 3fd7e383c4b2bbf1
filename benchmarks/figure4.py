"""The paper's figure 4: how many models have at least which speedup over eager, as an SVG."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from benchmarks.compilers import EAGER
from benchmarks.measure import Result

WIDTH, HEIGHT, MARGIN = 380, 300, 48
COLORS = ("#d9480f", "#1864ab", "#2b8a3e", "#862e9c", "#e67700", "#0b7285", "#c2255c", "#495057")
TICKS = (0.25, 0.5, 1, 2, 4, 8, 16)
STYLE = """
.paper { fill: #ffffff } .ink { fill: #333333 } .grid { stroke: #dddddd }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0f172a } .ink { fill: #e2e8f0 } .grid { stroke: #334155 }
  polyline[stroke], text[fill] { filter: brightness(1.6) }
}
"""


def figure(results: Sequence[Result]) -> str:
    """A panel for each mode: what a case's name ends with, after a comma."""
    modes = sorted({result.case.rpartition(", ")[2] for result in results})
    panels = [
        panel(mode, [r for r in results if r.case.endswith(f", {mode}")], i * WIDTH)
        for i, mode in enumerate(modes)
    ]
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    paper = f'<style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>'
    body = "\n".join(["<title>How speedups over eager are distributed</title>", paper, *panels])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{body}\n</svg>\n'


def panel(title: str, results: Sequence[Result], left: float) -> str:
    """The distribution of each compiler's speedups; the axis of speedups is logarithmic."""
    names = [name for name in results[0].seconds if name != EAGER]
    speedups = {name: sorted(r.speedup(name) for r in results) for name in names}
    ticks = _ticks([value for values in speedups.values() for value in values])
    low, high = math.log(ticks[0]), math.log(ticks[-1])

    def place(speedup: float, share: float) -> tuple[float, float]:
        x = MARGIN + (math.log(speedup) - low) / (high - low) * (WIDTH - 2 * MARGIN)
        return x, HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)

    lines = [_text(WIDTH / 2, 20, f"{title} ({len(results)} models)")]
    lines.append(_text(WIDTH / 2, HEIGHT - 8, "speedup over eager"))
    for tick in ticks:
        lines += [_line([place(tick, 0), place(tick, 1)])]
        lines.append(_text(place(tick, 0)[0], HEIGHT - MARGIN + 16, f"{tick:g}x"))
    for share in (0, 0.5, 1):
        lines += [_line([place(ticks[0], share), place(ticks[-1], share)])]
        lines.append(_text(MARGIN - 18, place(ticks[0], share)[1] + 4, f"{share:.0%}"))
    for i, (name, color) in enumerate(zip(names, COLORS, strict=False)):
        lines.append(_line([place(*corner) for corner in steps(speedups[name])], color, 2))
        lines.append(_text(WIDTH - MARGIN - 50, HEIGHT - MARGIN - 30 + 14 * i, name, color))
    return f'<g transform="translate({left} 0)">\n' + "\n".join(lines) + "\n</g>"


def steps(values: Sequence[float]) -> list[tuple[float, float]]:
    """The corners of the cumulative distribution of sorted values."""
    corners = []
    for i, value in enumerate(values):
        corners += [(value, i / len(values)), (value, (i + 1) / len(values))]
    return corners


def _ticks(values: Iterable[float]) -> list[float]:
    """Round speedups around all values, 1 among them."""
    low, high = min(*values, 0.99), max(*values, 1.01)
    first = max((i for i, tick in enumerate(TICKS) if tick <= low), default=0)
    last = min((i for i, tick in enumerate(TICKS) if tick >= high), default=len(TICKS) - 1)
    return list(TICKS[first : last + 1])


def _line(points: Sequence[tuple[float, float]], color: str = "", width: int = 1) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    stroke = f'stroke="{color}"' if color else 'class="grid"'
    return f'<polyline points="{path}" fill="none" {stroke} stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, color: str = "") -> str:
    fill = f'fill="{color}"' if color else 'class="ink"'
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle" {fill}'
    return f"<text {place}>{escape(text)}</text>"
