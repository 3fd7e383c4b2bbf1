"""Deferred execution on a GPU: does recording overlap with the device, and do models still learn?

    python -m benchmarks.gpu_lazy [--device cpu] [--small] [--out FILE]

Four tables, in the shape of what the papers report:

    asynchronous  when `mark_step` returns, and when the values are there (LazyTensor, section 2.2)
    pipelined     ten steps whose recording overlaps the step before, and what a look costs
                  (PyTorch 2, section 6.2)
    words         perplexity and seconds of an encoder (LazyTensor, Table 2)
    images        accuracy, and images a second, of a residual network (LazyTensor, Table 3)

The last two learn rules that are made up, from one seed in each way. Times are wall time.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import minitorch2
from minitorch2 import lazy

Row = dict[str, Any]
STEPS, WARM = 10, 6


def wait(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


# Asynchronous execution ---------------------------------------------------------------------------


def asynchronous(device: str, size: int) -> list[Row]:
    """Milliseconds until products are recorded, until the barrier returns, and until the end."""
    start = torch.randn(size, size, device=device) / size**0.5

    def times(way: str) -> tuple[float, ...]:
        wait(device)
        begin = perf_counter()
        with minitorch2.lazily(eager_first=False) if way == "lazy" else nullcontext():
            value = start
            for _ in range(20):
                value = torch.tanh(value @ start)
            recorded = perf_counter() - begin
            if way == "lazy":
                lazy.mark_step()
            returned = perf_counter() - begin
            value.sum().item()
        return recorded, returned, perf_counter() - begin

    rows = []
    for way in ("eager", "lazy"):
        found = [times(way) for _ in range(WARM + STEPS)][WARM:]
        middle = [1e3 * median(column) for column in zip(*found, strict=True)]
        rows.append(
            dict(zip(("way", "recorded", "returned", "there"), (way, *middle), strict=True))
        )
    return rows


# Steps that overlap -------------------------------------------------------------------------------

LOOKS: dict[str, Callable[[Tensor], object]] = {
    "no look": lambda loss: None,
    "if loss.isnan().any()": lambda loss: 1 if loss.isnan().any() else 0,
    "loss.item()": lambda loss: loss.item(),
}


def pipelined(device: str, width: int, batch: int) -> list[Row]:
    """Milliseconds of a training step: of the host, of the device alone, and of the wall.

    `overlap` is the part of the shorter of the two that the wall does not show: 1 if all of it runs
    beside the other, 0 if they take turns.
    """
    rows = []
    for name, look in LOOKS.items():
        step = training_step(device, width, batch)
        with minitorch2.lazily(eager_first=False):
            for _ in range(WARM):
                look(step())
                lazy.mark_step()
            hosts = []
            for _ in range(STEPS):
                wait(device)
                begin = perf_counter()
                step()
                lazy.mark_step()
                hosts.append(perf_counter() - begin)
                wait(device)
            device_time = median(device_seconds(device, step) for _ in range(STEPS))
            wait(device)
            begin = perf_counter()
            for _ in range(STEPS):
                look(step())
                lazy.mark_step()
            wait(device)
            wall = (perf_counter() - begin) / STEPS
        host = median(hosts)
        overlap = (host + device_time - wall) / min(host, device_time) if device_time else 0.0
        times = {"host": host * 1e3, "device": device_time * 1e3, "wall": wall * 1e3}
        rows.append({"look": name, **times, "overlap": overlap})
    return rows


def device_seconds(device: str, step: Callable[[], Tensor]) -> float:
    """How long the device works on a step: between two events on its queue."""
    if device != "cuda":
        return 0.0
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    lazy.mark_step()
    wait(device)
    torch.cuda._sleep(50_000_000)  # the step is in the queue before the device begins
    first.record()
    step()
    lazy.mark_step()
    last.record()
    wait(device)
    return first.elapsed_time(last) / 1e3


def training_step(device: str, width: int, batch: int) -> Callable[[], Tensor]:
    """Return a step of a small GPT with AdamW; it gives the loss."""
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(block, 4, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(100, width), encoder, nn.Linear(width, 100)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    words = torch.randint(100, (batch, 128), device=device)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(words).flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# Models that learn --------------------------------------------------------------------------------


def learnt(
    device: str,
    way: str,
    model: nn.Module,
    batch_of: Callable[[torch.Generator], tuple[Tensor, Tensor]],
    steps: int,
) -> tuple[Tensor, Tensor, float, float]:
    """Train; return results and targets of a new batch, seconds of all steps and of half."""
    torch.manual_seed(0)
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    numbers, ends = torch.Generator().manual_seed(1), [perf_counter()]
    for _ in range(steps):
        batch, target = (tensor.to(device) for tensor in batch_of(numbers))
        with minitorch2.lazily() if way == "lazy" else nullcontext():
            optimizer.zero_grad()
            F.cross_entropy(model(batch), target).backward()
            optimizer.step()
        wait(device)
        ends.append(perf_counter())
    batch, target = (tensor.to(device) for tensor in batch_of(numbers))
    with torch.no_grad():
        return model.eval()(batch), target, ends[-1] - ends[0], ends[-1] - ends[steps // 2]


class Encoder(nn.Module):
    """Tells hidden words; logits are [batch, words, positions]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.words, self.places = nn.Embedding(64, width), nn.Embedding(64, width)
        self.blocks = nn.TransformerEncoder(block, 4, enable_nested_tensor=False)
        self.out = nn.Linear(width, 64)

    def forward(self, words: Tensor) -> Tensor:
        places = self.places(torch.arange(words.shape[1], device=words.device))
        return self.out(self.blocks(self.words(words) + places)).transpose(1, 2)


