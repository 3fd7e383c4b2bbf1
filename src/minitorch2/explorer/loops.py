"""The stages of lowering and code generation: loop IR, the schedule, kernels, the wrapper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from minitorch2.codegen.common import user_lines
from minitorch2.codegen.wrapper import WrapperModule
from minitorch2.explorer.fusion import fusion_of, members
from minitorch2.explorer.making import PART, Making, named_line
from minitorch2.explorer.store import Box, Drawing, Fusion, Pane, Row
from minitorch2.loopir.buffers import Buffer, ComputedBuffer
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import Capabilities, KernelNode, Schedule, bodies, kernels_in

SCORE = "score: (same category, producer and consumer, bytes saved, minus the distance)"
"""The meaning of a fusion's score, above the scheduler's log."""


def show_loops(making: Making, text: str, lowered: LoweredGraph) -> None:
    """Show the loop nests before fusion; each buffer comes from the nodes that it computes."""
    making.part = _part_of(making, lowered)
    buffers = [*(b for b in lowered.inputs if isinstance(b, Buffer)), *lowered.buffers]
    rows = tuple(_buffer_rows(making, text, buffers))
    making.show(Pane(f"ir {making.part}", f"loop IR, {making.part}", rows))


def _part_of(making: Making, lowered: LoweredGraph) -> str:
    """Return the graph that is lowered; inner graphs, which blocks share, have numbers."""
    found = (node for buffer in lowered.buffers for node in buffer.origins)
    part: str | None = next((node.meta[PART] for node in found if PART in node.meta), None)
    if part is None:
        making.blocks += 1
    return part or f"block {making.blocks}"


def _buffer_rows(making: Making, text: str, buffers: list[Buffer]) -> Iterator[Row]:
    """Yield the lines; the printer writes the buffers in order, each from a line of its own on."""
    rest, current, key = iter(buffers), None, ""
    after = next(rest, None)
    for line in text.rstrip("\n").split("\n"):
        if after is not None and line.startswith(_first_line(after)):
            current, after = after, next(rest, None)
            key = f"ir {making.part}:{current.name}"
            yield Row(line, key, _origins(making, current))
        elif current is None or line.startswith("return ("):
            yield Row(line)
        else:
            yield Row(line, "", (key,) if line.strip() else ())


def _first_line(buffer: Buffer) -> tuple[str, str]:
    is_loop = isinstance(buffer, ComputedBuffer)
    name = f"def inner_fn_{buffer.name}(" if is_loop else f"{buffer.name} = "
    symbols = [f"{symbol} = " for symbol in buffer.symbols]
    return name, symbols[0] if symbols and not is_loop else name


def _origins(making: Making, buffer: Buffer) -> tuple[str, ...]:
    found: list[str] = []
    for node in buffer.origins:
        found += making.origins_of(node, f"{making.part}:{node.name}")
    return tuple(dict.fromkeys(found))


def show_schedule(making: Making, text: str, subject: tuple[Schedule, Capabilities]) -> None:
    """Show the kernels and calls in order, then what the scheduler tried, with its reasons."""
    del text
    plan, _ = subject
    making.plan, part = plan, making.part
    fusion = fusion_of(plan)
    rows = [
        Row(
            f"{node.kind} {node.name}" + (f"   loops {node.loops}" if node.loops else ""),
            f"fusion {part}:{node.name}",
            making.origins((f"ir {part}:{name}" for name in node.members), None),
        )
        for node in fusion.nodes
    ]
    removed = ", ".join(sorted(plan.removed)) or "none"
    facts = [f"buffers that need no memory: {removed}"]
    facts += [f"{new} takes over the memory of {old}" for new, old in plan.inplace.items()]
    tried = [Row(str(each), "", _of_names(making, each.first, each.second)) for each in plan.log]
    joined = [Row(str(each)) for each in plan.launches]
    legend = Row(SCORE) if tried else Row("nothing to fuse")
    shown = (*rows, Row(""), *map(Row, facts), Row(""), legend, *tried, *joined)
    drawing = _drawing(making, fusion)
    making.show(Pane(f"fusion {part}", f"fusion, {part}", shown, drawing, fusion))


def _of_names(making: Making, *names: str) -> tuple[str, ...]:
    """Return the buffers of nodes, which are named by them, as origins."""
    buffers = sorted(frozenset().union(*map(members, names)))
    return making.origins((f"ir {making.part}:{name}" for name in buffers), None)


def _drawing(making: Making, fusion: Fusion) -> Drawing:
    maker = {name: i for i, node in enumerate(fusion.nodes) for name in node.members}
    boxes = tuple(
        Box(f"fusion {making.part}:{n.name}", n.name, f"{n.kind} {n.loops}".strip(), n.kind)
        for n in fusion.nodes
    )
    edges = dict.fromkeys(
        (maker[name], i, name)
        for i, node in enumerate(fusion.nodes)
        for name in node.reads
        if name in maker and maker[name] != i
    )
    return Drawing(boxes, tuple(edges))


def show_wrapper(making: Making, text: str, module: WrapperModule) -> None:
    """Show each kernel once, and the function that calls them."""
    plan, part = making.plan, making.part
    if plan is None:
        return
    nodes = {node.name: node for node in plan.nodes}
    kernels: dict[str, tuple[str, list[tuple[str, KernelNode]]]] = {}
    for name, launch in module.launches.items():
        for kernel, node in zip(launch.kernels, kernels_in(nodes[name])):
            _, uses = kernels.setdefault(kernel.source.key(), (kernel.source.text, []))
            uses.append((name, node))
    rows = [
        row
        for number, (kernel_text, uses) in enumerate(kernels.values())
        for row in _kernel_rows(making, number, kernel_text, uses)
    ]
    making.show(Pane(f"kernels {part}", f"kernels, {part}", tuple(rows)))
    lines = text.rstrip("\n").split("\n")[-len(module.nodes) - 1 :]
    called = [
        Row(line, "", making.origins([f"fusion {part}:{name}"] if name else [], None))
        for line, name in zip(lines[1:], module.nodes)
    ]
    making.show(Pane(f"wrapper {part}", f"wrapper, {part}", (Row(lines[0]), *called)))
    making.plan = None


def _kernel_rows(
    making: Making, number: int, text: str, uses: list[tuple[str, KernelNode]]
) -> Iterator[Row]:
    """Yield the lines of a kernel, each with the buffers that it computes.

    The printer writes the user's lines as comments in front of what a loop body computes. These
    hold until the next ones, or until the loop ends.
    """
    head, computed = f"kernels {making.part}:{number}", _computed(making, uses)
    names = (f"fusion {making.part}:{name}" for name, _ in uses)
    lines = text.strip("\n").split("\n")
    yield Row(lines[0], head, making.origins(names, None), "head")
    for comments, body in commented(lines[1:]):
        known = computed.get("\n".join(line.lstrip() for line in comments), (head,))
        yield from (Row(line, "", known) for line in (*comments, *body))
    yield Row("")


def commented(lines: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield comments that name lines of the user's, and the lines of code that they hold for.

    They hold until the next comments, or until a line is indented less.
    """
    comments: list[str] = []
    body: list[str] = []
    for line in lines:
        is_comment = line.lstrip().startswith("# File: ")
        if body and (is_comment or (comments and indent(line) < indent(comments[0]))):
            yield comments, body
            comments, body = [], []
        (comments if is_comment else body).append(line)
    yield comments, body


