"""Deferred execution beside eager mode, `torch._lazy` and our bytecode capture.

    python -m benchmarks lazy                    all tables; also: python -m benchmarks.lazy
    python -m benchmarks.lazy --only steps
    python -m benchmarks.lazy --only growth --steps 100000

Times are those of the processor, for one thread: medians, or the least, of one run. Losses of the
lazy run are compared with those of eager mode.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.profiler import ProfilerActivity, profile

import minitorch2
from minitorch2 import config, lazy

Loss: TypeAlias = Callable[[nn.Module, int, int], torch.Tensor]


# Sizes that vary ----------------------------------------------------------------------------------


def perceptron() -> nn.Module:
    """A model of vectors."""
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))


def perceptron_loss(model: nn.Module, batch: int, length: int) -> torch.Tensor:
    """A loss of vectors: the length is one more batch dimension."""
    target = torch.randint(4, (batch * length,))
    return nn.functional.cross_entropy(model(torch.randn(batch * length, 16)), target)


def language_models() -> dict[str, Callable[[], nn.Module]]:
    """Tiny models of transformers, if the library is there."""
    try:
        import transformers as t  # an extra of the benchmarks
    except ImportError:
        return {}
    words = {"vocab_size": 100}
    bert = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    return {
        "BERT": lambda: t.BertForMaskedLM(t.BertConfig(intermediate_size=128, **bert, **words)),
        "GPT-2": lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=64, n_layer=2, n_head=4, **words)),
        "T5": lambda: t.T5ForConditionalGeneration(
            t.T5Config(decoder_start_token_id=0, **sizes, **words)
        ),
    }


def words_loss(model: nn.Module, batch: int, length: int) -> torch.Tensor:
    """The loss of a language model that is to give its input back."""
    words = torch.randint(1, 100, (batch, length))
    return model(input_ids=words, labels=words).loss


class Detector(nn.Module):
    """A head that refines the places of an image whose scores are high: data tell how many."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.scores, self.boxes = nn.Conv2d(8, 1, 1), nn.Linear(8, 4)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.features(images)
        scores = self.scores(features).squeeze(1)
        chosen = features.permute(0, 2, 3, 1)[scores > scores.mean()]
        return scores, self.boxes(chosen)


def detector_loss(model: nn.Module, batch: int, length: int) -> torch.Tensor:
    """The loss of scores and of the chosen boxes."""
    scores, boxes = model(torch.randn(batch, 3, 8, length))
    return scores.sigmoid().mean() + (boxes - 1).abs().mean()


def losses(
    make: Callable[[], nn.Module], loss_of: Loss, sizes: list[tuple[int, int]], *, is_lazy: bool
) -> Iterator[float]:
    """Train with AdamW for a step of each size; yield the losses."""
    torch.manual_seed(0)
    model = make().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for batch, length in sizes:
        with minitorch2.lazily() if is_lazy else nullcontext():
            optimizer.zero_grad()
            loss = loss_of(model, batch, length)
            loss.backward()
            optimizer.step()
        yield float(loss.detach())


def compilations() -> Table:
    """How many programs are compiled while 20 sizes come by, after four steps of one size."""
    draw = random.Random(0)
    sizes = [(2, 16)] * 4 + [(draw.randint(2, 6), draw.randint(5, 40)) for _ in range(20)]
    shown = Table("model", "programs", "in the last 15", "largest difference of losses")
    models = {name: (make, words_loss) for name, make in language_models().items()}
    models |= {"perceptron": (perceptron, perceptron_loss), "detector": (Detector, detector_loss)}
    for name, (make, loss_of) in models.items():
        wanted = list(losses(make, loss_of, sizes, is_lazy=False))
        lazy.reset()
        given, compiled = [], []
        for loss in losses(make, loss_of, sizes, is_lazy=True):
            given.append(loss)
            compiled.append(lazy.metrics().compiled)
        difference = max(abs(a - b) for a, b in zip(given, wanted, strict=True))
        late = compiled[-1] - compiled[-16]
        shown.add_row(name, str(compiled[-1]), str(late), f"{difference:.1e}")
    return shown


# Recording ----------------------------------------------------------------------------------------


def microseconds(run: Callable[[int], object], calls: int = 2000) -> float:
    """The least time of the processor for a call, of several runs."""
    best = float("inf")
    for _ in range(12):
        start = time.thread_time()
        run(calls)
        best = min(best, (time.thread_time() - start) / calls)
    return best * 1e6


