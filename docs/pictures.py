"""Pictures of pages, drawn from real objects: `python -m docs.pictures` writes them.

`road.svg` shows texts that the layers report for the toy example. `gradients/cut.svg` is the stage
`cut.dot` of a function, laid out in layers. Colours follow the reader's choice of light or dark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import torch

import minitorch2
from minitorch2 import stages

DOCS = Path(__file__).parent
STYLE = """<style>
text { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px; fill: #0f172a }
.title { font-family: system-ui, Helvetica, Arial, sans-serif; font-size: 15px; font-weight: 700 }
.note { font-family: system-ui, Helvetica, Arial, sans-serif; fill: #475569 }
rect { fill: #f1f5f9; stroke: #475569 } .kept { fill: #bfdbfe } .again { stroke-dasharray: 5 3 }
.group { fill: none; stroke: #94a3b8 } .back { fill: #ffffff; stroke: none }
line, path { stroke: #475569; fill: none; stroke-width: 1.4; marker-end: url(#a) }
.over { stroke: #b91c1c; stroke-width: 2.5 } #a path { fill: #475569; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e2e8f0 } .note { fill: #94a3b8 } .back { fill: #0f172a }
  rect { fill: #1e293b; stroke: #94a3b8 } .kept { fill: #1e40af } .group { fill: none }
  line, path { stroke: #94a3b8 } .over { stroke: #f87171 } #a path { fill: #94a3b8 }
}
</style>
<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
orient="auto"><path d="M0 0L10 5L0 10z"/></marker></defs>
"""


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def svg(width: int, height: int, title: str, lines: Sequence[str]) -> str:
    """A picture of this size on its background."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    back = f'<rect class="back" width="{width}" height="{height}" rx="12"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE + back, *lines, "</svg>", ""])


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text; `kind` is a class of the style."""
    shown = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text {shown} class="{kind}" xml:space="preserve">{escape(content)}</text>'


def road() -> str:
    """The stages of the toy example, with lines that the layers have reported."""
    with stages.collect() as log:
        a = torch.ones(1000, requires_grad=True)
        minitorch2.compile(toy_example)(a, torch.ones(1000)).sum().backward()
    graph = re.findall(r"^call_\w+ +(\w+) +(\S+)", log.texts("captured_graph")[0], re.M)
    aten = [
        re.findall(r"^    (\w+) = torch", log.texts(name)[0], re.M)
        for name in ("forward graph.py", "backward graph.py")
    ]
    again = [name for name in aten[1] if name in aten[0]]
    body = re.findall(r"^    (tmp\d = .*)", log.texts("loopir.py")[0], re.M)[:4]
    kernel = re.findall(r"^        ((?:tmp|out_ptr).*)", log.texts("wrapper.py")[0], re.M)[:4]
    columns = (
        ("Python", "your function", [
            "def toy_example(a, b):", "  x = a / (abs(a) + 1)", "  if b.sum() < 0:",
            "    b = b * -1", "  return x * b"]),
        ("bytecode", "a frame becomes a graph", [f"{name}: {what}" for name, what in graph]),
        ("autograd", "one joint graph, cut in two", [
            f"forward: {len(aten[0])} operators", f"backward: {len(aten[1])} operators",
            "computed again:", f"  {', '.join(again)}"]),
        ("loopir", "values as functions of an index", body),
        ("codegen", "a kernel", ["for i0 in range(lo, hi):", *("  " + line for line in kernel)]),
    )  # fmt: skip
    lines = [text(660, 30, "Every layer interprets the layer above", "title", "middle")]
    for number, (title, note, shown) in enumerate(columns):
        x = 15 + number * 262
        lines.append(f'<rect x="{x}" y="50" width="242" height="165" rx="10"/>')
        lines += [text(x + 121, 74, title, "title", "middle")]
        lines += [text(x + 121, 93, note, "note", "middle")]
        short = [each if len(each) < 32 else each[:29] + "..." for each in shown]
        lines += [text(x + 10, 120 + 20 * i, each) for i, each in enumerate(short)]
        if number:
            lines.append(f'<line x1="{x - 19}" y1="132" x2="{x - 2}" y2="132"/>')
    lines.append('<path class="over" d="M398 217 v 34 H 136 v -32"/>')
    count = log.counts["graph_breaks"]
    lines.append(
        text(146, 268, f"{count} graph break: Python takes the branch, then capture goes on")
    )
    return svg(1330, 285, "The road: a function becomes a graph, two graphs, loops, kernels", lines)


def layers_of(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The layer of each node: one below the deepest node that it reads."""
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for start, end in edges:
            depth[end] = max(depth[end], depth[start] + 1)
    return depth


def places(
    nodes: Mapping[str, str], edges: Sequence[tuple[str, str]], left: int
) -> Iterator[tuple[str, tuple[int, int]]]:
    """The middle of each node's box, a row a layer."""
    depth, used = layers_of([*nodes], edges), dict[int, int]()
    for node in nodes:
        column = used.setdefault(depth[node], 0)
        used[depth[node]] += 1
        yield node, (left + 70 + 150 * column, 90 + 62 * depth[node])


def cut() -> str:
    """The cut of `sin(sin(x))`: saved values are filled, what is computed again is dashed."""
    with stages.collect() as log:
        fast = minitorch2.compile(
            lambda x: x.sin().sin(), backend="aot_eager_decomp_partition"
        )  # fmt: skip
        fast(torch.ones(1000, requires_grad=True))
    dot = log.texts("cut.dot")[0]
    nodes = dict(re.findall(r"^ +(\w+) \[label=(.*)\];$", dot, re.M))
    inner = re.findall(r"^ +(\w+) -> (\w+);$", dot, re.M)
    over = re.findall(r'^ +(\w+) -> (\w+) \[label="([^"]*)"', dot, re.M)
    where, lines = dict[str, tuple[int, int]](), list[str]()
    for title, left in (("forward", 20), ("backward", 240)):
        part = {name: label for name, label in nodes.items() if name.startswith(title)}
        where.update(places(part, [edge for edge in inner if edge[0] in part], left))
        bottom, right = max(where[name][1] for name in part), max(where[name][0] for name in part)
        size = f'width="{right - left + 75}" height="{bottom - 15}"'
        lines.append(f'<rect class="group" x="{left - 5}" y="45" {size} rx="10"/>')
        lines.append(text(left + 5, 36, title, "title"))
    for start, end in inner:
        (x, y), (u, v) = where[start], where[end]
        lines.append(f'<line x1="{x}" y1="{y + 20}" x2="{u}" y2="{v - 20}"/>')
    for start, end, label in over:
        (x, y), (u, v) = where[start], where[end]
        lines.append(f'<line class="over" x1="{x + 62}" y1="{y}" x2="{u - 62}" y2="{v}"/>')
        lines.append(text((x + u) / 2, y - 28, label, "note", "middle"))
    for name, label in nodes.items():
        (x, y), shown = where[name], label.partition('"')[2].partition('"')[0].split("\\n")
        kind = "kept" if "filled" in label else "again" if "dashed" in label else ""
        lines.append(
            f'<rect class="{kind}" x="{x - 60}" y="{y - 19}" width="120" height="38" rx="6"/>'
        )
        lines += [text(x, y - 3 + 15 * i, each, "", "middle") for i, each in enumerate(shown)]
    width = max(x for x, _ in where.values()) + 85
    height = max(y for _, y in where.values()) + 45
    return svg(width, height, "The cut of sin(sin(x)): x is saved, sin is computed again", lines)


PICTURES = {"road.svg": road, "gradients/cut.svg": cut}


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (DOCS / name).write_text(draw(), encoding="utf-8")