def words(device: str, width: int, batch: int, steps: int) -> list[Row]:
    """Perplexity of hidden words in sentences that count by a number of their own."""

    def batch_of(numbers: torch.Generator) -> tuple[Tensor, Tensor]:
        first, by = (torch.randint(k, 64, (batch, 1), generator=numbers) for k in (0, 1))
        sentence = (first + by * torch.arange(32)) % 64
        hidden = torch.rand(sentence.shape, generator=numbers) < 0.15
        return sentence.masked_fill(hidden, 0), sentence

    rows = []
    for way in ("eager", "lazy"):
        torch.manual_seed(0)
        logits, target, seconds, late = learnt(device, way, Encoder(width), batch_of, steps)
        perplexity = math.exp(float(F.cross_entropy(logits, target)))
        rate = batch * (steps - steps // 2) / late
        rows.append({"way": way, "perplexity": perplexity, "seconds": seconds, "sentences/s": rate})
    return rows


class Residual(nn.Module):
    """Two convolutions beside the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norm, self.last = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.last(self.second(F.relu(self.norm(self.first(x))))))


def images(device: str, width: int, batch: int, steps: int) -> list[Row]:
    """Accuracy for images of stripes: their direction and their distance are the class."""

    def batch_of(numbers: torch.Generator) -> tuple[Tensor, Tensor]:
        target = torch.randint(10, (batch,), generator=numbers)
        x, y = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
        along = torch.where(target % 2 == 0, 1.0, 0.0).view(-1, 1, 1)
        waves = torch.sin((along * x + (1 - along) * y) * (target // 2 + 1).view(-1, 1, 1) * 0.5)
        noise = torch.randn(batch, 3, 32, 32, generator=numbers)
        return waves.unsqueeze(1) + noise, target

    rows = []
    for way in ("eager", "lazy"):
        torch.manual_seed(0)
        blocks = [Residual(width) for _ in range(4)]
        ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
        model = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), *blocks, *ends)
        logits, target, seconds, late = learnt(device, way, model, batch_of, steps)
        accuracy = float((logits.argmax(1) == target).double().mean())
        rate = batch * (steps - steps // 2) / late
        rows.append({"way": way, "accuracy": accuracy, "seconds": seconds, "images/s": rate})
    return rows


def tables(device: str, *, small: bool) -> dict[str, Callable[[], list[Row]]]:
    """The four tables; small ones take seconds on a CPU."""
    if small:
        return {
            "asynchronous": lambda: asynchronous(device, 64),
            "pipelined": lambda: pipelined(device, 16, 2),
            "words": lambda: words(device, 16, 4, 8),
            "images": lambda: images(device, 4, 4, 8),
        }
    return {
        "asynchronous": lambda: asynchronous(device, 4096),
        "pipelined": lambda: pipelined(device, 512, 64),
        "words": lambda: words(device, 256, 256, 400),
        "images": lambda: images(device, 64, 256, 200),
    }


def main() -> None:
    """Print the tables; write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {}
    for name, table in tables(options.device, small=options.small).items():
        begin = perf_counter()
        found[name] = table()
        print(f"{name} ({perf_counter() - begin:.1f} s)")
        for row in found[name]:
            shown = (f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items())
            print("   ", ", ".join(shown), flush=True)
    fallbacks = lazy.metrics().counts.fallbacks
    print("in eager mode:", dict(fallbacks))
    if options.out:
        options.out.write_text(json.dumps({"torch": torch.__version__, **found}, indent=1))


if __name__ == "__main__":
    main()
