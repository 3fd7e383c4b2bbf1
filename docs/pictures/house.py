"""Pictures of the parts on trust and on the finale: mutants, decisions, kernels, floors."""

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

import minitorch2
from docs.drawing import Picture, layers
from examples.compiler import Entry
from tests.mutants.mutants import MUTANTS

SOURCE = Path(minitorch2.__file__).parent
ROOMS = (
    "native",
    "graph",
    "bytecode",
    "autograd",
    "loopir",
    "codegen",
    "backends",
    "lazy",
    "script",
    "api",
)


def mutants() -> Picture:
    """How many bugs are planted in each layer."""
    counts = Counter(mutant.layer for mutant in MUTANTS)
    picture = Picture("Planted bugs, by layer: each must be found by a property test")
    picture.text(16, 24, f"{len(MUTANTS)} planted bugs", "title")
    rows = [(layer, 0.0, float(count), "bad", str(count)) for layer, count in counts.most_common()]
    picture.bars(16, 38, rows, 500 / max(counts.values()), label=190)
    return picture


def blocks(x, times):
    for _ in range(times):
        x = torch.relu(x + 1)
        print(end="")
    return x


def continuations() -> Picture:
    """Turns of a loop with a break in each, and the graphs that serve them."""
    served: list[int] = []

    def backend(graph, _):
        number = backend.made = getattr(backend, "made", 0) + 1
        return lambda *inputs: served.append(number) or graph(*inputs)

    minitorch2.compile(blocks, backend=backend)(torch.ones(2), 6)
    picture = Picture("A graph break in each turn: the continuation is made once")
    picture.text(16, 24, "six turns of a loop, each with a break", "title")
    kinds = ("", "one", "two", "three")
    for turn, number in enumerate(served):
        picture.middle(70 + 120 * turn, 62, [f"turn {turn}", f"graph {number}"], kinds[number], 90)
        if turn:
            picture.arrow(70 + 120 * turn - 74, 62, 70 + 120 * turn - 47, 62)
    picture.text(
        16,
        104,
        f"{len(set(served))} graphs: what follows a place of your function is compiled once",
        "note",
    )
    return picture


def softmax(x):
    return torch.softmax(x + 1, -1)


def kernels() -> Picture:
    """The loops of a softmax, apart and fused, by the compiler in 300 lines."""
    picture = Picture("A softmax by the compiler in 300 lines: kernels apart, and fused")
    for column, fuse in enumerate((False, True)):
        texts = Entry(softmax, (torch.ones(4, 8),), fuse=fuse).forward.texts
        x, y = 16 + 320 * column, 36.0
        picture.text(
            x,
            24,
            f"{'fused' if fuse else 'apart'}: {len(texts)} kernel{'s' * (len(texts) > 1)}",
            "title",
        )
        for text in texts:
            loops = [line for line in text.splitlines() if line.strip().startswith(("for", "buf"))]
            _, height = picture.box(x, y, [line[:36] for line in loops], "kept", 290)
            y += height + 10
    return picture


def imports_of(room: str) -> set[str]:
    """The rooms from which the files of a room import when they are loaded."""
    found = set[str]()
    for path in (SOURCE / room).rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minitorch2."):
                found.add(node.module.split(".")[1])
    return (found & set(ROOMS)) - {room}


def floors() -> Picture:
    """The rooms on their floors: each imports from floors below only."""
    below = {room: imports_of(room) for room in ROOMS}
    edges = [(other, room) for room, others in below.items() for other in others]
    floor = layers(ROOMS, edges)
    picture = Picture("The floors of the house: a room imports from floors below only")
    highest, used = max(floor.values()), Counter[int]()
    for room in sorted(ROOMS, key=lambda room: floor[room]):
        x = 140 + 190 * used[floor[room]]
        y = 40 + 46 * (highest - floor[room])
        used[floor[room]] += 1
        nearest = sorted(each for each in below[room] if floor[each] == floor[room] - 1)
        picture.middle(
            x + 80,
            y,
            [room, f"on {', '.join(nearest)}" if nearest else "on PyTorch"][:2],
            "kept",
            170,
        )
    for number in range(highest + 1):
        picture.text(16, 44 + 46 * (highest - number), f"floor {number}", "note")
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "testing.svg": mutants,
    "decisions.svg": continuations,
    "finale.svg": kernels,
    "map.svg": floors,
}
