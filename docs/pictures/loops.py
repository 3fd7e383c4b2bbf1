"""Pictures of the parts on loops, kernels and GPUs."""

import re
import sys
from collections.abc import Callable, Iterator

import torch

import minitorch2
from docs.drawing import Picture
from minitorch2 import stages
from minitorch2.codegen.arena import Interval, plan_arena
from minitorch2.native.table import TABLE


def compiled_texts(function: Callable[..., object], *inputs: torch.Tensor) -> stages.StageLog:
    """What the stages report of a call."""
    with stages.collect() as log:
        minitorch2.compile(function)(*inputs)
    return log


def loads(log: stages.StageLog) -> list[tuple[str, str]]:
    """The buffer and the index of each load of the loop IR."""
    return re.findall(r"ops\.load\('(\w+)', (.*?)\)\n", log.texts("loopir.py")[0])


def index_map() -> Picture:
    """A loop nest as a map from its indices to addresses, for a transposed operand."""
    log = compiled_texts(lambda x: x.t().contiguous() + 1, torch.randn(3, 4))
    ((name, index),) = loads(log)
    picture = Picture("A loop nest as an index map: each turn reads one address")
    picture.text(16, 24, f"turn (i0, i1) reads {name}[{index}]", "title")
    kinds = ("one", "two", "three")
    memory = [[(str(4 * i + j), kinds[i]) for j in range(4)] for i in range(3)]
    picture.text(16, 50, "memory of x, 3 x 4", "note")
    picture.grid(16, 60, memory)
    turns = [[eval(index, {"i0": i, "i1": j}) for j in range(3)] for i in range(4)]
    picture.text(240, 50, "address that each turn reads", "note")
    picture.grid(240, 60, [[(str(place), kinds[place // 4]) for place in row] for row in turns])
    picture.text(225, 78, "i0", "note", "end")
    picture.text(274, 172, "i1", "note")
    picture.arrow(158, 96, 220, 96)
    return picture


def fusion() -> Picture:
    """Two loops whose turns meet, and the mirror image, in which they do not."""
    picture = Picture("A fusion that is legal, and its mirror image, which is not")
    programs = (
        ("legal", straight),
        ("illegal", mirrored),
    )
    for number, (title, program) in enumerate(programs):
        log = compiled_texts(program, torch.randn(8))
        x = 16 + 350 * number
        index = next(where for name, where in loads(log) if name == "buf0")
        picture.text(x, 24, f"{title}: the second loop reads buf0[{index}]", "title")
        picture.grid(x, 40, [[(str(i), "") for i in range(8)]])
        picture.text(x + 280, 56, "writes", "note")
        picture.grid(x, 120, [[(str(i), "") for i in range(8)]])
        picture.text(x + 280, 136, "reads", "note")
        for i in range(8):
            read = eval(index, {"i0": i})
            kind = "over" if read > i else ""
            picture.arrow(x + 34 * i + 17, 120, x + 34 * read + 17, 65, kind)
        kernels = log.counts["kernels"]
        picture.text(x, 166, f"{kernels} kernel{'s' * (kernels > 1)}", "note")
    picture.text(366, 184, "red: a turn of one loop would read what is not written yet", "note")
    return picture


def straight(x):
    y = x.exp() + 1
    return y, y.sin()


def mirrored(x):
    y = x.exp() + 1
    return y, y.flip(0).sin()


def threads() -> Picture:
    """The iterations of a launch, shared by threads as the launcher shares them."""
    n = 200_000
    log = compiled_texts(lambda x: torch.sin(x) * 2, torch.randn(n))
    (grain,) = map(int, re.findall(r"grain=(\d+)", log.texts("wrapper.py")[0]))
    picture = Picture("A launch, split over threads: each calls the entry with its own range")
    picture.text(
        16, 24, f"{n:,} iterations, grain {grain:,}: at most {n // grain} threads", "title"
    )
    for line, count in enumerate((1, 2, 4, 8)):
        of = min(n // grain, count)
        y = 38 + 30 * line
        picture.text(16, y + 15, f"{count} thread{'s' * (count > 1)}", "note")
        for t in range(of):
            low, high = n * t // of, n * (t + 1) // of
            picture.rect(100 + low * 560 / n, y, (high - low) * 560 / n - 2, 22, "kept")
            if of <= 4:
                picture.text(104 + low * 560 / n, y + 15, f"{low:,}")
    return picture


def arena() -> Picture:
    """Lives of buffers as bars over kernels, and their places in the arena."""
    buffers = (
        Interval("a", 4096, 0, 1), Interval("b", 2048, 1, 2), Interval("c", 4096, 2, 4),
        Interval("d", 1024, 3, 5), Interval("e", 3072, 5, 6),
    )  # fmt: skip
    plan = plan_arena(buffers)
    picture = Picture("A memory plan: kernels from left to right, bytes from top to bottom")
    picture.text(16, 24, f"{plan.bytes:,} bytes instead of {plan.bytes_without_reuse:,}", "title")
    kinds = ("one", "two", "three", "four", "good")
    for kernel in range(7):
        picture.text(110 + 70 * kernel, 46, f"kernel {kernel}", "note", "middle")
    for each, kind in zip(buffers, kinds, strict=True):
        top = 56 + plan.offsets[each.name] / 40
        left = 76 + 70 * each.start
        picture.rect(left, top, 70 * (each.end - each.start + 1) - 3, each.bytes / 40 - 2, kind)
        picture.text(left + 8, top + 17, f"{each.name}: {each.bytes:,}")
    picture.text(70, 66, "0", "note", "end")
    picture.text(70, 56 + plan.bytes / 40, f"{plan.bytes:,}", "note", "end")
    return picture


LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "aot_numpy", "numba")
ROOMS = {
    "capture": "/bytecode/",
    "autograd": "/autograd/joint",
    "loops": "/loopir/lower",
    "kernels": "/codegen/numba",
}


def files_that_run(backend: str) -> str:
    """The files whose functions run while a program is compiled and called, as one text."""
    seen = set[str]()
    fast = minitorch2.compile(lambda x: x.sin() * 2, backend=backend)
    sys.setprofile(lambda frame, *_: seen.add(frame.f_code.co_filename))
    try:
        fast(torch.ones(4, requires_grad=True))
    finally:
        sys.setprofile(None)
    return " ".join(seen)


def ladder() -> Picture:
    """Which layers run under each backend of the ladder, as a profiler sees them."""
    picture = Picture("The ladder of backends: each rung adds a layer")
    for column, title in enumerate(ROOMS):
        picture.text(270 + 100 * column, 24, title, "title", "middle")
    for number, backend in enumerate(LADDER):
        files, y = files_that_run(backend), 36 + 32 * number
        picture.text(210, y + 17, backend, "", "end")
        for column, room in enumerate(ROOMS.values()):
            picture.rect(222 + 100 * column, y, 96, 26, "good" if room in files else "again")
    picture.text(
        16,
        216,
        "green: this layer has run. Right with one, wrong with the next: the new layer is guilty",
        "note",
    )
    return picture


def private_things() -> Picture:
    """How many private things of each project are needed, and how many can be missing."""
    picture = Picture("Private things of other projects, by rows of the table")
    picture.text(16, 24, "rows of the table", "title")
    projects = list(dict.fromkeys(row.of for row in TABLE))
    rows = []
    for project in projects:
        needed = sum(row.needed for row in TABLE if row.of == project)
        every = sum(row.of == project for row in TABLE)
        rows.append((project, needed, every))
    picture.bars(16, 38, [(p, 0, n, "bad", "") for p, n, _ in rows], 26)
    picture.bars(16, 38, [("", n, e, "good", f"{n} needed of {e}") for _, n, e in rows], 26)
    picture.text(
        16,
        40 + 24 * len(rows) + 14,
        "red: nothing works without; green: slower, or one feature less",
        "note",
    )
    return picture


def programs() -> Picture:
    """A vector in blocks: programs, lanes, and the mask of the last one."""
    n, block = 22, 8
    count = -(-n // block)
    picture = Picture("A grid of programs: each has a block of lanes, the last one a mask")
    picture.text(16, 24, f"{n} elements, BLOCK = {block}: {count} programs", "title")
    for program in range(count):
        offsets = [program * block + lane for lane in range(block)]
        picture.text(16, 54 + 38 * program, f"program {program}", "note")
        row = [(str(o), "kept" if o < n else "again") for o in offsets]
        picture.grid(96, 38 + 38 * program, [row])
    picture.text(
        16,
        38 + 38 * count + 14,
        "dashed: offset < n is false, so nothing is loaded or stored",
        "note",
    )
    return picture


def reductions() -> Picture:
    """A row that fits into a block, and one that is visited in pieces."""
    picture = Picture("A persistent reduction and a looped one")
    for number, (title, length, block, passes) in enumerate(
        (
            ("persistent: the row fits into RBLOCK = 8", 8, 8, 1),
            ("looped: RBLOCK = 8, the row has 20", 20, 8, 2),
        )
    ):
        y = 16 + 110 * number
        picture.text(16, y + 12, title, "title")
        for turn in range(passes):
            for start in range(0, length, block):
                kind = ("one", "two", "three")[start // block]
                row = [("", kind if i < length else "again") for i in range(start, start + block)]
                picture.grid(16 + 20 * start + 6 * (start // block), y + 24 + 30 * turn, [row], 20)
            what = (
                "max and sum" if passes > 1 else "max, sum, quotients: read once",
                "divide: read again",
            )[turn]
            picture.text(16 + 20 * 26, y + 40 + 30 * turn, what, "note")
    return picture


def tile_of(program: int, rows: int, columns: int, group: int) -> tuple[int, int]:
    """The tile of a program, by the first lines of the template's kernel."""
    first = program // (group * columns) * group
    height = min(rows - first, group)
    return first + program % height, program % (group * columns) // height


def tiles() -> Picture:
    """The tiles of a product, in the order of programs; groups share columns."""
    rows, columns, group = 6, 5, 3
    order = {tile_of(n, rows, columns, group): n for n in range(rows * columns)}
    picture = Picture("Tiles of a product: programs of a group share the columns that they read")
    picture.text(16, 24, "left operand", "note")
    picture.grid(16, 34, [[("", "one" if r < group else "")] for r in range(rows)], 60, 28)
    picture.text(110, 24, "result: which program computes which tile", "note")
    for r in range(rows):
        cells = [
            (
                str(order[r, c]),
                "one" if r < group and c == 0 else "two" if r < group and c == 1 else "",
            )
            for c in range(columns)
        ]
        picture.grid(110, 34 + 28 * r, [cells], 44, 28)
    picture.text(
        110, 222, "blue, then yellow: columns that 3 programs in a row read together", "note"
    )
    return picture


def clocks(host: float, kernels: list[float]) -> Iterator[tuple[float, float]]:
    """When each kernel runs: no earlier than requested, one after the other."""
    requested = done = 0.0
    for kernel in kernels:
        requested += host
        start = max(done, requested)
        done = start + kernel
        yield start, done


def recordings() -> Picture:
    """Launches one by one, and the same launches replayed."""
    kernels = [3.0, 2.0, 4.0, 2.0, 3.0]
    picture = Picture("Launches that the host requests one by one, and a recording of them")
    for number, (title, host, first) in enumerate(
        (("one by one", 8.0, 8.0), ("replayed", 0.0, 9.0))
    ):
        y = 16 + 104 * number
        picture.text(16, y + 12, title, "title")
        picture.text(16, y + 42, "host", "note")
        picture.text(16, y + 72, "GPU", "note")
        requests = [(i * host, (i + 1) * host) for i in range(5)] if host else [(0.0, first)]
        for start, end in requests:
            picture.rect(80 + 12 * start, y + 26, 12 * (end - start) - 2, 22)
        shift = 0.0 if host else first
        for start, end in clocks(host, kernels):
            picture.rect(80 + 12 * (start + shift), y + 56, 12 * (end - start) - 1, 22, "kept")
        picture.text(88 + 12 * (end + shift), y + 72, f"{end + shift:g} microseconds", "note")
    picture.text(
        16,
        222,
        "a host that needs 8 microseconds for a launch, and 9 for a replay of any length",
        "note",
    )
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "layers/index_map.svg": index_map,
    "layers/fusion.svg": fusion,
    "layers/threads.svg": threads,
    "layers/arena.svg": arena,
    "layers/ladder.svg": ladder,
    "native.svg": private_things,
    "gpu/programs.svg": programs,
    "gpu/reductions.svg": reductions,
    "gpu/tiles.svg": tiles,
    "gpu/recordings.svg": recordings,
}
