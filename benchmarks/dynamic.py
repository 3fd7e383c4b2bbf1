"""A text model over 50 random batch sizes and sequence lengths: what varying sizes cost.

For each compiler: how often it compiled, the seconds of all 50 calls with an empty cache, and the
seconds of the same calls once everything is compiled. For ours, at some of the sizes, also the time
of the model compiled for symbolic sizes against that of one compiled for this size alone, and the
same for kernels of all shapes, one by one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F

import minitorch2
from benchmarks.compilers import EAGER, OURS, PEER
from minitorch2 import config, stages

CALLS = 50
COMPARED = 4
"""So many of the sizes are also compiled alone."""
ROUNDS = 40
TOLERANCE = 2e-4

Sizes = tuple[int, int]

KERNELS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pointwise": lambda x: F.gelu(x) * 2,
    "broadcast": lambda x: x + x[0] * 2,
    "transposed": lambda x: x.t().contiguous() + 1,
    "joined": lambda x: torch.cat([x, x * 2], 1),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "sum of rows": lambda x: x.sum(1),
    "sum of columns": lambda x: x.sum(0),
    "variance": lambda x: x.var(1),
    "greatest": lambda x: x.amax(1),
    "running sum": lambda x: x.cumsum(1),
    "centred": lambda x: x - x.mean(0, keepdim=True),
}
"""One or two kernels each, on a matrix."""
KERNEL_SIZES: tuple[Sizes, ...] = ((64, 64), (512, 128), (300, 1000))


class Block(nn.Module):
    """Attention and a multilayer perceptron, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class TextModel(nn.Module):
    """A small language model."""

    def __init__(self, vocabulary: int = 1000, width: int = 128, layers: int = 3) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@dataclass
class Measured:
    """One compiler on the 50 sizes; times in seconds.

    Attributes:
        compilations: how often a graph was compiled.
        first: all calls, from nothing compiled.
        compiling: `first` without `steady`.
        steady: all calls, with everything compiled.
        over_static: by size, time of the dynamic kernels over that of the static ones.
        sympy: the part of `first` spent in the algebra of sizes.
        wrong: sizes with a wrong result.
    """

    compilations: int = 0
    first: float = 0.0
    steady: float = 0.0
    over_static: dict[str, float] = field(default_factory=dict)
    sympy: float = 0.0
    wrong: list[Sizes] = field(default_factory=list)

    @property
    def compiling(self) -> float:
        """Seconds that were not needed once everything was compiled."""
        return self.first - self.steady


def random_sizes(count: int = CALLS) -> list[Sizes]:
    """Batch size and sequence length of each call."""
    generator = random.Random(0)
    return [(generator.randint(1, 8), generator.randint(2, 128)) for _ in range(count)]


def run(peer: bool, folder: Path, console: Console) -> int:
    """Measure, print, write JSON; the status is 1 if a result was wrong."""
    torch.manual_seed(0)
    model = TextModel().eval()
    sizes = random_sizes()
    found = {EAGER: measure_eager(model, sizes), OURS: measure_ours(model, sizes)}
    if peer:
        found[PEER] = measure_peer(model, sizes)
    kernels = measure_kernels()
    console.print(table(found))
    console.print(
        f"{len(kernels)} kernels of symbolic sizes take {geometric_mean(kernels.values()):.2f}x "
        f"the time of static ones in geometric mean, at most {max(kernels.values()):.2f}x"
    )
    report = {name: asdict(measured) for name, measured in found.items()}
    folder.mkdir(exist_ok=True)
    given = {
        "threads": torch.get_num_threads(),
        "sizes": sizes,
        "results": report,
        "kernels_over_static": kernels,
    }
    (folder / "dynamic.json").write_text(json.dumps(given, indent=1) + "\n")
    return 1 if any(measured.wrong for measured in found.values()) else 0


def measure_eager(model: nn.Module, sizes: list[Sizes]) -> Measured:
    """The baseline."""
    return _measure(model, model, sizes)


def measure_ours(model: nn.Module, sizes: list[Sizes]) -> Measured:
    """minitorch2, without kernels of earlier processes."""
    with config.patch(cache=False), stages.collect() as log:
        fast = minitorch2.compile(model)
        measured = _measure(model, fast, sizes)
        measured.compilations = log.counts["graphs"]
        measured.sympy = log.seconds["sympy"]
        for size in sizes[:COMPARED]:
            alone = minitorch2.compile(model, dynamic=False)
            measured.over_static[str(size)] = _ratio(fast, alone, _tokens(size))
    return measured


def measure_kernels() -> dict[str, float]:
    """By kernel and size: time compiled for symbolic sizes over time compiled for this size."""
    ratios = {}
    for name, program in KERNELS.items():
        dynamic = minitorch2.compile(program, dynamic=True)
        for size in KERNEL_SIZES:
            x, alone = torch.randn(size), minitorch2.compile(program, dynamic=False)
            dynamic(x)
            ratios[f"{name} {size}"] = _ratio(dynamic, alone, x)
    return ratios


def measure_peer(model: nn.Module, sizes: list[Sizes]) -> Measured:
    """torch.compile with its default backend, without its caches."""
    # Imported here: it takes seconds, and only this function needs the peer.
    import torch._dynamo.utils as peer
    import torch._inductor.config as peer_config

    torch._dynamo.reset()
    with peer_config.patch(force_disable_caches=True):
        fast = torch.compile(model)
        measured = _measure(model, fast, sizes)
        measured.compilations = peer.counters["stats"]["unique_graphs"]
    return measured


def _measure(model: nn.Module, fast: Callable[..., Any], sizes: list[Sizes]) -> Measured:
    measured = Measured()
    with torch.no_grad():
        for size in sizes:
            tokens = _tokens(size)
            start = perf_counter()
            result = fast(tokens)
            measured.first += perf_counter() - start
            if not torch.allclose(result, model(tokens), rtol=TOLERANCE, atol=TOLERANCE):
                measured.wrong.append(size)
        for size in sizes:
            tokens = _tokens(size)
            start = perf_counter()
            fast(tokens)
            measured.steady += perf_counter() - start
    return measured


def _ratio(a: Callable[..., Any], b: Callable[..., Any], argument: torch.Tensor) -> float:
    """How much longer a takes than b; they take turns, so that a busy machine delays both."""
    ratios = []
    with torch.no_grad():
        b(argument)
        for _ in range(ROUNDS):
            times = []
            for function in (a, b):
                start = perf_counter()
                function(argument)
                times.append(perf_counter() - start)
            ratios.append(times[0] / times[1])
    return median(ratios)


def _tokens(size: Sizes) -> torch.Tensor:
    return torch.randint(0, 1000, size, generator=torch.Generator().manual_seed(size[1]))


def table(found: dict[str, Measured]) -> Table:
    """One row a compiler."""
    shown = Table(title=f"{CALLS} random batch sizes and sequence lengths of a text model")
    columns = ("", "graphs", "first pass", "compiling", "sympy", "second pass", "over static")
    for column in columns:
        shown.add_column(column, justify="left" if not column else "right")
    for name, measured in found.items():
        ratios = measured.over_static.values()
        over = f"{geometric_mean(ratios):.2f}x" if ratios else ""
        wrong = f" [bold red]WRONG: {measured.wrong}[/]" if measured.wrong else ""
        shown.add_row(
            name + wrong,
            str(measured.compilations),
            f"{measured.first:.2f} s",
            f"{measured.compiling:.2f} s",
            f"{measured.sympy:.2f} s",
            f"{measured.steady:.2f} s",
            over,
        )
    return shown
