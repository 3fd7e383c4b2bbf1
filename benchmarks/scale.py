"""A transformer that several processes train: the first step, a step, what is hidden, and memory.

Each rank trains blocks of a transformer under `DistributedDataParallel`, under `fully_shard`, and
with weights that are split among ranks (tensor parallel). It does so eagerly and compiled: from
around DDP, inside of it, and block by block. Losses of all must be equal. On a CPU the ranks are
processes of gloo that share the machine's cores; on GPUs each has one, and NCCL connects them.

The share of communication that is hidden is ``1 - (t - t0) / c``. A step takes ``t``, the same step
under `no_sync` takes ``t0``, and to send the buckets of all gradients alone takes ``c``.

`simulated` is the model on paper of the page on many processes.
"""

from __future__ import annotations

import gc
import json
import math
import os
import random
import resource
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import minitorch2
from benchmarks.conditions import conditions
from tests.distributed.processes import Job

HEAD = 32
"""The width of an attention head."""
SPLITS = "tensor parallel"
"""Some weights are distributed tensors and some are not, so the optimizer takes one by one."""
WAYS = {
    "ddp": ("eager", "torch.compile", "around", "inside", "blocks"),
    "fsdp": ("eager", "torch.compile", "around", "blocks"),
    SPLITS: ("eager", "torch.compile", "around"),
}
"""The ways of training under each engine; `around` compiles the engine's module."""
PEER = "torch.compile"
SECONDS = 300
"""The time limit of one job."""


@dataclass(frozen=True)
class Setting:
    """The size of the model, and where it is trained."""

    device: str
    dtype: torch.dtype
    width: int
    depth: int
    rows: int
    words: int
    steps: int
    rtol: float


SETTINGS = {
    "cpu": Setting("cpu", torch.float32, 128, 2, 4, 32, 8, 1e-3),
    "cuda": Setting("cuda", torch.bfloat16, 1024, 8, 16, 1024, 24, 3e-2),
}


@dataclass
class Row:
    """What one way of training took: medians over steps, of the slowest rank."""

    engine: str
    way: str
    world: int
    first_seconds: float
    step_seconds: float
    hidden: float | None
    megabytes: float
    loss: float
    kernels_compiled: tuple[int, ...]


class Block(nn.Module):
    """Attention and a multilayer perceptron, each behind a layer norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a batch of rows of vectors, of the same size."""
        rows, words, _ = x.shape
        parts = self.heads(self.norm(x)).view(rows, words, -1, 3, HEAD).permute(3, 0, 2, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).reshape(rows, words, -1))
        return x + self.narrow(nn.functional.gelu(self.wide(self.other(x))))


SPLIT = {
    "heads": ColwiseParallel(), "join": RowwiseParallel(),
    "wide": ColwiseParallel(), "narrow": RowwiseParallel(),
}  # fmt: skip
"""The plan of tensor parallelism: each rank has some heads, and some of the wide layer."""


