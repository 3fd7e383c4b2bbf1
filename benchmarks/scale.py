"""A small transformer that several processes train (gloo): the first step, a step, and the memory.

Each job has one process for each rank on this machine. A job trains eagerly, with the whole model
compiled, and with each block compiled, under `DistributedDataParallel` and `fully_shard`. Losses of
all must be equal. `simulated` is the model on paper of the page on many processes.
"""

from __future__ import annotations

import json
import random
import resource
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import minitorch2
from tests.distributed.processes import Job

WIDTH, DEPTH, ROWS, WORDS = 128, 2, 4, 32
STEPS = 8
WAYS = ("eager", "whole", "blocks")
WORLDS = (1, 2)
SECONDS = 300
"""The time limit of one job."""
RTOL = 1e-3


@dataclass
class Row:
    """What one way of training took: medians over steps, of the slowest rank."""

    engine: str
    way: str
    world: int
    first_seconds: float
    step_seconds: float
    megabytes: float
    loss: float
    kernels_compiled: tuple[int, ...]


class Block(nn.Module):
    """Attention and a multilayer perceptron, each behind a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a batch of rows of vectors, of the same size."""
        rows, words, _ = x.shape
        parts = self.heads(self.norm(x)).view(rows, words, 3, 4, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).reshape(rows, words, -1))
        return x + self.narrow(nn.functional.gelu(self.wide(self.other(x))))


def train(engine: str, way: str, folder: str) -> tuple[float, float, float, float, int]:
    """Train on one rank: seconds of the first step and of a step, megabytes, loss, kernels."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(DEPTH)))
    if engine == "fsdp":
        for block in model:
            fully_shard(block)
        fully_shard(model)
    run: nn.Module = model
    options = {"cache_dir": folder}
    with minitorch2.config.patch(**options), minitorch2.stages.collect(texts=False) as log:
        if way == "blocks":
            for block in model:
                block.forward = minitorch2.compile(block.forward)
        elif way == "whole":
            run = minitorch2.compile(model)
        if engine == "ddp":
            run = DistributedDataParallel(run, bucket_cap_mb=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        x = torch.randn(
            ROWS, WORDS, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank())
        )
        seconds = []
        for _ in range(STEPS):
            dist.barrier()
            start = perf_counter()
            loss = run(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seconds.append(perf_counter() - start)
    minitorch2.reset()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds[0], median(seconds[2:]), peak, loss.item(), log.counts["kernels_compiled"]


def measured(world: int) -> list[Row]:
    """Measure all engines and ways on so many ranks, each with an empty cache of the job's own."""
    rows = []
    for engine in ("ddp", "fsdp"):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                job = Job(world)
                try:
                    job.start("train", engine, way, folder, module="benchmarks.scale")
                    found = job.results(SECONDS)
                finally:
                    job.close()
            first, step, peak, _, kernels = zip(*found, strict=True)
            loss = found[0][3]
            rows.append(Row(engine, way, world, max(first), max(step), max(peak), loss, kernels))
        eager = next(r for r in rows if r.engine == engine and r.way == "eager")
        for row in rows:
            if row.engine == engine and abs(row.loss - eager.loss) > RTOL * abs(eager.loss):
                raise AssertionError(f"{row.engine} {row.way}: loss {row.loss}, eager {eager.loss}")
    return rows


def simulated(
    ranks: int, compiling: float, loading: float, shared: bool, spread: float, seed: int = 0
) -> float:
    """Return the seconds until the last of so many ranks has made its first step, on paper.

    Args:
        compiling: seconds that one rank needs to compile, alone on its cores.
        loading: seconds that it needs to load what another one has compiled.
        shared: whether rank 0 compiles and the others wait for its entries.
        spread: the standard deviation of a rank's speed, as a part of it: its stragglers.
    """
    draw = random.Random(seed)
    slowness = [max(0.5, draw.gauss(1.0, spread)) for _ in range(ranks)]
    if not shared:
        return max(compiling * each for each in slowness)
    return compiling * slowness[0] + max(loading * each for each in slowness)


def run(results: Path, console: Console) -> int:
    """Measure, print a table, and write JSON."""
    rows = [row for world in WORLDS for row in measured(world)]
    shown = Table("engine", "way", title="a transformer on processes of gloo")
    for name in ("processes", "first step, s", "step, ms", "of eager", "MB a rank", "compiled"):
        shown.add_column(name, justify="right")
    for row in rows:
        eager = next(
            r for r in rows if (r.engine, r.world, r.way) == (row.engine, row.world, "eager")
        )
        shown.add_row(
            row.engine, row.way, str(row.world), f"{row.first_seconds:.2f}",
            f"{row.step_seconds * 1e3:.1f}", f"{row.step_seconds / eager.step_seconds:.2f}",
            f"{row.megabytes:.0f}", " ".join(map(str, row.kernels_compiled)),
        )  # fmt: skip
    console.print(shown)
    path = results / "scale.json"
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0
