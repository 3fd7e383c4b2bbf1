"""Random training programs: a model, a loss, an optimizer, and a style of training loop.

    python -m tests.property.training_programs --count 150 --backend numba
    python -m tests.property.training_programs --only tied-mse-adamw-clipped_norm-7

A style makes the functions that a loop calls. `Program.run` trains for some steps, eagerly or
compiled, and gives back all that can be seen afterwards; the last step has another batch size.
Numbers are doubles: what optimizers divide by the size of a gradient would else be noise.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import minitorch2
from minitorch2 import config, stages

FEATURES = 6
CLASSES = 4

Compile = Callable[[Any], Any]
Step = Callable[[Tensor, Tensor], Any]


# Models -------------------------------------------------------------------------------------------


class Tied(nn.Module):
    """Two layers share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(FEATURES, FEATURES)
        self.decode = nn.Linear(FEATURES, FEATURES)
        self.decode.weight = self.encode.weight
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.decode(torch.tanh(self.encode(x))))


class Residual(nn.Module):
    """A block with a skip connection and normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(FEATURES)
        self.inner = nn.Sequential(nn.Linear(FEATURES, 8), nn.GELU(), nn.Linear(8, FEATURES))
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.inner(self.norm(x)))


class Convolutional(nn.Module):
    """A convolution with batch normalization over the features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 3, 3, padding=1, bias=False)  # BatchNorm takes it out again
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3 * FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.conv(x.unsqueeze(1))))
        return self.head(hidden.flatten(1))


class Attentive(nn.Module):
    """Self-attention over the features as a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(1, 4)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        sequence = self.lift(x.unsqueeze(-1))
        attended, _ = self.attend(sequence, sequence, sequence, need_weights=False)
        return self.head(attended.mean(1))


class Embedding(nn.Module):
    """Indices made of the features choose rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 5)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table((x * 3).long() % 10).mean(1))


class Unused(nn.Module):
    """One parameter takes no part, another is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, 5)
        self.idle = nn.Linear(3, 3)
        self.head = nn.Linear(5, CLASSES)
        self.inner.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.silu(self.inner(x)))


def _weight_norm() -> nn.Module:
    first = parametrizations.weight_norm(nn.Linear(FEATURES, 5))
    return nn.Sequential(first, nn.ReLU(), nn.Linear(5, CLASSES))


def _spectral_norm() -> nn.Module:
    first = parametrizations.spectral_norm(nn.Linear(FEATURES, 5))
    return nn.Sequential(first, nn.Tanh(), nn.Linear(5, CLASSES))


def _orthogonal() -> nn.Module:
    first = parametrizations.orthogonal(nn.Linear(FEATURES, FEATURES))
    return nn.Sequential(first, nn.Tanh(), nn.Linear(FEATURES, CLASSES))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(FEATURES, CLASSES),
    "mlp": lambda: nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, CLASSES)),
    "dropout": lambda: nn.Sequential(
        nn.Linear(FEATURES, 5), nn.Dropout(0.3), nn.ELU(), nn.Linear(5, CLASSES)
    ),
    "tied": Tied,
    "residual": Residual,
    "convolutional": Convolutional,
    "attentive": Attentive,
    "embedding": Embedding,
    "unused": Unused,
    "weight_norm": _weight_norm,
    "spectral_norm": _spectral_norm,
    "orthogonal": _orthogonal,
}

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": F.cross_entropy,
    "smoothed": lambda out, y: F.cross_entropy(out, y, label_smoothing=0.1),
    "nll": lambda out, y: F.nll_loss(out.log_softmax(-1), y),
    "mse": lambda out, y: F.mse_loss(out, F.one_hot(y, CLASSES).to(out.dtype)),
    "smooth_l1": lambda out, y: F.smooth_l1_loss(out, F.one_hot(y, CLASSES).to(out.dtype)),
    "bce": lambda out, y: F.binary_cross_entropy_with_logits(
        out, F.one_hot(y, CLASSES).to(out.dtype)
    ),
    "margin": F.multi_margin_loss,
    "sum": lambda out, y: (out * y.unsqueeze(-1)).square().sum(),
}

# Optimizers ---------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, foreach=True),
    "fused_sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adamw_maximize": lambda p: torch.optim.AdamW(p, lr=0.01, maximize=True, capturable=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.05),
    "tensor_lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
}

BREAKING = {"radam", "asgd", "adafactor"}
"""Optimizers whose steps branch on their counts, or read them out."""
BY_SIGN = {"rprop"}
"""Optimizers that see no more of a gradient than its sign."""


# Styles of loops ----------------------------------------------------------------------------------


@dataclass
class Training:
    """What a style trains: the parts are the same, whatever the style."""

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer
    compile: Compile

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())


Style = Callable[[Training], Step]

ONE_GRAPH: dict[str, Style] = {}
"""Styles in which the compiled function is one graph."""
SEVERAL_GRAPHS: dict[str, Style] = {}
"""Styles in which it breaks, or in which several functions are compiled."""


def one_graph(style: Style) -> Style:
    """Register a style."""
    ONE_GRAPH[style.__name__] = style
    return style


def several_graphs(style: Style) -> Style:
    """Register a style."""
    SEVERAL_GRAPHS[style.__name__] = style
    return style


@one_graph
def ordinary(t: Training) -> Step:
    """zero_grad, loss, backward, step"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        return loss

    return t.compile(step)


