"""Pictures of the parts on capture and sizes: frames, values, guards, breaks, graphs."""

import dis
import re
from collections.abc import Callable
from pathlib import Path

import torch

import minitorch2
from docs.drawing import Picture
from minitorch2 import stages
from minitorch2.bytecode.dispatch import dispatcher_of
from minitorch2.bytecode.evaluation.capture import FrameCapture
from minitorch2.bytecode.evaluation.frame_evaluator import FrameEvaluator
from minitorch2.bytecode.trackers.frame import Frame
from minitorch2.graph import Node

DOCS = Path(__file__).parents[1]


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def strides() -> Picture:
    """A matrix and its transposition on one memory."""
    picture = Picture("A matrix and its transposition: two grids of indices on one memory")
    matrix = torch.arange(6.0).reshape(2, 3)
    kinds = ("one", "two")
    memory = [(f"{value:g}", kinds[place // 3]) for place, value in enumerate(matrix.flatten())]
    picture.text(16, 24, "memory, place by place", "title")
    picture.grid(16, 34, [memory])
    for name, view, x in (("matrix", matrix, 16), ("matrix.T", matrix.T, 210)):
        picture.text(x, 100, name, "title")
        picture.text(x, 118, f"strides {tuple(view.stride())}", "note")
        rows = [[(f"{value:g}", kinds[int(value) // 3]) for value in row] for row in view]
        picture.grid(x, 128, rows)
    return picture


def outcomes() -> Picture:
    """The table of the chapter, as colours: its output block is compared with a run."""
    page = (DOCS / "hard.md").read_text(encoding="utf-8")
    table = re.search(r"```output\n( +trace .*?)```", page, re.S)
    head, *rows = table[1].strip("\n").splitlines()
    picture = Picture("Ten programs, five ways to capture them")
    kinds = {"right": "good", "WRONG": "bad", "refused": "two"}
    for column, way in enumerate(head.split()):
        picture.text(190 + 84 * column + 42, 24, way, "title", "middle")
    for number, row in enumerate(rows):
        name, *found = row.split()
        picture.text(180, 50 + 26 * number, name, "", "end")
        picture.grid(190, 34 + 26 * number, [[(word, kinds[word]) for word in found]], 84, 24)
    return picture


def captured(function: Callable[..., object], *inputs: object) -> list[list[Node]]:
    """The nodes of each graph that a call of a function becomes."""
    graphs: list[list[Node]] = []

    def backend(graph, _):
        graphs.append([*graph.graph.nodes])
        return graph

    minitorch2.compile(function, backend=backend)(*inputs)
    return graphs


def graph() -> Picture:
    """The first graph of the toy example: nodes, and who reads whom."""
    (nodes, *_) = captured(toy_example, torch.ones(10), torch.ones(10))
    picture = Picture("A captured graph: placeholders, operators, the output")
    kinds = {"placeholder": "kept", "output": "again"}
    boxes, edges = {}, []
    for node in nodes:
        what = node.target if isinstance(node.target, str) else node.target.__name__
        short = [node.name, f"{node.op.removeprefix('call_')} {what}"]
        boxes[node.name] = (
            short if node.op.startswith("call") else short[:1],
            kinds.get(node.op, ""),
        )
        edges += [(used.name, node.name) for used in node.all_input_nodes]
    picture.text(16, 24, "call_function and call_method compute; arrows say who reads", "note")
    picture.graph(16, 40, boxes, edges)
    return picture


def parts() -> Picture:
    """The toy example in parts: a graph, a branch that Python takes, two continuations."""
    graphs = [captured(toy_example, torch.ones(10), sign * torch.ones(10)) for sign in (1, -1)]
    code = [
        [f"{n.name} = {getattr(n.target, '__name__', n.target)}" for n in nodes if "call" in n.op]
        for nodes in (graphs[0][0], graphs[0][1], graphs[1][1])
    ]
    picture = Picture("A graph break: Python takes the branch, each way has a graph of its own")
    width, _ = picture.panel(16, 12, "graph 0", code[0])
    picture.arrow(16 + width, 80, 16 + width + 36, 80)
    x = 16 + width + 44
    picture.panel(
        x, 42, "residual code", ["if lt:", "    resume, 1st way", "else:", "    resume, 2nd way"]
    )
    picture.arrow(x + 166, 70, x + 204, 50)
    picture.arrow(x + 166, 120, x + 204, 140)
    picture.panel(x + 210, 12, "graph of b < 0", code[2], "kept")
    picture.panel(x + 210, 100, "graph of b >= 0", code[1], "kept")
    return picture


def area(width, height):
    return (width + height) * 2


def frame() -> Picture:
    """A frame and its stack, an instruction a column."""
    picture = Picture("A frame: variables, the instruction that runs, and the stack")
    picture.text(16, 24, "area(3, 4)   variables: width = 3, height = 4", "title")
    evaluator = FrameEvaluator(FrameCapture(Frame(area, {"width": 3, "height": 4})), {})
    x = 16
    while True:
        step = evaluator.next_instruction
        if step.opname == "RETURN_VALUE":
            break
        evaluator.step()
        if step.opname in ("RESUME", "CACHE"):
            continue
        shown = str(step.argval)
        picture.text(x + 54, 52, step.opname, "", "middle")
        picture.text(x + 54, 68, shown, "note", "middle")
        for height, value in enumerate(evaluator.stack):
            known = value.as_constant()
            picture.rect(x + 24, 154 - 28 * height, 60, 24, "kept")
            picture.text(x + 54, 170 - 28 * height, str(known), "", "middle")
        picture.line(x + 18, 182, x + 90, 182)
        x += 112
    picture.text(
        16, 200, "the stack after each instruction; values are pushed and popped at the top", "note"
    )
    return picture


def counter():
    count = 0

    def add():
        nonlocal count
        count += 1

    def read():
        return count

    return add, read


def cell() -> Picture:
    """Two functions that share a cell."""
    functions = counter()
    functions[0]()
    (shared,) = {id(each.__closure__[0]): each.__closure__[0] for each in functions}.values()
    picture = Picture("Two closures and the cell that they share")
    for number, function in enumerate(functions):
        names = ", ".join(function.__code__.co_freevars)
        code = function.__code__
        lines = [f"code    {code.co_name}", f"reads   {names}", "closure -->"]
        picture.panel(16, 16 + 96 * number, f"function {code.co_name}", lines, width=150)
        picture.arrow(166, 78 + 96 * number, 236, 112 if number == 0 else 128)
    picture.panel(240, 80, "cell", [f"cell_contents = {shared.cell_contents}"], "kept")
    picture.text(240, 150, "add has run once; read sees it", "note")
    return picture


SETTINGS = {"scale": 2.0}


def predict(x, factor):
    return x * factor * SETTINGS["scale"]


def guards() -> Picture:
    """The guards of a function as checks on paths, in the order in which they run."""
    fast = minitorch2.compile(predict, backend="eager")
    fast(torch.ones(2, 3), 3)
    found = dispatcher_of(fast).cache.compiled[0].guards
    picture = Picture("A guard program: checks in a row, the first that fails ends it")
    y = 20.0
    for guard in found.guards:
        checks = [f"{check.op.name:8} {check.what}" for check in guard.checks()]
        if not guard.user_line:
            continue
        picture.text(16, y + 17, str(guard))
        _, height = picture.box(300, y, checks, "kept", 260)
        picture.arrow(560, y + height / 2, 616, y + height / 2, "over")
        picture.text(622, y + height / 2 + 4, "next entry, or compile", "note")
        picture.arrow(430, y + height, 430, y + height + 12)
        y += height + 14
    picture.middle(430, y + 14, ["run the graph"], "good", 260)
    picture.text(16, y + 18, "all hold", "note")
    picture.reach(0, y + 30)
    return picture


def jump() -> Picture:
    """Where the continuations of the toy example begin, in its bytecode."""
    with stages.collect() as log:
        minitorch2.compile(toy_example, backend="eager")(torch.ones(10), torch.ones(10))
    resumed = sorted(
        {int(offset) for offset in re.findall(r"__resume_at_(\d+)_", log.texts("residual.py")[0])}
    )
    steps = [
        step for step in dis.get_instructions(toy_example) if step.opname not in ("CACHE", "RESUME")
    ]
    split = next(i for i, step in enumerate(steps) if step.opname.startswith("POP_JUMP"))
    picture = Picture("Continuations: the same instructions, entered in the middle")
    picture.text(16, 24, "toy_example", "title")
    half = [steps[: split + 1], steps[split + 1 :]]
    lines = [[f"{step.offset:4} {step.opname} {step.argrepr}" for step in part] for part in half]
    picture.box(16, 34, [lines[0][0], "     ...", *lines[0][-4:]], width=320)
    picture.text(346, 52, "graph 0 computes this", "note")
    picture.text(346, 128, "Python takes the branch", "note")
    top = 34 + 16 * 6 + 26
    for number, line in enumerate(lines[1]):
        offset = half[1][number].offset
        y = top + 20 * number
        picture.rect(16, y, 320, 19, "kept" if offset in resumed else "")
        picture.text(24, y + 14, line)
        if offset in resumed:
            picture.text(410, y + 14, f"__resume_at_{offset} begins here")
            picture.arrow(406, y + 9, 340, y + 9, "over")
    return picture


def sizes() -> Picture:
    """Which graph serves which length, and where each was compiled."""
    served: list[int] = []

    def backend(graph, _):
        number = backend.made = getattr(backend, "made", 0) + 1
        return lambda *inputs: served.append(number) or graph(*inputs)

    def program(x):
        return x * 2 if x.shape[0] > 8 else x + x

    fast = minitorch2.compile(program, backend=backend)
    calls = (5, 6, 12, 1, *range(2, 16))
    for length in calls:
        fast(torch.ones(length))
    picture = Picture("One program at many lengths: which graph serves which")
    kinds = ("one", "two", "three", "four", "good")
    picture.text(16, 24, "x * 2 if x.shape[0] > 8 else x + x", "title")
    picture.text(16, 54, "length", "note")
    picture.text(16, 78, "graph", "note")
    rows = [[(str(each), "") for each in calls], [(str(n), kinds[n - 1]) for n in served]]
    picture.grid(76, 38, rows, 32)
    picture.text(
        16,
        110,
        "a number appears where its graph was compiled; equal colours are one graph",
        "note",
    )
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "strides.svg": strides,
    "hard.svg": outcomes,
    "layers/graph.svg": graph,
    "layers/bytecode.svg": parts,
    "capture/frame.svg": frame,
    "capture/cell.svg": cell,
    "capture/guards.svg": guards,
    "capture/jump.svg": jump,
    "sizes.svg": sizes,
}
