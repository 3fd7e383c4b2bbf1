"""`python -m benchmarks table2`: what capture costs or saves when the kernels are eager's.

Each model is captured and its graphs run as they are (`backend="eager"`), in inference and in
training, against plain eager PyTorch (PyTorch 2 paper, section 6.2, table 2). A ratio of 1.05 is
an overhead of 5 %. Eager and compiled calls take turns; a ratio is the median over the rounds.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import minitorch2
from benchmarks.cases import same
from benchmarks.compilers import EAGER, OURS, PEER, Compiler
from benchmarks.zoo import architectures
from minitorch2.bytecode.observe.explain import Explanation
from minitorch2.demo.timing import medians, rounds, seconds

SECONDS_A_MODEL = 6.0
FEWEST_ROUNDS, MOST_ROUNDS = 9, 400

Inputs = dict[str, Tensor]
Output = Tensor | dict[str, Tensor]


@dataclass(frozen=True)
class Model:
    """A model and fresh random inputs for it.

    `make` gives a module that maps the inputs to a tensor, or to a dict with a `loss`.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]


@dataclass(frozen=True)
class Row:
    """One model in one mode.

    Attributes:
        seconds: of a call, by compiler; medians.
        ratio: over eager, by compiler; the median of the rounds' ratios.
        wrong: compilers whose results differ from eager's.
        graphs: how many graphs ours captured.
        guards: how many guards are asked in a call, those of PyTorch's settings not counted.
        guard_microseconds: what asking them costs.
    """

    model: str
    mode: str
    seconds: dict[str, float]
    ratio: dict[str, float]
    wrong: list[str]
    graphs: int
    guards: int
    guard_microseconds: float


# Models -------------------------------------------------------------------------------------------


class Residual(nn.Module):
    """Two convolutions around which the input goes by."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.body(x))


def residual_net() -> nn.Module:
    stem = nn.Conv2d(3, 32, 7, stride=2, padding=3), nn.BatchNorm2d(32), nn.ReLU()
    blocks = [Residual(32) for _ in range(6)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def dense_net() -> nn.Module:
    class Layer(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm, self.conv = nn.BatchNorm2d(channels), nn.Conv2d(channels, 16, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, self.conv(torch.relu(self.norm(x)))], 1)

    layers = [Layer(16 + 16 * i) for i in range(6)]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(112, 10)
    return nn.Sequential(nn.Conv2d(3, 16, 3), *layers, *head)


def perceptron() -> nn.Module:
    hidden = [layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.GELU())]
    return nn.Sequential(nn.Linear(256, 512), *hidden, nn.Linear(512, 10))


def encoder_layers() -> nn.Module:
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


class Recurrent(nn.Module):
    """An embedding, two LSTM layers, and a projection of the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 128)
        self.lstm = nn.LSTM(128, 256, num_layers=2, batch_first=True)
        self.out = nn.Linear(256, 100)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        return self.out(states[:, -1])


def own_models() -> list[Model]:
    """Modules of `torch.nn`."""

    def photos(size: int, batch: int = 4) -> Callable[[], Inputs]:
        return lambda: {"input": torch.randn(batch, 3, size, size)}

    return [
        Model("perceptron", perceptron, lambda: {"input": torch.randn(64, 256)}),
        Model("residual net", residual_net, photos(64)),
        Model("dense net", dense_net, photos(32)),
        Model("encoder layers", encoder_layers, lambda: {"src": torch.randn(4, 64, 256)}),
        Model("recurrent", Recurrent, lambda: {"tokens": torch.randint(100, (8, 32))}),
    ]


MEDIUM = {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 512}
HEADS = {
    "BertForMaskedLM": MEDIUM,
    "RobertaForSequenceClassification": MEDIUM,
    "DistilBertForQuestionAnswering": {"dim": 256, "n_layers": 4, "hidden_dim": 512},
    "GPT2LMHeadModel": {"n_embd": 256, "n_layer": 4, "n_head": 4},
    "OPTForCausalLM": {**MEDIUM, "word_embed_proj_dim": 256, "ffn_dim": 512},
    "LlamaForCausalLM": MEDIUM,
    "T5ForConditionalGeneration": {"d_model": 256, "d_kv": 64, "d_ff": 512},
    "ViTForImageClassification": MEDIUM,
    "ResNetForImageClassification": {"hidden_sizes": [64, 128], "depths": [2, 2]},
}
"""Architectures of the zoo, in a size at which a call takes milliseconds, not microseconds."""


def zoo_models(heads: Mapping[str, dict[str, Any]] = HEADS) -> list[Model]:
    """Architectures of `transformers`, with changed sizes."""
    known = {each.head: each for each in architectures.ARCHITECTURES}
    grown = (
        architectures.Architecture(head, known[head].inputs, {**known[head].changes, **sizes})
        for head, sizes in heads.items()
        if head in known
    )
    return [Model(each.head, each.make, each.inputs) for each in grown]


# Measuring ----------------------------------------------------------------------------------------


def compilers(peer: bool) -> dict[str, Compiler]:
    """Eager, and those that capture and leave the kernels to eager."""
    chosen: dict[str, Compiler] = {
        EAGER: lambda f: f,
        OURS: lambda f: minitorch2.compile(f, backend="eager"),
    }
    return {**chosen, PEER: lambda f: torch.compile(f, backend="eager")} if peer else chosen


