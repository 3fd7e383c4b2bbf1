"""Memory of training: bytes kept between forward and backward, and the peak of both.

What is counted is what PyTorch's CPU allocator hands out from the start of forward on, told by its
profiler; so every compiler is measured alike, and inputs and parameters, which the caller holds
anyway, do not count. The output is not counted as kept, gradients are part of the peak.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, record_function

import minitorch2
from benchmarks.cases import Case, same
from benchmarks.compilers import EAGER, PEER, Compiler
from benchmarks.models import block, convolutions, gpt_loss, images, perceptron, windows
from minitorch2.autograd import aot_autograd, default_partition
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.graph import GraphModule

DEFAULT, MIN_CUT = "default", "min-cut"
_BACKWARD = "backward begins"


@dataclass(frozen=True)
class Usage:
    """Bytes of one model by compiler: kept for backward, and most at one time."""

    model: str
    kept: dict[str, int]
    peak: dict[str, int]
    wrong: list[str]


def run(peer: bool, only: str, results: Path, console: Console) -> int:
    """Measure, print and write; 1 if a result was wrong or the peer needs less."""
    found = [
        measure(case, compilers(peer)) for case in track(models(), "memory") if only in case.name
    ]
    console.print(table(found))
    results.mkdir(exist_ok=True)
    report = json.dumps([asdict(each) for each in found], indent=1)
    (results / "memory.json").write_text(report + "\n")
    less = peer and any(mean > 1 for mean in means(found, PEER))
    return int(less or any(each.wrong for each in found))


def compilers(peer: bool) -> dict[str, Compiler]:
    """What is compared; both ways to cut the joint graph are compiled to Numba kernels."""
    chosen: dict[str, Compiler] = {
        EAGER: lambda f: f,
        DEFAULT: lambda f: minitorch2.compile(f, backend=_uncut),
        MIN_CUT: lambda f: minitorch2.compile(f, backend="numba"),
    }
    return {**chosen, PEER: partial(torch.compile, dynamic=False)} if peer else chosen


def _uncut(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    compiler = compile_graph
    return aot_autograd(gm, example_inputs, forward_compiler=compiler, partition=default_partition)


def measure(case: Case, chosen: dict[str, Compiler]) -> Usage:
    """Bytes of one training step by each compiler, after one that compiles."""
    usage = Usage(case.name, {}, {}, [])
    inputs = case.fresh_inputs()
    expected: Any = None
    for name, compiler in chosen.items():
        torch.manual_seed(0)
        model = case.make()
        assert isinstance(model, nn.Module)
        step = Step(compiler(model), inputs, [*model.parameters()])
        step.run()
        usage.kept[name], usage.peak[name], given = step.measured()
        expected = given if name == EAGER else expected
        if not same(given, expected) and not (name == PEER and _draws(model)):
            usage.wrong.append(name)
    return usage


def _draws(model: nn.Module) -> bool:
    """Whether there is dropout: the peer's numbers are not eager's."""
    return any(isinstance(module, nn.Dropout) for module in model.modules())


@dataclass
class Step:
    """Forward and backward of a model."""

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    parameters: list[Tensor]
    incoming: Tensor | None = None

    def run(self) -> tuple[Tensor, ...]:
        """The output and the gradients of all parameters."""
        torch.manual_seed(1)
        output = self.function(*self.inputs)
        if self.incoming is None:
            self.incoming = torch.randn_like(output)
        with record_function(_BACKWARD):
            return output, *torch.autograd.grad(output, self.parameters, self.incoming)

    def measured(self) -> tuple[int, int, tuple[Tensor, ...]]:
        """Bytes kept when backward begins, most bytes at one time, and the results."""
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            result = self.run()
        events = profiler.profiler.kineto_results.events()
        (begin,) = (event.start_ns() for event in events if event.name() == _BACKWARD)
        changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
        changes.sort(key=lambda change: change[0])
        kept = sum(size for time, size in changes if time < begin)
        peak = max(accumulate(size for _, size in changes))
        return kept - result[0].untyped_storage().nbytes(), peak, result


def means(found: list[Usage], over: str) -> tuple[float, float]:
    """Geometric means of what the minimum cut takes of another's bytes: kept, and at the peak."""
    kept = [max(each.kept[MIN_CUT], 1) / max(each.kept[over], 1) for each in found]
    peak = [each.peak[MIN_CUT] / each.peak[over] for each in found]
    return geometric_mean(kept), geometric_mean(peak)