def adding(a: Any, b: Any, end: Callable[[], object]) -> Callable[[int], None]:
    """Add many times; then end the step without running it."""

    def run(calls: int) -> None:
        total = a
        for _ in range(calls):
            total = total + b
        del total
        end()

    return run


def recording() -> Table:
    """What an addition of four elements costs until the call returns."""
    x, y = torch.randn(4), torch.randn(4)
    shown = Table("an addition", "microseconds")
    shown.add_row("eager", f"{microseconds(adding(x, y, lambda: None)):.1f}")
    floor = microseconds(adding(Empty(x), Empty(y), lambda: None))
    shown.add_row("a dispatch to Python that does nothing", f"{floor:.1f}")
    shown.add_row("a wrapper tensor", f"{microseconds(wrapping):.1f}")
    a, b = lazy.to_lazy(x), lazy.to_lazy(y)
    shown.add_row("lazy tensors", f"{microseconds(adding(a, b, lazy.mark_step)):.1f}")
    peer = _peer_tensors(x, y)
    if peer is not None:
        *tensors, step = peer
        shown.add_row("torch._lazy", f"{microseconds(adding(*tensors, step)):.1f}")
    return shown


class Empty(torch.Tensor):
    """A tensor whose operators do nothing: what dispatch to Python costs at the least."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, like: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, like.size(), like.stride())

    @staticmethod
    def __torch_dispatch__(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0]


def wrapping(calls: int) -> None:
    """Make wrapper tensors."""
    like = torch.randn(4)
    for _ in range(calls):
        Empty(like)


def _peer_tensors(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, Any, Callable[[], object]] | None:
    """PyTorch's own lazy tensors, with its TorchScript backend, if this build has it."""
    try:
        import torch._lazy
        import torch._lazy.ts_backend

        torch._lazy.ts_backend.init()
        return x.to("lazy"), y.to("lazy"), torch._lazy.mark_step
    except (ImportError, RuntimeError):
        return None


# Steps --------------------------------------------------------------------------------------------


def gpt() -> nn.Module:
    """A small transformer of four blocks."""
    block = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
    return nn.Sequential(
        nn.Embedding(100, 128), nn.TransformerEncoder(block, 4), nn.Linear(128, 100)
    )


def gpt_loss(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    """The loss of the next word."""
    return nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())


