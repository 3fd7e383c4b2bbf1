"""Pictures of the part on four captures: tries, trees, blocks, memory, bailouts, archives."""

import io
import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

import minitorch2
from docs.drawing import Picture
from minitorch2 import jit, lazy
from minitorch2.config import patch
from minitorch2.lazy.step import TRIE
from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Block, Value
from minitorch2.script.syntax.parser import parse_expression
from minitorch2.script.syntax.source import SourceFile
from minitorch2.script.syntax.tree import s_expression

DOCS = Path(__file__).parents[1]


def trie() -> Picture:
    """The trie after four steps, two of which are equal."""
    lazy.reset()
    with patch(backend="eager"):
        for name in ("sin", "cos", "sin", "sin"):
            with minitorch2.lazily(eager_first=False):
                x = torch.ones(2) * 2 + 1
                getattr(torch, name)(x)
                if name == "cos":
                    x.exp()
    places = [place for place in TRIE.places() if place.parent is not None]
    boxes, edges = {}, []
    for place in places:
        ends = [f"{place.seen} step{'s' * (place.seen > 1)} ended here"] if place.seen else []
        name = str(place.func).removesuffix(".default")
        boxes[str(id(place))] = ([name, *ends], "good" if place.seen else "")
        if place.parent in places:
            edges.append((str(id(place.parent)), str(id(place))))
    picture = Picture("The trie of lazy steps: equal beginnings share their places")
    picture.text(16, 24, "four steps: two endings in sin, one in cos and exp", "note")
    picture.graph(16, 36, boxes, edges, width=150)
    lazy.reset()
    return picture


def doublings(x: torch.Tensor, limit: int) -> int:
    count = 0
    while bool(x.sum() < limit):
        x = x * 2
        count += 1
    return count


def first_even(numbers: list[int]) -> int:
    for number in numbers:
        if number % 2 == 0:
            return number
    return -1


class Blocks:
    """Draws a graph as blocks inside of each other; constants stand where they are read."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.names: dict[Value, str] = {}

    def name(self, value: Value) -> str:
        """The value's name, or the next number; that of a constant is what it holds."""
        if value.node.kind == "prim::Constant":
            held = value.node.attributes.get("value")
            return "max" if held == 2**63 - 1 else str(held)
        if value not in self.names:
            plain = value.name or f"%{len(self.names)}"
            same = sum(name.partition(".")[0] == plain for name in self.names.values())
            self.names[value] = f"{plain}.{same}" if same else plain
        return self.names[value]

    def joined(self, values: Iterable[Value]) -> str:
        """The names of values."""
        return ", ".join(map(self.name, values))

    def draw(self, block: Block, x: float, y: float) -> float:
        """Draw a block with the blocks inside of it; return the height."""
        picture, top, place = self.picture, y, len(self.picture.lines)
        y += 8
        if block.inputs:
            picture.text(x + 8, y + 12, f"({self.joined(block.inputs)})", "note")
            y += 20
        for node in block.nodes:
            if node.kind == "prim::Constant":
                continue
            kind = node.kind.rpartition("::")[2]
            inner = self.joined(node.inputs)
            picture.text(x + 8, y + 12, f"{self.joined(node.outputs)} = {kind}({inner})")
            y += 20
            for each in node.blocks:
                y += self.draw(each, x + 24, y) + 6
        picture.text(x + 8, y + 12, f"-> ({self.joined(block.outputs)})", "note")
        y += 22
        drawn, picture.lines[place:] = picture.lines[place:], []
        picture.rect(x, top, 380 - 2 * (x - 16), y - top, "group" if x > 16 else "")
        picture.lines += drawn
        return y - top


def blocks_of(function: Callable[..., object], title: str) -> Picture:
    """The graph of a scripted function as nested blocks."""
    picture = Picture(title)
    graph = jit.script(function).graph
    picture.text(16, 24, graph.name, "title")
    Blocks(picture).draw(graph.block, 16, 34)
    return picture


def blocks() -> Picture:
    """A loop as a node with a block that carries values."""
    return blocks_of(doublings, "Blocks of a script graph: a loop carries its values")


def exits() -> Picture:
    """A return inside of a loop, as flags and values."""
    return blocks_of(first_even, "An exit out of a loop, as values of the blocks")


def tree() -> Picture:
    """The tree of an expression, by the parser of the front end."""
    text = "z.sigmoid() - (x + y) * 2"
    tokens = re.findall(r"[()]|[^\s()]+", s_expression(parse_expression(SourceFile(text, "f.py"))))
    boxes, edges, stack = {}, [], []
    for place, token in enumerate(tokens):
        if token == ")":
            stack.pop()
        elif token != "(":
            boxes[str(place)] = ([token], "kept" if tokens[place - 1] != "(" else "")
            if stack and tokens[place - 1] != "(":
                edges.append((stack[-1], str(place)))
            elif stack[:-1] or tokens[place - 1] == "(":
                edges += [(stack[-1], str(place))] if stack else []
            if tokens[place - 1] == "(":
                stack.append(str(place))
    picture = Picture("The tree of an expression: what binds tighter stands deeper")
    picture.text(16, 24, text, "title")
    picture.graph(16, 36, boxes, edges, width=84, down=46)
    return picture


def program(a: torch.Tensor):
    base = a.clone()
    first = base[0]
    column = base[:, 1]
    twice = base * 2
    first.add_(1)
    return twice, column