def table(found: list[Usage]) -> Table:
    """One row a model, kept and peak for each compiler, and means of the minimum cut over each."""
    names = list(found[0].kept)
    shown = Table(title="memory of a training step, kB: kept for backward, and peak")
    shown.add_column("model")
    for column in (*(f"{n} kept" for n in names), *(f"{n} peak" for n in names)):
        shown.add_column(column, justify="right")
    for each in found:
        wrong = f" [bold red]WRONG: {', '.join(each.wrong)}[/]" if each.wrong else ""
        sizes = [*each.kept.values(), *each.peak.values()]
        shown.add_row(each.model + wrong, *(f"{size / 1000:,.0f}" for size in sizes))
    ratios = [*zip(*(means(found, name) for name in names), strict=True)]
    shown.add_row(f"{MIN_CUT} over", *(f"{ratio:.2f}x" for row in ratios for ratio in row))
    return shown


class Attention(nn.Module):
    """Softmax attention written by hand, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.dropout = nn.Linear(64, 192), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(x).view(*x.shape[:2], 3, 4, 16)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / 4).softmax(-1)
        return (self.dropout(weights) @ v).transpose(1, 2).reshape(x.shape)


class GatedNetwork(nn.Module):
    """RMS norm and a gated linear unit with a residual connection, as in Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(128)
        self.gate, self.up = nn.Linear(128, 256), nn.Linear(128, 256)
        self.down = nn.Linear(256, 128)

    def forward(self, x: Tensor) -> Tensor:
        normal = self.norm(x)
        return x + self.down(F.silu(self.gate(normal)) * self.up(normal))


class Recurrence(nn.Module):
    """A gated recurrent cell, unrolled for some steps."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(64, 96)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        for step in range(x.shape[1]):
            update, reset, new = self.cell(torch.cat([x[:, step], state], -1)).chunk(3, -1)
            mixed = torch.tanh(new + torch.sigmoid(reset) * state)
            state = torch.lerp(state, mixed, torch.sigmoid(update))
        return state


class Residual(nn.Module):
    """A residual block of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.layers(x))


def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Linear(256, 64), nn.Softplus(), nn.Dropout(0.2), nn.Linear(64, 256), nn.Sigmoid()
    )


def mixer() -> nn.Module:
    return nn.Sequential(
        nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU("tanh"), nn.Linear(256, 64), nn.Softmax(-1)
    )


def models() -> list[Case]:
    """Small models of many kinds; what they keep does not depend on their size."""
    return [
        Case("perceptron", perceptron, lambda: (torch.randn(128, 256),)),
        Case("autoencoder", autoencoder, lambda: (torch.randn(128, 256),)),
        Case("mixer", mixer, lambda: (torch.randn(8, 32, 64),)),
        Case("attention", Attention, lambda: (torch.randn(4, 64, 64),)),
        Case("gated network", GatedNetwork, lambda: (torch.randn(8, 32, 128),)),
        Case("recurrence", Recurrence, lambda: (torch.randn(32, 4, 32),)),
        Case("convolutions", convolutions, images),
        Case("residual block", Residual, lambda: (torch.randn(4, 16, 16, 16),)),
        Case("transformer block", block, lambda: (torch.randn(2, 64, 256),)),
        Case("gpt", gpt_loss, windows),
    ]