def prepared(engine: str, way: str, setting: Setting) -> tuple[nn.Module, nn.Module]:
    """Return a model, and what is called to train it."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(setting.width) for _ in range(setting.depth)))
    model.to(setting.device, setting.dtype)
    if engine == SPLITS:
        mesh = init_device_mesh(setting.device, (dist.get_world_size(),))
        for block in model:
            parallelize_module(block, mesh, SPLIT)
    if engine == "fsdp":
        for block in model:
            fully_shard(block)
        fully_shard(model)
    if way == "blocks" or (way == PEER and engine == "fsdp"):
        compile = minitorch2.compile if way == "blocks" else torch.compile
        for block in model:
            block.forward = compile(block.forward)
    run: nn.Module = minitorch2.compile(model) if way == "inside" else model
    if engine == "ddp":
        run = DistributedDataParallel(run)
    if way == "around":
        return model, minitorch2.compile(run)
    return model, torch.compile(run) if way == PEER and engine != "fsdp" else run


def wait(setting: Setting) -> None:
    """Wait for the GPU, if there is one."""
    if setting.device == "cuda":
        torch.cuda.synchronize()


def timed_steps(
    run: Any, optimizer: torch.optim.Optimizer, x: torch.Tensor, setting: Setting, silent: bool
) -> tuple[list[float], float]:
    """Return the seconds of each step, and the last loss; a silent step sends nothing."""
    seconds = []
    for _ in range(setting.steps):
        dist.barrier()
        start = perf_counter()
        with run.no_sync() if silent else nullcontext():
            loss = run(x).float().square().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        wait(setting)
        seconds.append(perf_counter() - start)
    return seconds, loss.item()


def seconds_of_sending(model: nn.Module, setting: Setting) -> float:
    """Return the seconds that the buckets of all gradients take, with nothing else to do."""
    sizes, full, limit = [], 0, 2**20
    for parameter in model.parameters():
        full += parameter.numel() * parameter.element_size()
        if full >= limit:
            sizes, full, limit = [*sizes, full], 0, 25 * 2**20
    sizes += [full] if full else []
    buckets = [
        torch.zeros(size // setting.dtype.itemsize, dtype=setting.dtype, device=setting.device)
        for size in sizes
    ]
    seconds = []
    for _ in range(12):
        dist.barrier()
        start = perf_counter()
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
            work.wait()
        wait(setting)
        seconds.append(perf_counter() - start)
    return median(seconds[2:])


def train(engine: str, way: str, device: str, folder: str) -> dict[str, Any]:
    """Train on one rank; return what a `Row` says of it."""
    setting = SETTINGS[device]
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    generator = torch.Generator().manual_seed(dist.get_rank() if engine != SPLITS else 0)
    x = torch.randn(setting.rows, setting.words, setting.width, generator=generator)
    x = x.to(device, setting.dtype)
    with minitorch2.config.patch(cache_dir=folder), minitorch2.stages.collect(texts=False) as log:
        wait(setting)
        start = perf_counter()
        model, run = prepared(engine, way, setting)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=engine != SPLITS)
        made = perf_counter() - start
        seconds, loss = timed_steps(run, optimizer, x, setting, silent=False)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if device == "cuda":
            peak = torch.cuda.max_memory_allocated() / 2**20
        hidden = None
        if engine == "ddp" and dist.get_world_size() > 1:
            alone, _ = timed_steps(run, optimizer, x, setting, silent=True)
            exposed = median(seconds[4:]) - median(alone[4:])
            hidden = 1 - exposed / seconds_of_sending(model, setting)
    del model, run, optimizer
    minitorch2.reset()
    torch.compiler.reset()
    gc.collect()
    return {
        "first_seconds": made + seconds[0], "step_seconds": median(seconds[4:]), "hidden": hidden,
        "megabytes": peak, "loss": loss, "kernels_compiled": log.counts["kernels_compiled"],
    }  # fmt: skip


def measured(world: int, device: str, peer: bool, only: str, report: Any) -> list[Row]:
    """Measure engines and ways on so many ranks, each with an empty cache of its own.

    Only those are measured whose names, such as `ddp, inside`, contain the text.

    On GPUs one job does all; on a CPU each has a job of its own, whose peak of memory is its own.
    """
    rows: list[Row] = []
    backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
    job = None
    for engine, ways in WAYS.items():
        for way in ways:
            if (way == PEER and not peer) or (engine == SPLITS and world == 1):
                continue
            if only not in f"{engine}, {way}":
                continue
            with tempfile.TemporaryDirectory() as folder:
                job = job or Job(world, backend)
                try:
                    job.start("train", engine, way, device, folder, module="benchmarks.scale")
                    found = job.results(SECONDS)
                except (AssertionError, TimeoutError) as error:
                    report(f"{engine}, {way}: {error}")
                    found = []
                if device == "cpu" or not found:
                    job.close()
                    job = None
            if found:
                rows.append(_row(engine, way, world, found))
                report(str(rows[-1]))
    if job is not None:
        job.close()
    return rows


def _row(engine: str, way: str, world: int, found: list[dict[str, Any]]) -> Row:
    """Return the row of the slowest rank; what is hidden is that of the rank that hides least."""
    worst = {name: max(each[name] for each in found) for name in ("first_seconds", "step_seconds")}
    hidden = [each["hidden"] for each in found if each["hidden"] is not None]
    return Row(
        engine, way, world, **worst, hidden=min(hidden, default=None),
        megabytes=max(each["megabytes"] for each in found), loss=found[0]["loss"],
        kernels_compiled=tuple(each["kernels_compiled"] for each in found),
    )  # fmt: skip


def eager_of(row: Row, rows: list[Row]) -> Row | None:
    """Return the row of the same engine and ranks that trains eagerly."""
    same = (r for r in rows if (r.engine, r.world, r.way) == (row.engine, row.world, "eager"))
    return next(same, None)


def check(rows: list[Row], setting: Setting) -> None:
    """Raise AssertionError if a loss is not eager's."""
    for row in rows:
        eager = eager_of(row, rows)
        if eager and not math.isclose(row.loss, eager.loss, rel_tol=setting.rtol):
            raise AssertionError(f"{row.engine} {row.way}: loss {row.loss}, eager {eager.loss}")


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


def run(
    results: Path, console: Console, device: str = "cpu", peer: bool = False, only: str = ""
) -> int:
    """Measure, print a table, and write JSON."""
    cores = os.cpu_count() or 1
    on_cpu = [n for n in (1, 2, 4, 8) if n <= cores]
    worlds = on_cpu if device == "cpu" else [torch.cuda.device_count()]
    command = "python -m benchmarks scale"
    command += f" --device {device}" * (device != "cpu") + " --peer" * peer
    command += f" --only '{only}'" * bool(only)
    stored = {**conditions(command), "rows": list[dict[str, Any]]()}
    rows = []
    for world in worlds:
        rows += measured(world, device, peer, only, console.log)
    console.print(shown(rows, device))
    stored["rows"] = [asdict(row) for row in rows]
    (results / f"scale_{device}.json").write_text(json.dumps(stored, indent=1) + "\n")
    check(rows, SETTINGS[device])
    return 0


def shown(rows: list[Row], device: str) -> Table:
    """Return the rows as a table."""
    table = Table("engine", "way", title=f"a transformer on several processes, {device}")
    names = "processes", "first step, s", "step, ms", "of eager", "hidden", "MB a rank", "compiled"
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        eager = eager_of(row, rows)
        ratio = f"{row.step_seconds / eager.step_seconds:.2f}" if eager else ""
        table.add_row(
            row.engine, row.way, str(row.world), f"{row.first_seconds:.2f}",
            f"{row.step_seconds * 1e3:.1f}", ratio,
            "" if row.hidden is None else f"{row.hidden:.2f}",
            f"{row.megabytes:.0f}", " ".join(map(str, row.kernels_compiled)),
        )  # fmt: skip
    return table