def memory() -> Picture:
    """Which values of a graph may be the same memory, by the analysis."""
    graph = jit.script(program).graph
    aliases = AliasDb(graph)
    values = [
        v
        for node in graph.nodes()
        for v in node.outputs
        if v.name in ("base", "first", "column", "twice")
    ]
    picture = Picture("Who shares memory: values, and the locations that they may be")
    locations = []
    for number, value in enumerate(values):
        y = 44 + 44 * number
        picture.middle(80, y, [value.name], "bad" if aliases.has_writers(value) else "", 120)
        place = next(
            (i for i, other in enumerate(locations) if aliases.may_alias(value, other)),
            len(locations),
        )
        if place == len(locations):
            locations.append(value)
        picture.arrow(142, y, 236, 66 + 90 * place)
    for place in range(len(locations)):
        picture.middle(300, 66 + 90 * place, [f"memory {place}"], "kept", 120)
    picture.text(
        16,
        44 + 44 * len(values),
        "red: a node writes to this memory, so nothing that reads it may move over the write",
        "note",
    )
    return picture


def gate(x: torch.Tensor, w: torch.Tensor):
    return torch.sigmoid(x @ w) * torch.tanh(x)


def bailout() -> Picture:
    """A plan with its guards, and the rest of the program that a failed guard runs."""
    scripted = jit.script(gate)
    x, w = torch.ones(2, 3), torch.eye(3)
    for _ in range(3):
        scripted(x, w)
    lines = [line.partition(" # ")[0] for line in str(scripted.graph_for(x, w)).splitlines()]
    split = next(i for i, line in enumerate(lines) if line.startswith("with prim::bailout"))
    end = next(
        (i for i, line in enumerate(lines[split + 1 :], split + 1) if line.startswith("with")), None
    )
    short = [line if len(line) < 62 else line[:59] + "..." for line in lines]
    picture = Picture("A bailout: a guard that fails runs the rest of the program")
    _, height = picture.panel(16, 12, "plan", short[:split], width=470)
    rest = short[split:end]
    picture.panel(16, 60 + height, "the rest, unoptimized", rest, "again", 470)
    picture.curve(f"M486 66 h 60 V {100 + height} h -58", "over")
    picture.text(556, 70, "another size", "note")
    return picture


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.tanh(self.layer(x))


def archive() -> Picture:
    """The entries of an archive, with their sizes.

    A type whose name was taken by then has a number in its name: the picture leaves that out.
    """
    file = io.BytesIO()
    jit.save(jit.script(Model()), file)
    entries = [
        (
            re.sub(r"/___minitorch2_mangle_\d+", "", info.filename.partition("/")[2]),
            info.file_size,
        )
        for info in zipfile.ZipFile(file).infolist()
    ]
    picture = Picture("An archive: attributes, memory of tensors, code as text")
    picture.text(16, 24, "entries of the zip file", "title")
    kinds = {"data/": "kept", "code/": "good"}
    what = {
        "data/": "memory of a tensor",
        "code/": "the program, as text",
        "data.pkl": "attributes",
    }
    for number, (name, size) in enumerate(entries):
        y = 36 + 32 * number
        start = next((each for each in what if name.startswith(each)), "")
        shown = name if len(name) < 40 else "..." + name[-37:]
        picture.rect(16, y, 320, 26, kinds.get(start, ""))
        picture.text(24, y + 17, shown)
        picture.text(
            348,
            y + 17,
            f"{what.get(start, '')}{', ' * bool(start)}{size} bytes"
            if start.startswith("data/")
            else what.get(start, ""),
            "note",
        )
    return picture


def unsound() -> Picture:
    """The table of planted functions, as colours: its output block is compared with a run."""
    page = (DOCS / "layers/captures.md").read_text(encoding="utf-8")
    table = re.search(r"```output\n(branch_on_data .*?)```", page, re.S)[1].strip().splitlines()
    picture = Picture("Planted unsound functions: traces of ours, and of torch.jit")
    picture.text(320, 24, "minitorch2.jit.trace", "title", "middle")
    picture.text(560, 24, "torch.jit.trace", "title", "middle")
    kinds = {"right": "good", "refused": "two", "SILENTLY": "bad"}
    for number, line in enumerate(table):
        name, *cells = re.split(r" {2,}", line)
        y = 36 + 24 * number
        picture.text(205, y + 14, name, "", "end")
        for column, cell in enumerate(cells):
            counts = re.findall(r"(\d+) (\w+)", cell) or [("15", cell.partition(":")[0])]
            x = 215.0 + 240 * column
            total = sum(int(count) for count, _ in counts)
            for count, word in counts:
                width = 220 * int(count) / total
                picture.rect(x, y, width - 1, 19, kinds[word])
                x += width
    y = 36 + 24 * len(table) + 16
    for number, (word, kind) in enumerate(
        (("right", "good"), ("refused", "two"), ("silently wrong", "bad"))
    ):
        picture.rect(215 + 160 * number, y - 10, 14, 14, kind)
        picture.text(235 + 160 * number, y + 2, word, "note")
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "layers/trie.svg": trie,
    "layers/blocks.svg": blocks,
    "script/tree.svg": tree,
    "script/exits.svg": exits,
    "script/memory.svg": memory,
    "script/bailout.svg": bailout,
    "script/archive.svg": archive,
    "layers/captures.svg": unsound,
}
