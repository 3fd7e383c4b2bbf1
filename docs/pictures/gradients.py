"""Pictures of the part on gradients: the road, the joint graph, the cut, views and storages."""

import re
from collections.abc import Callable

import torch

import minitorch2
from docs.drawing import Picture
from docs.pictures.capture import toy_example
from minitorch2 import stages
from minitorch2.autograd import DECOMPOSITIONS, min_cut_partition, trace_program
from minitorch2.autograd.recompute import price
from minitorch2.graph import Graph, GraphModule


def road() -> Picture:
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
    picture = Picture("The road: a function becomes a graph, two graphs, loops, kernels")
    picture.text(370, 24, "Every layer interprets the layer above", "title", "middle")
    places = ((14, 40), (258, 40), (502, 40), (502, 256), (258, 256))
    for (x, y), (title, note, shown) in zip(places, columns, strict=True):
        picture.rect(x, y, 226, 165)
        picture.text(x + 113, y + 24, title, "title", "middle")
        picture.text(x + 113, y + 43, note, "note", "middle")
        for i, line in enumerate(shown):
            picture.text(x + 10, y + 70 + 20 * i, line if len(line) < 29 else line[:25] + "...")
    picture.arrow(240, 122, 257, 122)
    picture.arrow(484, 122, 501, 122)
    picture.arrow(615, 205, 615, 255)
    picture.arrow(502, 338, 485, 338)
    picture.curve("M371 205 v 26 H 127 v -24", "over")
    count = log.counts["graph_breaks"]
    for i, line in enumerate(
        (f"{count} graph break:", "Python takes the branch,", "then capture goes on")
    ):
        picture.text(14, 280 + 20 * i, line)
    return picture


def chain_of_sines(names: tuple[str, ...] = ("sin", "sin", "exp")) -> tuple[object, object]:
    """The joint graph of `exp(sin(sin(x)))`, and its partition by the minimum cut."""
    graph = Graph()
    value = graph.placeholder("x")
    for name in names:
        value = graph.call_method(name, (value,))
    graph.output((value,))
    x = torch.randn(1000, requires_grad=True)
    joint = trace_program(GraphModule(graph), [x], DECOMPOSITIONS, differentiate=True)
    return joint, min_cut_partition(joint)


def network() -> Picture:
    """The joint graph with the price of keeping each value of forward."""
    joint, partition = chain_of_sines()
    saved = {node.name for node in partition.saved_nodes}
    forward = {node.name for node in partition.forward.graph.nodes}
    picture = Picture("A joint graph: prices of keeping values, and what the cut keeps")
    boxes, edges = {}, []
    for node in joint.module.graph.nodes:
        if node.op == "output":
            continue
        is_forward = node.name in forward
        kind = "good" if node.name in saved else "" if is_forward else "two"
        held = node.op == "placeholder" or node.name == "exp"
        cost = f"{price(node, held, ()):,.0f}" if is_forward else "backward"
        boxes[node.name] = ([node.name, cost], kind)
        edges += [(used.name, node.name) for used in node.all_input_nodes]
    picture.text(16, 24, "exp(sin(sin(x))) of 1,000 floats", "title")
    picture.text(16, 42, "green: kept; the number is the price; yellow: backward", "note")
    picture.graph(16, 54, boxes, edges, width=120)
    return picture