@one_graph
def zeros_kept(t: Training) -> Step:
    """gradients are set to zero behind the step; the loss is detached"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        t.optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return t.compile(step)


@one_graph
def accumulated(t: Training) -> Step:
    """micro-batches in a Python loop"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        total = torch.zeros((), dtype=x.dtype)
        for part, labels in zip(x.chunk(2), y.chunk(2), strict=True):
            loss = t.loss(t.model(part), labels) / 2
            loss.backward()
            total += loss.detach()
        t.optimizer.step()
        return total

    return t.compile(step)


@one_graph
def clipped_norm(t: Training) -> Step:
    """clip_grad_norm_"""

    def step(x: Tensor, y: Tensor) -> Any:
        t.optimizer.zero_grad(set_to_none=True)
        loss = t.loss(t.model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(t.model.parameters(), 0.5)
        t.optimizer.step()
        return loss, norm

    return t.compile(step)


@one_graph
def clipped_value(t: Training) -> Step:
    """clip_grad_value_, and the module's own zero_grad"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.model.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        nn.utils.clip_grad_value_(t.model.parameters(), 0.05)
        t.optimizer.step()
        return loss

    return t.compile(step)


@one_graph
def by_hand(t: Training) -> Step:
    """updates under no_grad, gradients set to None by hand"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = t.loss(t.model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in t.model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad
                    parameter.grad = None
        return loss

    return t.compile(step)


@one_graph
def asked_for(t: Training) -> Step:
    """torch.autograd.grad, and updates of .data"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        wanted = [p for p in t.model.parameters() if p.requires_grad]
        loss = t.loss(t.model(x), y)
        found = torch.autograd.grad(loss, wanted, allow_unused=True)
        for parameter, gradient in zip(wanted, found, strict=True):
            if gradient is not None:
                parameter.data.add_(gradient, alpha=-0.05)
        return loss

    return t.compile(step)


@one_graph
def gradients_only(t: Training) -> Step:
    """the optimizer runs outside"""

    def gradients(x: Tensor, y: Tensor) -> Tensor:
        loss = t.loss(t.model(x), y)
        loss.backward()
        return loss

    compiled = t.compile(gradients)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = compiled(x, y)
        t.optimizer.step()
        return loss

    return step


@one_graph
def averaged(t: Training) -> Step:
    """an exponential moving average of the parameters"""
    averages = [p.detach().clone() for p in t.parameters()]
    t.model.averages = averages  # so that they are compared

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        with torch.no_grad():
            for average, parameter in zip(averages, t.model.parameters(), strict=True):
                average.lerp_(parameter, 0.1)
        return loss

    return t.compile(step)


@one_graph
def twice_backward(t: Training) -> Step:
    """two losses of one output, the graph retained in between"""

    def step(x: Tensor, y: Tensor) -> Any:
        t.optimizer.zero_grad()
        out = t.model(x)
        loss, penalty = t.loss(out, y), out.square().mean()
        loss.backward(retain_graph=True)
        penalty.backward()
        t.optimizer.step()
        return loss.detach(), penalty.detach()

    return t.compile(step)


@one_graph
def penalized(t: Training) -> Step:
    """the norm of the gradients is part of the loss"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        wanted = [p for p in t.model.parameters() if p.requires_grad]
        loss = t.loss(t.model(x), y)
        found = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
        norm = sum((g.square().sum() for g in found if g is not None), torch.zeros(()))
        (loss + 0.01 * norm).backward()
        t.optimizer.step()
        return loss.detach()

    return t.compile(step)


@one_graph
def in_autocast(t: Training) -> Step:
    """the forward pass in bfloat16"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = t.model(x)
        loss = t.loss(out.to(x.dtype), y)
        loss.backward()
        t.optimizer.step()
        return loss

    return t.compile(step)


@one_graph
def weighted(t: Training) -> Step:
    """backward with a gradient of its own, into some leaves only"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        wanted = [p for p in t.model.parameters() if p.requires_grad][-2:]
        out = t.model(x)
        out.backward(torch.softmax(out.detach(), -1) - F.one_hot(y, CLASSES), inputs=wanted)
        t.optimizer.step()
        return out.detach()

    return t.compile(step)


@several_graphs
def forward_only(t: Training) -> Step:
    """the model is compiled, and nothing else"""
    compiled = t.compile(t.model)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(compiled(x), y)
        loss.backward()
        t.optimizer.step()
        return loss

    return step


@several_graphs
def parts(t: Training) -> Step:
    """model, loss and optimizer are compiled on their own"""
    model, loss_of, update = t.compile(t.model), t.compile(t.loss), t.compile(t.optimizer.step)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        update()
        return loss

    return step


@several_graphs
def broken_before(t: Training) -> Step:
    """a break between the forward pass and backward"""
    losses: list[float] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        if loss.item() > -1e9:
            losses.append(0.0)
        torch.initial_seed()
        loss.backward()
        t.optimizer.step()
        return loss

    return t.compile(step)


@several_graphs
def broken_behind(t: Training) -> Step:
    """a break between backward and the optimizer"""

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        torch.initial_seed()
        t.optimizer.step()
        return loss

    return t.compile(step)


@several_graphs
def with_closure(t: Training) -> Step:
    """the optimizer calls backward"""

    def step(x: Tensor, y: Tensor) -> Any:
        def closure() -> Tensor:
            t.optimizer.zero_grad()
            loss = t.loss(t.model(x), y)
            loss.backward()
            return loss

        return t.optimizer.step(closure)

    return t.compile(step)


@several_graphs
def scheduled(t: Training) -> Step:
    """a learning rate that a scheduler changes, inside"""
    scheduler = torch.optim.lr_scheduler.StepLR(t.optimizer, 2, 0.5)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        scheduler.step()
        return loss

    return t.compile(step)


@several_graphs
def frozen_in_turn(t: Training) -> Step:
    """a part of the model is frozen in every other step"""
    count = 0

    def train(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        return loss

    compiled = t.compile(train)
    first = t.parameters()[0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal count
        count += 1
        first.requires_grad_(count % 2 == 1)
        return compiled(x, y)

    return step


@several_graphs
def scaled(t: Training) -> Step:
    """a GradScaler, whose step depends on data"""
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        t.optimizer.zero_grad()
        loss = t.loss(t.model(x), y)
        scaler.scale(loss).backward()
        scaler.step(t.optimizer)
        scaler.update()
        return loss

    return t.compile(step)


STYLES: dict[str, Style] = {**ONE_GRAPH, **SEVERAL_GRAPHS}


# Programs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """One training program: names of its parts."""

    model: str
    loss: str
    optimizer: str
    style: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.model}-{self.loss}-{self.optimizer}-{self.style}-{self.seed}"

    def run(self, compile: Compile, batches: tuple[int, ...] = (4, 4, 4, 6)) -> dict[str, Any]:
        """Train for some steps; all that can be seen: losses, parameters, gradients, states.

        Args:
            compile: what makes the functions of the loop fast.
            batches: how many examples each step has.
        """
        torch.manual_seed(self.seed)
        model = MODELS[self.model]().double()
        optimizer = OPTIMIZERS[self.optimizer](model.parameters())
        step = STYLES[self.style](Training(model, LOSSES[self.loss], optimizer, compile))
        seen = [_kept(step(*_batch(size, i + self.seed))) for i, size in enumerate(batches)]
        return {
            "results": seen,
            "parameters": [_kept(p) for p in model.parameters()],
            "buffers": [_kept(b) for b in model.buffers()],
            "averages": _kept(getattr(model, "averages", None)),
            "gradients": [_kept(p.grad) for p in model.parameters()],
            "layouts": [_layout(p.grad) for p in model.parameters()],
            "state": _kept(optimizer.state_dict()),
        }


def _batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, CLASSES, (size,), generator=generator)


def _kept(value: Any) -> Any:
    """The value as it is now."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [_kept(each) for each in value]
    if isinstance(value, dict):
        return {key: _kept(each) for key, each in value.items()}
    return value


def _layout(gradient: Tensor | None) -> Any:
    return None if gradient is None else (gradient.stride(), gradient.requires_grad)


# Comparing ----------------------------------------------------------------------------------------


def is_fair(program: Program) -> bool:
    """Whether rounding cannot decide: gradients that are 0 but for rounding have no sign."""
    noisy = program.model == "attentive" or program.style in ("in_autocast", "weighted")
    return not (program.optimizer in BY_SIGN and noisy)


def programs() -> st.SearchStrategy[Program]:
    """Programs of all parts."""
    tables = (MODELS, LOSSES, OPTIMIZERS, STYLES)
    parts = [st.sampled_from(sorted(table)) for table in tables]
    return st.builds(Program, *parts, seed=st.integers(0, 99)).filter(is_fair)


def random_programs(seed: int) -> Iterator[Program]:
    """Programs without end, the same ones for the same seed."""
    draw = random.Random(seed)
    while True:
        parts = (draw.choice(sorted(t)) for t in (MODELS, LOSSES, OPTIMIZERS, STYLES))
        program = Program(*parts, seed=draw.randrange(100))
        if is_fair(program):
            yield program


def check(program: Program, backend: str = "aot_eager") -> stages.StageLog:
    """Compare a program with eager.

    Raises:
        AssertionError: a result differs, or what is one graph breaks.
    """
    expected = program.run(lambda function: function)
    minitorch2.reset()
    with config.patch(fallback_random=True), stages.collect() as log:
        given = program.run(lambda function: minitorch2.compile(function, backend=backend))
    rough = program.style == "in_autocast"
    tolerance = {"rtol": 5e-2, "atol": 2e-2} if rough else {"rtol": 1e-6, "atol": 1e-8}
    torch.testing.assert_close(given, expected, **tolerance)
    if program.style in ONE_GRAPH and program.optimizer not in BREAKING:
        assert not log.counts["graph_breaks"], log.texts("graph_break")
    return log


def main() -> int:
    """Check many programs; how many of them are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="numba")
    parser.add_argument("--only", help="one program, as it is printed")
    options = parser.parse_args()
    chosen = itertools.islice(random_programs(options.seed), options.count)
    if options.only:
        *parts, seed = options.only.split("-")
        chosen = iter([Program(*parts, seed=int(seed))])
    wrong = 0
    for program in chosen:
        try:
            log = check(program, options.backend)
            counts = [log.counts[name] for name in ("graphs", "graph_breaks", "frames_as_is")]
            line = "ok    {}  graphs {}, breaks {}, in Python {}".format(program, *counts)
        except Exception as error:
            wrong += 1
            line = f"WRONG {program}  {type(error).__name__}: {str(error).strip().splitlines()[0]}"
            if options.only:
                traceback.print_exc()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"{wrong} wrong\n")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