def squares(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A loss of vectors."""
    return model(x).square().mean()


Inputs: TypeAlias = Callable[[int], torch.Tensor]
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[..., torch.Tensor], Inputs]] = {
    "perceptron": (perceptron, squares, lambda batch: torch.randn(64 * batch, 16)),
    "GPT": (gpt, gpt_loss, lambda batch: torch.randint(100, (batch, 64))),
}
WARM = 6
"""Steps before the clock counts: `torch._lazy` compiles in the first two, and profiles a third."""


def training_step(name: str, batch: int, way: str) -> Callable[[int], tuple[float, float]]:
    """Return a training step with AdamW on fresh inputs, which gives its seconds and its loss."""
    make, loss_of, inputs = MODELS[name]
    torch.manual_seed(0)
    model = make().train()
    if way == "lazy model":
        lazy.to_lazy(model)
    if way == "torch._lazy":
        model = model.to("lazy")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = minitorch2.compile(model) if way == "compiled" else model

    def gradients(x: torch.Tensor) -> torch.Tensor:
        loss = loss_of(run, x)
        loss.backward()
        return loss.detach()

    differentiate = lazy.stable(gradients) if way == "stable" else gradients

    def step(number: int) -> tuple[float, float]:
        torch.manual_seed(number)
        x = inputs(batch)
        x = x.to("lazy") if way == "torch._lazy" else x
        start = time.thread_time()
        with minitorch2.lazily() if way in ("region", "stable") else nullcontext():
            optimizer.zero_grad()
            loss = differentiate(x)
            optimizer.step()
        if way == "lazy model":
            lazy.sync()
        if way == "torch._lazy":
            torch._lazy.mark_step()
        value = float(loss.cpu())
        return time.thread_time() - start, value

    return step


def in_turns(name: str, batch: int, ways: Sequence[str], count: int) -> list[str]:
    """Return the row of a model: milliseconds in eager mode, ratios, the difference of losses."""
    steps = {way: training_step(name, batch, way) for way in ("eager", *ways)}
    taken: dict[str, list[float]] = {way: [] for way in steps}
    largest = 0.0
    for number in range(WARM + count):
        losses = []
        for way, step in steps.items():
            seconds, loss = step(number)
            taken[way].append(seconds)
            losses.append(loss)
        largest = max(largest, max(losses) - min(losses))
    middle = {way: median(found[WARM:]) for way, found in taken.items()}
    ratios = (f"{middle[way] / middle['eager']:.2f}" for way in ways)
    return [name, str(batch), f"{middle['eager'] * 1e3:.1f}", *ratios, f"{largest:.0e}"]


def table_of_steps(ways: Sequence[str], cases: Sequence[tuple[str, int, int]]) -> Table:
    """Whole training steps, as ratios to eager mode; all ways take turns."""
    ratios = (f"{way} / eager" for way in ways)
    shown = Table("model", "batch", "eager, ms", *ratios, "difference of losses")
    for name, batch, count in cases:
        shown.add_row(*in_turns(name, batch, ways, count))
    return shown


def steps() -> Table:
    """A region, a stable function in one, a lazy model, and a compiled one."""
    cases = [(name, batch, 24) for name in MODELS for batch in (1, 8)]
    return table_of_steps(("region", "stable", "lazy model", "compiled"), cases)


def peers() -> Table:
    """A region, and PyTorch's lazy tensors if this build has them."""
    has_peer = _peer_tensors(torch.ones(1), torch.ones(1)) is not None
    ways = ("region", "stable", "torch._lazy") if has_peer else ("region", "stable")
    return table_of_steps(ways, [("GPT", 1, 9), ("GPT", 8, 7), ("GPT", 64, 3)])


# The LazyTensor paper's table 4 -------------------------------------------------------------------


class Segments(nn.Module):
    """A model of words without blanks: a word has at most five characters.

    `forward` maps the characters of a sentence (int64 [length]) to the logarithm of the sum of the
    probabilities of all ways to cut it into words.
    """

    LONGEST = 5

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.cell = nn.Embedding(64, 128), nn.GRUCell(128, 128)
        self.next = nn.Linear(128, 64)

    def forward(self, sentence: torch.Tensor) -> torch.Tensor:
        count = len(sentence)
        inputs = self.characters(sentence)
        ends: list[list[torch.Tensor]] = [[torch.zeros(())], *([] for _ in range(count))]
        for begin in range(count):
            state, score = torch.zeros(1, 128), torch.logsumexp(torch.stack(ends[begin]), 0)
            for place in range(begin, min(count, begin + self.LONGEST)):
                logarithms = torch.log_softmax(self.next(state), -1)[0]
                score = score + logarithms.gather(0, sentence[place : place + 1])[0]
                ends[place + 1].append(score)
                state = self.cell(inputs[place : place + 1], state)
        return torch.logsumexp(torch.stack(ends[-1]), 0)


def seconds_a_score(length: int, *, differentiate: bool, is_lazy: bool) -> float:
    """The median time of a sentence's score, after six of them."""
    torch.manual_seed(0)
    model, taken = Segments(), []
    for _ in range(26):
        start = time.thread_time()
        with minitorch2.lazily() if is_lazy else nullcontext():
            score = model(torch.randint(64, (length,)))
            if differentiate:
                score.backward()
                model.zero_grad()
            del score
        taken.append(time.thread_time() - start)
    return median(taken[6:])


def words() -> Table:
    """Scores of sentences, in the shape of the LazyTensor paper's table 4."""
    shown = Table("operation, length", "eager, ms", "lazy, ms", "lazy / eager")
    for differentiate in (False, True):
        for length in (4, 8, 14):
            eager, given = (
                seconds_a_score(length, differentiate=differentiate, is_lazy=is_lazy)
                for is_lazy in (False, True)
            )
            name = f"score{' and gradient' * differentiate}, {length}"
            shown.add_row(name, f"{eager * 1e3:.2f}", f"{given * 1e3:.2f}", f"{given / eager:.2f}")
    return shown


# Programs that run once ---------------------------------------------------------------------------


def once() -> Table:
    """Different operators that run once: nothing is to be compiled."""
    warnings.simplefilter("ignore")
    x = torch.rand(16, 16) + 0.5
    functions = [f for f in _functions() if _gives_tensor(f, x)][:200]

    x = x.clone()  # NumPy has seen the memory of the other one

    def seconds(region: Callable[[], AbstractContextManager[None]]) -> float:
        lazy.reset()
        start = time.thread_time()
        with region():
            for function in functions:
                function(x)
        return time.thread_time() - start

    eager, given = (median(seconds(r) for _ in range(9)) for r in (nullcontext, minitorch2.lazily))
    shown = Table("operators that run once", "eager, ms", "lazy / eager", "programs")
    counts = str(len(functions)), f"{eager * 1e3:.2f}"
    shown.add_row(*counts, f"{given / eager:.1f}", str(lazy.metrics().compiled))
    return shown


def _functions() -> Iterator[Any]:
    """Yield methods of tensors, then functions of other names."""
    known: set[str] = set()
    for room in (torch.Tensor, torch.special, nn.functional, torch.linalg, torch.fft):
        for name in dir(room):
            if name not in known and not name.startswith("_") and not name.endswith("_"):
                known.add(name)
                yield getattr(room, name)


def _gives_tensor(function: Any, x: torch.Tensor) -> bool:
    """Return whether a function gives a dense tensor of its own."""
    try:
        given = function(x)
        return type(given) is torch.Tensor and given.layout is torch.strided
    except Exception:
        return False


# Memory -------------------------------------------------------------------------------------------


def wide() -> nn.Module:
    """A model whose parameters take more memory than its activations."""
    return nn.Sequential(nn.Linear(16, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.Linear(1024, 4))


def peak_of_a_step(*, is_lazy: bool) -> tuple[int, int]:
    """Return the most bytes that a step with SGD holds at one time, and those of parameters."""
    torch.manual_seed(0)
    model = wide()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        with minitorch2.lazily() if is_lazy else nullcontext():
            optimizer.zero_grad()
            perceptron_loss(model, 4, 2).backward()
            optimizer.step()

    for _ in range(4):
        step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    peak = max(accumulate(size for _, size in changes))
    return peak, sum(p.nbytes for p in model.parameters())


def memory() -> Table:
    """The peak of a step with SGD, and what the trie takes for a place."""
    (eager, parameters), (given, _) = (peak_of_a_step(is_lazy=way) for way in (False, True))
    lazy.reset()
    with config.patch(donate_inputs=False):
        naive, _ = peak_of_a_step(is_lazy=True)
    shown = Table("memory", "")
    shown.add_row("parameters, kB", f"{parameters / 1000:.0f}")
    shown.add_row("peak of a step above them, eager, kB", f"{eager / 1000:.0f}")
    shown.add_row("peak of a step above them, lazy, kB", f"{given / 1000:.0f}")
    shown.add_row("lazy / eager, parameters included", f"{_ratio(given, eager, parameters):.2f}")
    shown.add_row("the same without donation", f"{_ratio(naive, eager, parameters):.2f}")
    shown.add_row("bytes of the trie for a place", f"{bytes_of_a_place():.0f}")
    return shown


def _ratio(given: int, eager: int, parameters: int) -> float:
    return (given + parameters) / (eager + parameters)


def bytes_of_a_place(count: int = 2000) -> float:
    """Return the memory of Python that one new operator of a step leaves in the trie."""
    lazy.reset()
    x = lazy.to_lazy(torch.ones(4))
    (x + 1).tolist()
    tracemalloc.start()
    before, places = tracemalloc.get_traced_memory()[0], lazy.metrics().places
    for _ in range(count):
        x = x.sin()
    lazy.mark_step()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return taken / (lazy.metrics().places - places)


def growth(steps: int = 2000) -> Table:
    """What the process holds after each tenth of many steps of changing sizes."""
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    columns = "memory of the process, MB", "objects of Python", "places and forms", "programs"
    shown = Table("steps", *columns)
    for number in range(steps):
        with minitorch2.lazily():
            optimizer.zero_grad()
            (torch.randn(2 + number % 7, 4) @ weight).square().mean().backward()
            optimizer.step()
        if (number + 1) % (steps // 10) == 0:
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            used = f"{pages * os.sysconf('SC_PAGE_SIZE') / 1e6:.0f}"
            metrics = lazy.metrics()
            counts = len(gc.get_objects()), metrics.places, metrics.compiled
            shown.add_row(str(number + 1), used, *map(str, counts))
    return shown


TABLES: dict[str, Callable[..., Table]] = {
    "memory": memory,
    "growth": growth,
    "recording": recording,
    "once": once,
    "words": words,
    "steps": steps,
    "peers": peers,
    "compilations": compilations,
}


def run(only: str, steps: int, console: Console) -> int:
    """Print the tables whose names contain a text; return the exit status."""
    for name, table in TABLES.items():
        if only in name:
            shown = table(steps) if table is growth else table()
            shown.title = f"{name}, {torch.get_num_threads()} threads"
            console.print(shown)
    return 0


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*TABLES], default="")
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    run(options.only, options.steps, Console())


if __name__ == "__main__":
    main()