def tape() -> Picture:
    """Operators of forward, and those of backward beside the ones whose derivative they are."""
    with stages.collect() as log:
        fast = minitorch2.compile(
            lambda x: (x.sin() * x).exp(), backend="aot_eager_decomp_partition"
        )
        fast(torch.ones(4, requires_grad=True))
    lines = re.findall(
        r"^    (\w+) = torch\.ops\.aten\.(\w+)\S*\((.*?)\)", log.texts("joint graph.py")[0], re.M
    )
    derived = {name for name, _, arguments in lines if "tangent" in arguments}
    for name, _, arguments in lines:
        if derived & set(re.findall(r"\w+", arguments)):
            derived.add(name)
    first = next(i for i, line in enumerate(lines) if line[0] in derived or line[1] == "cos")
    picture = Picture("The joint graph of exp(sin(x) * x): forward down, backward up")
    picture.text(16, 24, "forward", "title")
    picture.text(300, 24, "backward", "title")
    parts = lines[:first], lines[first:]
    rows = max(map(len, parts))
    for column, part in enumerate(parts):
        x = 16 + 284 * column
        for number, (name, operator, arguments) in enumerate(part):
            y = 36 + 44 * (number if column == 0 else rows - 1 - number)
            picture.box(x, y, [f"{name} = {operator}({arguments})"], "kept" if column else "", 250)
            if number:
                ends = (y - 18, y) if column == 0 else (y + 44, y + 27)
                picture.arrow(x + 125, *ends[:1], x + 125, ends[1])
    picture.arrow(266, 36 + 44 * (len(parts[0]) - 1) + 13, 298, 36 + 44 * (rows - 1) + 13, "over")
    return picture


def cut() -> Picture:
    """The cut of `sin(sin(x))`: saved values are filled, what is computed again is dashed."""
    with stages.collect() as log:
        fast = minitorch2.compile(lambda x: x.sin().sin(), backend="aot_eager_decomp_partition")
        fast(torch.ones(1000, requires_grad=True))
    dot = log.texts("cut.dot")[0]
    labels = dict(re.findall(r"^ +(\w+) \[label=(.*)\];$", dot, re.M))
    inner = re.findall(r"^ +(\w+) -> (\w+);$", dot, re.M)
    over = re.findall(r'^ +(\w+) -> (\w+) \[label="([^"]*)"', dot, re.M)
    picture = Picture("The cut of sin(sin(x)): x is saved, sin is computed again")
    where = {}
    for title, left in (("forward", 24), ("backward", 250)):
        picture.text(left, 30, title, "title")
        part = {
            name: (label.partition('"')[2].partition('"')[0].split("\\n"),
                   "kept" if "filled" in label else "again" if "dashed" in label else "")
            for name, label in labels.items() if name.startswith(title)
        }  # fmt: skip
        where |= picture.graph(left, 48, part, [edge for edge in inner if edge[0] in part], 130)
    for start, end, label in over:
        (x, y), (u, v) = where[start], where[end]
        picture.arrow(x + 66, y, u - 66, v, "over")
        picture.text((x + u) / 2, y - 12, label, "note", "middle")
    return picture


def storages() -> Picture:
    """One write through a view: the storage before and after, and what each view reads."""
    table = torch.zeros(2, 3)
    row, column = table[0], table[:, 1]
    places = {
        name: {view.storage_offset() + i * view.stride(0) for i in range(len(view))}
        for name, view in (("row", row), ("column", column))
    }
    before = table.flatten().tolist()
    row.add_(1)
    picture = Picture("Views of one storage: a write through one is read through the other")
    for number, (title, values) in enumerate(
        (("before", before), ("after row.add_(1)", table.flatten().tolist()))
    ):
        y = 16 + 130 * number
        picture.text(16, y + 12, title, "title")
        picture.grid(110, y + 24, [[(f"{v:g}", "kept" if v else "") for v in values]])
        picture.text(16, y + 41, "storage", "note")
        for line, (name, reached) in enumerate(places.items()):
            picture.text(16, y + 66 + 24 * line, name, "note")
            for place in reached:
                picture.rect(110 + 34 * place + 4, y + 56 + 24 * line, 26, 12, ("one", "two")[line])
    picture.text(
        16, 276, "the new value of the storage is select_scatter(table, row + 1, 0, 0)", "note"
    )
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "road.svg": road,
    "layers/autograd.svg": network,
    "gradients/joint.svg": tape,
    "gradients/cut.svg": cut,
    "gradients/storages.svg": storages,
}