def indent(line: str) -> int:
    """Return the number of spaces in front of a line."""
    return len(line) - len(line.lstrip())


def _computed(making: Making, uses: list[tuple[str, KernelNode]]) -> Mapping[str, tuple[str, ...]]:
    """Return the buffers of loop bodies by the comments that stand in front of them."""
    found: dict[str, list[str]] = {}
    for _, node in uses:
        keys = [f"ir {making.part}:{body.name}" for body in bodies(node)]
        for body, key in zip(bodies(node), keys):
            found.setdefault("\n".join(user_lines(body)), []).append(key)
        found.setdefault("\n".join(user_lines(node)), keys)
    return {text: making.origins(keys, None) for text, keys in found.items()}


def show_program(making: Making, text: str) -> None:
    """Show a program as text: its stages were not made again, or are not recorded.

    A compilation without a function is the later part of one, in which the backward graph is made.
    """
    has_forward = making.compilation.pane("wrapper forward") is not None
    part = "backward" if has_forward or not making.compilation.function else "forward"
    title = f"{part} program"
    rows = tuple(_program_rows(making, text))
    making.show(Pane(f"wrapper {part}", title, rows))


def _program_rows(making: Making, text: str) -> Iterator[Row]:
    for comments, body in commented(text.rstrip("\n").split("\n")):
        keys = tuple(key for line in comments for key in named_line(making, line))
        yield from (Row(line, "", keys) for line in (*comments, *body))