def loss_of(output: Output) -> Tensor:
    """A number to differentiate."""
    if isinstance(output, Tensor):
        return output.square().mean()
    return output["loss"]


def inference(call: Callable[..., Output], module: nn.Module) -> Callable[[Inputs], list[Tensor]]:
    def run(inputs: Inputs) -> list[Tensor]:
        with torch.no_grad():
            return tensors_of(call(**inputs))

    return run


def training(call: Callable[..., Output], module: nn.Module) -> Callable[[Inputs], list[Tensor]]:
    def run(inputs: Inputs) -> list[Tensor]:
        loss = loss_of(call(**inputs))
        loss.backward()
        found = [p.grad for p in module.parameters() if p.grad is not None]
        for parameter in module.parameters():
            parameter.grad = None
        return [loss.detach(), *found]

    return run


MODES = {"inference": inference, "training": training}


def tensors_of(output: Output) -> list[Tensor]:
    values = [output] if isinstance(output, Tensor) else list(output.values())
    return [value for value in values if isinstance(value, Tensor)]


def measure(model: Model, mode: str, chosen: dict[str, Compiler]) -> Row:
    """Check one model in one mode on fresh inputs, then time it."""
    torch.manual_seed(0)
    module = model.make().train(mode == "training")
    calls = {name: MODES[mode](compiler(module), module) for name, compiler in chosen.items()}
    wrong = disagreeing(model, calls) | disagreeing(model, calls)
    inputs = model.inputs()
    runs = {name: (lambda f=call: f(inputs)) for name, call in calls.items()}
    slowest = max(seconds(run) for run in runs.values())
    count = int(SECONDS_A_MODEL / (slowest * len(runs)))
    samples = list(rounds(runs, min(max(count, FEWEST_ROUNDS), MOST_ROUNDS)))
    ratio = {n: median(each[n] / each[EAGER] for each in samples) for n in chosen if n != EAGER}
    explained = explanation(module, mode, inputs)
    return Row(
        model.name,
        mode,
        medians(samples),
        ratio,
        sorted(wrong),
        explained.graph_count,
        len(explained.guards),
        sum(explained.guard_microseconds),
    )


def explanation(module: nn.Module, mode: str, inputs: Inputs) -> Explanation:
    """What capture makes of the model."""
    with torch.set_grad_enabled(mode == "training"):
        return minitorch2.explain(module, backend="eager")(**inputs)


def disagreeing(model: Model, calls: dict[str, Callable[[Inputs], list[Tensor]]]) -> set[str]:
    """The compilers whose results on fresh inputs, from the same seed, are not eager's."""
    inputs = model.inputs()

    def seeded(call: Callable[[Inputs], list[Tensor]]) -> list[Tensor]:
        torch.manual_seed(1)
        return call(inputs)

    expected = seeded(calls[EAGER])
    return {name for name, call in calls.items() if not same(seeded(call), expected)}


def rows(peer: bool, only: str) -> Iterator[Row]:
    """Every model whose name contains `only`, in both modes."""
    chosen = compilers(peer)
    for model in [*own_models(), *zoo_models()]:
        if only in model.name:
            yield from (measure(model, mode, chosen) for mode in MODES)


def geometric_means(measured: list[Row]) -> dict[str, dict[str, float]]:
    """The mean ratio by mode and compiler."""
    means: dict[str, dict[str, float]] = {}
    for mode in dict.fromkeys(row.mode for row in measured):
        ratios = [row.ratio for row in measured if row.mode == mode]
        means[mode] = {
            name: math.exp(sum(math.log(each[name]) for each in ratios) / len(ratios))
            for name in ratios[0]
        }
    return means


# Reporting ----------------------------------------------------------------------------------------


def table(measured: list[Row]) -> Table:
    """A row a model and mode, then the geometric means."""
    names = list(measured[0].ratio)
    shown = Table(title=f"over eager, {torch.get_num_threads()} threads; below 1: faster")
    for column in ("model", "mode", EAGER, *names, "graphs", "guards", "us"):
        shown.add_column(column, justify="left" if column in ("model", "mode") else "right")
    for row in measured:
        wrong = f" [bold red]WRONG: {', '.join(row.wrong)}[/]" if row.wrong else ""
        ratios = (f"{row.ratio[name]:.3f}" for name in names)
        eager = f"{row.seconds[EAGER] * 1e3:.2f} ms"
        cost = str(row.graphs), str(row.guards), f"{row.guard_microseconds:.1f}"
        shown.add_row(row.model + wrong, row.mode, eager, *ratios, *cost)
    shown.add_section()
    for mode, means in geometric_means(measured).items():
        shown.add_row("geometric mean", mode, "", *(f"{means[name]:.3f}" for name in names))
    return shown


def report(measured: list[Row]) -> dict[str, object]:
    """Everything as plain data."""
    return {
        "threads": torch.get_num_threads(),
        "geometric_means": geometric_means(measured),
        "rows": [asdict(row) for row in measured],
    }


def run(peer: bool, only: str, folder: Path, console: Console) -> int:
    """Measure, print, write JSON; the status is 1 if any result was wrong."""
    measured = []
    for row in rows(peer, only):
        measured.append(row)
        console.print(row.model, row.mode, {name: f"{r:.3f}" for name, r in row.ratio.items()})
    console.print(table(measured))
    folder.mkdir(exist_ok=True)
    (folder / "table2.json").write_text(json.dumps(report(measured), indent=1) + "\n")
    return 1 if any(row.wrong for row in measured) else 0
