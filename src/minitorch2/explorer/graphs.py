"""The stages of autograd: the joint graph with its cut, forward, backward, each also drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from minitorch2.autograd.partition import Partition
from minitorch2.autograd.recompute import saved_bytes
from minitorch2.autograd.runtime import LazilyCompiled
from minitorch2.explorer.making import INPUT, JOINT, PART, Making, named_line
from minitorch2.explorer.store import Box, Drawing, Pane, Row
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.printer import type_text

Origins = Callable[[Node], tuple[str, ...]]
Marks = dict[str, str]


def node_rows(
    making: Making,
    kind: str,
    text: str,
    graph: Graph,
    origins: Origins,
    marks: Marks | None = None,
) -> Iterator[Row]:
    """Yield the lines of a printed graph; the printer writes one line a node, in their order.

    Placeholders stand in the head of the function; they have rows of their own here.
    """
    marks = marks or {}
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    rest = iter(node for node in graph.nodes if node.op not in ("placeholder", "output"))
    node = next(rest, None)
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("def forward("):
            yield Row(line)
            for each in inputs:
                shown = f"    # {each.name}: {type_text(each.meta.get('val'))}"
                yield Row(shown, f"{kind}:{each.name}", origins(each), marks.get(each.name, ""))
        elif node is not None and line.startswith(f"    {node.name} = "):
            yield Row(line, f"{kind}:{node.name}", origins(node), marks.get(node.name, ""))
            node = next(rest, None)
        else:
            yield Row(line, "", named_line(making, line))


def drawing_of(
    kind: str,
    graph: Graph,
    marks: Marks | None = None,
    behind: Collection[str] = (),
    crossing: dict[str, str] | None = None,
    cut: str = "",
) -> Drawing:
    """Return a graph as boxes and edges, without its output.

    Args:
        behind: names of the nodes behind the cut.
        crossing: labels of edges over the cut, by the name of the saved node.
        cut: what the cut costs.
    """
    nodes = [node for node in graph.nodes if node.op != "output"]
    places = {node: i for i, node in enumerate(nodes)}
    boxes = tuple(
        Box(
            f"{kind}:{node.name}",
            node.name,
            f"{_operator(node)} {type_text(node.meta.get('val'))}".strip(),
            (marks or {}).get(node.name, ""),
            int(node.name in behind),
        )
        for node in nodes
    )
    edges = tuple(
        (places[used], place, _label(used, node, behind, crossing or {}))
        for node, place in places.items()
        for used in node.all_input_nodes
    )
    return Drawing(boxes, edges, cut)


def _label(used: Node, node: Node, behind: Collection[str], crossing: dict[str, str]) -> str:
    is_over = node.name in behind and used.name not in behind
    return crossing.get(used.name, "") if is_over else ""


def _operator(node: Node) -> str:
    if not node.op.startswith("call"):
        return node.op
    return str(getattr(node.target, "__name__", node.target)).removesuffix(".default")


def show_joint(making: Making, text: str, module: GraphModule) -> None:
    """Show the joint graph; the cut, once it is made, marks its nodes."""
    inputs = [row.key for row in _captured_inputs(making)]
    for number, node in enumerate(module.graph.nodes):
        node.meta[JOINT] = node.name
        if number < len(inputs) and inputs[number] == f"graph:{node.name}":
            node.meta[INPUT] = inputs[number]
    making.joint = text, module
    rows = node_rows(making, "joint", text, module.graph, _captured_origins(making))
    making.show(Pane("joint", "joint graph", tuple(rows), drawing_of("joint", module.graph)))


def _captured_inputs(making: Making) -> Iterator[Row]:
    """Yield the rows of the captured graph's inputs, which come first in every later graph."""
    pane = making.compilation.pane("graph")
    for row in pane.rows if pane else ():
        if row.key and row.text.startswith("    # "):
            yield row


def _captured_origins(making: Making) -> Origins:
    def origins(node: Node) -> tuple[str, ...]:
        given = node.meta.get(INPUT)
        return making.origins_of(node, *([given] if given else []))

    return origins


def show_part(making: Making, text: str, module: GraphModule, part: str, title: str) -> None:
    """Show a forward or a backward graph."""
    if making.joint is None:
        inputs = [row.key for row in _captured_inputs(making)]
        for key, node in zip(inputs, module.graph.placeholders):
            if key == f"graph:{node.name}":
                node.meta[INPUT] = key
    for node in module.graph.nodes:
        node.meta[PART] = part

    def origins(node: Node) -> tuple[str, ...]:
        given = node.meta.get(INPUT, "")
        return making.origins_of(node, f"joint:{node.meta.get(JOINT)}", given)

    rows = node_rows(making, part, text, module.graph, origins)
    making.show(Pane(part, title, tuple(rows), drawing_of(part, module.graph)))


def show_cut(making: Making, text: str, subject: tuple[Partition, LazilyCompiled]) -> None:
    """Mark in the joint graph which values are saved, and which are computed again."""
    del text
    parts, making.backward = subject
    if making.joint is None:
        return
    joint_text, module = making.joint
    forward, backward = _joint_names(parts.forward), _joint_names(parts.backward)
    saved = {node.name: f"{saved_bytes(node):,.0f} bytes" for node in parts.saved_nodes}
    again = (forward & backward) - saved.keys()
    marks = dict.fromkeys(backward - forward, "backward") | dict.fromkeys(again, "recomputed")
    marks |= dict.fromkeys(saved, "saved")
    total = sum(saved_bytes(node) for node in parts.saved_nodes)
    cut = f"{len(saved)} values saved, {total:,.0f} bytes; {len(again)} computed again"
    rows = node_rows(making, "joint", joint_text, module.graph, _captured_origins(making), marks)
    drawing = drawing_of("joint", module.graph, marks, backward - forward, saved, cut)
    making.show(Pane("joint", f"joint graph: {cut}", tuple(rows), drawing))
    making.joint = None


def _joint_names(module: GraphModule) -> set[str]:
    names = (node.meta.get(JOINT) for node in module.graph.nodes)
    return {name for name in names if name is not None}
