"""`python -m benchmarks script`: scripts beside eager mode and `torch.jit.script`, in one run.

Each row measures one program; the ways take turns, and the ratios are of medians. Before anything
is timed, results and gradients are compared with eager mode. The bars: a program of numbers takes
as Python at most as long as with torch.jit, as machine code at most a twentieth of that; the tensor
programs take at most 0.85 of the time of torch.jit in the geometric mean. A second table counts
what is compiled for sizes that were never seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from benchmarks.cases import same
from minitorch2 import config, jit, stages
from minitorch2.demo.timing import medians, rounds, seconds

ROUNDS: Final = 30
SHORTEST_SAMPLE: Final = 1e-3  # seconds: far above the cost of reading the clock
TENSOR_BAR: Final = 0.85
COMPILATIONS: Final = ("script_plans", "script_regions", "graphs_compiled", "script_bailouts")
"""Counts of `minitorch2.stages` that a size never seen must leave at zero."""


# Programs of numbers ------------------------------------------------------------------------------


def collatz(n: int, limit: int) -> int:
    steps = 0
    while n != 1 and steps < limit:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def primes_below(limit: int) -> int:
    count = 0
    for n in range(2, limit):
        divisor = 2
        while divisor * divisor <= n and n % divisor != 0:
            divisor += 1
        if divisor * divisor > n:
            count += 1
    return count


def square_root(x: float, steps: int) -> float:
    root = x
    for _i in range(steps):
        root = (root + x / root) / 2.0
    return root


def levenshtein_of_lists(a: list[int], b: list[int]) -> int:
    row = [j for j in range(len(b) + 1)]  # noqa: C416  torch.jit has no list(range(n))
    for i in range(len(a)):
        corner = row[0]
        row[0] = i + 1
        for j in range(len(b)):
            changed = corner + (0 if a[i] == b[j] else 1)
            corner = row[j + 1]
            row[j + 1] = min(min(corner, row[j]) + 1, changed)
    return row[len(b)]


def levenshtein_of_strings(a: str, b: str) -> int:
    row = [j for j in range(len(b) + 1)]  # noqa: C416
    for i in range(len(a)):
        corner = row[0]
        row[0] = i + 1
        for j in range(len(b)):
            changed = corner + (0 if a[i] == b[j] else 1)
            corner = row[j + 1]
            row[j + 1] = min(min(corner, row[j]) + 1, changed)
    return row[len(b)]


# Programs of tensors ------------------------------------------------------------------------------


def cell(
    x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor
) -> tuple[Tensor, Tensor]:
    gates = x.mm(w_x.t()) + h.mm(w_h.t()) + b_x + b_h
    entering, kept, candidate, leaving = gates.chunk(4, 1)
    c = torch.sigmoid(kept) * c + torch.sigmoid(entering) * torch.tanh(candidate)
    return torch.sigmoid(leaving) * torch.tanh(c), c


def lstm(
    x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor
) -> tuple[Tensor, Tensor]:
    outputs = []
    for step in range(x.size(0)):
        h, c = cell(x[step], h, c, w_x, w_h, b_x, b_h)
        outputs.append(h)
    return torch.stack(outputs), c


def perceptron(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    hidden = F.gelu(torch.addmm(b1, x, w1))
    return torch.tanh(torch.addmm(b2, hidden, w2)) * 2.0 + 1.0


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) * 0.125
    return torch.matmul(torch.softmax(scores, -1), v)


# What is measured ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A function, and arguments for a size, which may be any positive number."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    size: int = 0
    trains: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether no argument is a tensor."""
        return not any(isinstance(value, Tensor) for value in self.arguments(self.size))

    def inputs(self, size: int) -> tuple[Any, ...]:
        """The arguments; tensors require gradients in training."""
        given = self.arguments(size)
        return given if self.is_scalar else tuple(t.requires_grad_(self.trains) for t in given)

    def call(self, run: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results, and in training the gradients of their sum."""
        result = run(*inputs)
        results = result if isinstance(result, tuple) else (result,)
        if not self.trains:
            return results
        return *results, *torch.autograd.grad(sum(r.sum() for r in results), inputs)


def _random(*sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.randn(size) * 0.3 for size in sizes)


def _weights(hidden: int) -> list[tuple[int, ...]]:
    return [(4 * hidden, 32), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)]


def _layers(hidden: int) -> list[tuple[int, ...]]:
    return [(hidden, 2 * hidden), (2 * hidden,), (2 * hidden, hidden), (hidden,)]


def scalar_programs() -> list[Program]:
    """Programs without tensors; the words are of 60 letters."""
    words = tuple([(i * i * factor) % 26 for i in range(60)] for factor in (3, 5))
    texts = tuple("".join(chr(97 + letter) for letter in word) for word in words)
    return [
        Program("Collatz", collatz, lambda _: (837799, 10_000)),
        Program("primes below 500", primes_below, lambda _: (500,)),
        Program("square root", square_root, lambda _: (2.0, 200)),
        Program("Levenshtein, lists", levenshtein_of_lists, lambda _: words),
        Program("Levenshtein, strings", levenshtein_of_strings, lambda _: texts),
    ]


def tensor_programs() -> Iterator[Program]:
    """Programs of tensors in two sizes, in inference and in training."""
    for batch, hidden in ((4, 64), (64, 256)):
        makers: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Tensor, ...]]]] = {
            f"LSTM cell {batch}x{hidden}": (
                cell, lambda n, h=hidden: _random((n, 32), (n, h), (n, h), *_weights(h))
            ),
            f"MLP {batch}x{hidden}": (
                perceptron, lambda n, h=hidden: _random((n, h), *_layers(h))
            ),
            f"attention {batch}x4x{hidden // 4}": (
                attention, lambda n, h=hidden: _random(*[(n, 4, h // 4, 64)] * 3)
            ),
        }  # fmt: skip
        if batch == 4:
            makers["LSTM, 50 steps, 4x64"] = (
                lstm, lambda n: _random((50, n, 32), (n, 64), (n, 64), *_weights(64))
            )  # fmt: skip
        for name, (function, arguments) in makers.items():
            for trains in (False, True):
                yield Program(name, function, arguments, batch, trains)


# Measuring ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One program, median seconds of a call.

    Attributes:
        note: "training", or how numbers are computed: "Python", "Numba".
        seconds: by way: eager, torch.jit, ours.
        bar: the most that ours over torch.jit may be, where the program has a bar of its own.
        wrong: whether ours computed something else than eager mode.
    """

    program: str
    note: str
    seconds: dict[str, float]
    bar: float | None
    wrong: bool

    def ratio(self, way: str, over: str) -> float:
        """How many times as long one way takes as another."""
        return self.seconds[way] / self.seconds[over]


EAGER, PEER, OURS = "eager", "torch.jit", "ours"


def measure(program: Program, note: str, bar: float | None) -> Row:
    """Compile, compare, and time the three ways in turns."""
    inputs = program.inputs(program.size)
    scripted = jit.script(program.function)
    ways = {EAGER: program.function, PEER: torch.jit.script(program.function), OURS: scripted}
    with config.patch(script_numba=note == "Numba"):
        for _ in range(3):
            for way in ways.values():
                program.call(way, inputs)
        found, expected = program.call(scripted, inputs), program.call(program.function, inputs)
    if note == "Numba" and not _is_machine_code(scripted, inputs):
        note = "Numba takes no lists or strings: Python"
        bar = None
    once = {name: lambda way=way: program.call(way, inputs) for name, way in ways.items()}
    calls = max(1, int(SHORTEST_SAMPLE / max(map(seconds, once.values()))))

    def repeated(run: Callable[[], object]) -> Callable[[], object]:
        return lambda: [run() for _ in range(calls)]

    spent = medians(list(rounds({name: repeated(run) for name, run in once.items()}, ROUNDS)))
    times = {name: total / calls for name, total in spent.items()}
    return Row(program.name, note, times, bar, not _same(found, expected))


def _is_machine_code(scripted: jit.ScriptFunction, inputs: tuple[Any, ...]) -> bool:
    plan = scripted.executor.plan_for(*inputs)
    return plan is not None and hasattr(plan.function, "__wrapped__")


def _same(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    if not isinstance(expected[0], Tensor):
        return found == expected
    return same(found, expected)


@dataclass(frozen=True)
class NewSizes:
    """What one program compiled until its second plan, and at sizes that were never seen."""

    program: str
    note: str
    before: dict[str, int]
    after: dict[str, int]
    of_one: dict[str, int]
    wrong: bool


SIZES: Final = ((5, 5, 8, 3, 4), (6, 7, 9, 12, 16, 21, 30, 33), (1,))
"""The plan for 5 bails out at 8; the run for 3 is watched, and at 4 the second plan is made. A size
of 1 is no symbol: broadcasting tells it from others."""


def measure_new_sizes(program: Program) -> NewSizes:
    """Call until there is a second plan, then at other sizes."""
    scripted, wrong = jit.script(program.function), False
    counted = []
    for sizes in SIZES:
        with stages.collect(texts=False) as log:
            for size in sizes:
                inputs = program.inputs(size)
                expected = program.call(program.function, inputs)
                wrong |= not _same(program.call(scripted, inputs), expected)
        counted.append({name: log.counts[name] for name in COMPILATIONS})
    return NewSizes(program.name, _mode(program), *counted, wrong)


def _mode(program: Program) -> str:
    return "training" if program.trains else "inference"


def rows(only: str) -> Iterator[Row]:
    """Measure each program whose name contains a text."""
    for program in scalar_programs():
        if only in program.name:
            yield measure(program, "Python", 1.0)
            yield measure(program, "Numba", 0.05)
    for program in tensor_programs():
        if only in program.name:
            yield measure(program, _mode(program), None)


# Reporting ----------------------------------------------------------------------------------------


def table(found: list[Row]) -> Table:
    """A line for each program, and the geometric mean of the tensor programs."""
    shown = Table(title=f"scripts, {torch.get_num_threads()} threads, medians")
    for column in ("program", "", "eager, us", "torch.jit / eager", "ours / eager",
                   "ours / torch.jit", "bar"):  # fmt: skip
        shown.add_column(column, justify="left" if column in ("program", "") else "right")
    for row in found:
        wrong = " [bold red]WRONG[/]" if row.wrong else ""
        ratios = [row.ratio(*pair) for pair in ((PEER, EAGER), (OURS, EAGER), (OURS, PEER))]
        bar = "" if row.bar is None else f"{row.bar} {_verdict(ratios[-1], row.bar)}"
        numbers = (f"{ratio:.2f}" for ratio in ratios)
        shown.add_row(
            row.program + wrong, row.note, f"{row.seconds[EAGER] * 1e6:.0f}", *numbers, bar
        )
    mean = tensor_mean(found)
    if mean is not None:
        shown.add_section()
        verdict = f"{TENSOR_BAR} {_verdict(mean, TENSOR_BAR)}"
        shown.add_row("geometric mean", "of tensor programs", "", "", "", f"{mean:.2f}", verdict)
    return shown


def _verdict(ratio: float, bar: float) -> str:
    return "met" if ratio <= bar else "missed"


def tensor_mean(found: list[Row]) -> float | None:
    """The mean of ours over torch.jit; None if no tensor program was measured."""
    ratios = [row.ratio(OURS, PEER) for row in found if row.note in ("inference", "training")]
    return geometric_mean(ratios) if ratios else None


def table_of_sizes(found: list[NewSizes]) -> Table:
    """A line for each program: counts of compilations."""
    columns = "program", "", "until the second plan", "8 sizes never seen", "a size of 1"
    shown = Table(*columns, title="what is compiled")
    for row in found:
        wrong = " [bold red]WRONG[/]" if row.wrong else ""
        texts = (_counts_text(counts) for counts in (row.before, row.after, row.of_one))
        shown.add_row(row.program + wrong, row.note, *texts)
    return shown


def _counts_text(counts: dict[str, int]) -> str:
    there = (f"{n} {name.removeprefix('script_')}" for name, n in counts.items() if n)
    return ", ".join(there) or "nothing"


def run(only: str, folder: Path, console: Console) -> int:
    """Measure, print, write JSON; the status is 1 if a result was wrong."""
    torch.manual_seed(0)
    found = []
    for row in rows(only):
        found.append(row)
        console.print(row.program, row.note, f"{row.ratio(OURS, PEER):.2f} of torch.jit")
    sizes = [measure_new_sizes(p) for p in tensor_programs() if p.size == 4 and only in p.name]
    console.print(table(found), table_of_sizes(sizes))
    folder.mkdir(exist_ok=True)
    report = {
        "threads": torch.get_num_threads(),
        "tensor_mean": tensor_mean(found),
        "rows": [asdict(row) for row in found],
        "new_sizes": [asdict(row) for row in sizes],
    }
    (folder / "script.json").write_text(json.dumps(report, indent=1) + "\n")
    return int(any(row.wrong for row in [*found, *sizes]))
