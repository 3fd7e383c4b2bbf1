"""Models on a GPU: eager, minitorch2 and torch.compile in one run, in default mode and with CUDA
graphs.

    python -m benchmarks.gpu_models --jobs 4 --peer --mode default --mode reduce-overhead
    python -m benchmarks.gpu_models --training --only BERT --profile

Inference runs in float16; so does training, which is forward and backward for a random gradient of
the output. Weights are random, from a fixed seed. A result is correct if it is as near to eager's
float32 result as eager's own float16 result is, within a factor of two. With `--jobs` several
models are compiled at once; they are timed one after the other, when nobody compiles, and all
compilers of a model in turns. `--profile` writes the kernels of a call, too, with the time that
each takes on the device.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import math
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import minitorch2
from benchmarks.compilers import EAGER
from benchmarks.settled import settled
from minitorch2 import stages

Inputs = tuple[Tensor, ...]
DEVICE = "cuda"
SCALE = 1 / 64
"""Of the gradients that flow into a model, so that float16 holds all that flow out of it."""
SECONDS = 0.4
"""How long each compiler is timed, after five calls in each round."""
ROUNDS = 4
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Model:
    """`make()` builds it; `inputs()` are fresh ones for it; integers are tokens."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]


def _transformer(name: str, config: str, **sizes: Any) -> Callable[[], nn.Module]:
    """A model of the transformers library with random weights."""

    def make() -> nn.Module:
        library: Any = importlib.import_module("transformers")
        options = getattr(library, config)(use_cache=False, **sizes)
        return getattr(library, name)(options)  # type: ignore[no-any-return]

    return make


class Translator(nn.Module):
    """An encoder and decoder with two sequences of tokens as positional arguments."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> Any:
        return self.model(input_ids=tokens, decoder_input_ids=targets)


def _translator() -> nn.Module:
    sizes = {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8}
    return Translator(_transformer("T5Model", "T5Config", **sizes)())


def _vision(library: str, name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module: Any = importlib.import_module(library)
        return getattr(module, name)()  # type: ignore[no-any-return]

    return make


def _timm(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module: Any = importlib.import_module("timm")
        return module.create_model(name, pretrained=False)  # type: ignore[no-any-return]

    return make


def _tokens(*shapes: tuple[int, int], words: int = 30000) -> Callable[[], Inputs]:
    return lambda: tuple(torch.randint(words, shape, device=DEVICE) for shape in shapes)


def _images(count: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(count, 3, 224, 224, device=DEVICE),)


_LLAMA = {
    "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 32000,
}  # fmt: skip
MODELS: dict[str, Model] = {
    "BERT-base 16x128": Model(
        _transformer("BertModel", "BertConfig", add_pooling_layer=False), _tokens((16, 128))
    ),
    "GPT-2 8x256": Model(_transformer("GPT2Model", "GPT2Config"), _tokens((8, 256))),
    "Llama-style 8x256": Model(_transformer("LlamaModel", "LlamaConfig", **_LLAMA),
                               _tokens((8, 256))),
    "T5-small 8x128": Model(_translator, _tokens((8, 128), (8, 128))),
    "DistilBERT 16x128": Model(_transformer("DistilBertModel", "DistilBertConfig"),
                               _tokens((16, 128))),
    "DistilBERT 64x128": Model(_transformer("DistilBertModel", "DistilBertConfig"),
                                _tokens((64, 128))),
    "GPT-2 32x256": Model(_transformer("GPT2Model", "GPT2Config"), _tokens((32, 256))),
    "ResNet-50 32": Model(_vision("torchvision.models", "resnet50"), _images(32)),
    "ViT-B/16 16": Model(_timm("vit_base_patch16_224"), _images(16)),
    "ConvNeXt-tiny 16": Model(_timm("convnext_tiny"), _images(16)),
    "Mixer-B/16 16": Model(_timm("mixer_b16_224"), _images(16)),
}  # fmt: skip
"""The models of the comparison, with batch and length."""


@dataclass
class Measured:
    """One model by one compiler: milliseconds a call, seconds of the first call(s), the relative
    error against float32, and what went wrong if anything did. `phases` are the seconds of the
    first call (what is no phase of the compiler is `running`), and counts."""

    model: str
    compiler: str
    training: bool
    milliseconds: float = math.nan
    first_call: float = math.nan
    error: float = math.nan
    failure: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of one call, if asked for: microseconds on the device, and the number of launches."""

    def is_as_near_as(self, eager: Measured) -> bool:
        """Whether it is about as near to float32 as eager is."""
        return self.error <= 2 * eager.error + 1e-3


MakeCompilers = Callable[[], Mapping[str, Callable[[Any], Any]]]
"""What is compared, by name, and eager among it; made anew in each process."""


def compilers(modes: Sequence[str], peer: bool) -> dict[str, Callable[[Any], Any]]:
    """What is compared, by name."""
    found: dict[str, Callable[[Any], Any]] = {EAGER: lambda model: model}
    for mode in modes:
        found[f"minitorch2 {mode}"] = lambda m, mode=mode: minitorch2.compile(m, mode=mode)
        if peer:
            found[f"torch.compile {mode}"] = lambda m, mode=mode: torch.compile(m, mode=mode)
    return found


def flat(output: Any) -> list[Tensor]:
    """The tensors of a result."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):  # what transformers return
        output = tuple(output.values())
    return [t for item in output or () for t in flat(item)] if output is not None else []


def prepared(model: Model, training: bool, dtype: torch.dtype) -> nn.Module:
    """The model with its weights from a fixed seed."""
    torch.manual_seed(0)
    module = model.make().to(DEVICE, dtype).train(training)
    for weight in module.parameters():  # some libraries begin with an output of zeros
        if weight.dim() > 1 and not weight.any():
            nn.init.normal_(weight, std=0.02)
    for part in module.modules():  # so that results can be compared
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        for name in ("drop_prob", "attention_dropout", "attn_pdrop", "dropout"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return module


def runner(called: Any, module: nn.Module, training: bool) -> Callable[[Inputs], list[Tensor]]:
    """One step: the outputs, or the first output and the gradients of all weights."""
    if not training:

        def infer(inputs: Inputs) -> list[Tensor]:
            with torch.no_grad():
                return flat(called(*inputs))

        return infer
    gradients: dict[torch.Size, Tensor] = {}

    def train(inputs: Inputs) -> list[Tensor]:
        output = flat(called(*inputs))[0]
        if output.shape not in gradients:
            generator = torch.Generator(DEVICE).manual_seed(0)
            gradients[output.shape] = (
                torch.randn(output.shape, generator=generator, device=DEVICE, dtype=torch.float32)
                .mul(SCALE)
                .to(output.dtype)
            )
        for weight in module.parameters():
            weight.grad = None
        output.backward(gradients[output.shape])
        grads = ((w, w.grad) for w in module.parameters())
        return [output.detach(), *(torch.zeros_like(w) if g is None else g for w, g in grads)]

    return train


def converted(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Images in the dtype, tokens as they are."""
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def distance(got: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The greatest relative error of the output and of all gradients together."""
    if len(got) != len(expected):
        return math.inf
    groups = [([got[0]], [expected[0]]), (got[1:], expected[1:])]
    return max(_relative(g, e) for g, e in groups if g)


def _relative(got: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    wrong = sum(float((g.double() - e.double()).square().sum()) for g, e in zip(got, expected))
    size = sum(float(e.double().square().sum()) for e in expected)
    return math.sqrt(wrong / size) if math.isfinite(wrong) else math.inf


def milliseconds(step: Callable[[], Any], seconds: float, least: int = 20) -> float:
    """The median of single calls."""
    return median(times(step, seconds, least))


def times(step: Callable[[], Any], seconds: float, least: int = 20) -> list[float]:
    """Milliseconds of single calls, by device events, after a warm-up."""
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    spent: list[float] = []
    start = time.perf_counter()
    while len(spent) < least or (time.perf_counter() - start < seconds and len(spent) < 400):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        step()
        events[1].record()
        torch.cuda.synchronize()
        spent.append(events[0].elapsed_time(events[1]))
    return spent


def side_by_side(steps: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The milliseconds of each step's calls. They take turns, so that what slows the machine for a
    while slows them all, until their ratios to eager are known (`settled`)."""

    def round_of_all() -> dict[str, float]:
        return {n: milliseconds(step, SECONDS / ROUNDS, least=10) for n, step in steps.items()}

    return settled(round_of_all, EAGER, least=ROUNDS)


def profiled(step: Callable[[], Any], calls: int = 5) -> dict[str, tuple[float, float]]:
    """What runs on the device in one call: microseconds and launches by kernel, slowest first."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(calls):
            step()
        torch.cuda.synchronize()
    spent: dict[str, tuple[float, float]] = {
        event.key: (round(event.self_device_time_total / calls, 2), event.count / calls)
        for event in profiler.key_averages()
        if event.self_device_time_total
    }
    return dict(sorted(spent.items(), key=lambda item: -item[1][0]))


@dataclass(frozen=True)
class Turn:
    """Who may use the GPU alone: the processes take turns when all have compiled, or it is late."""

    folder: str
    processes: int
    deadline: float
    profiles: bool = False
    """Whether kernels are timed one by one, too."""

    def is_late(self) -> bool:
        """Whether it is time to measure what there is."""
        return time.time() > self.deadline

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for the others, and for a turn."""
        Path(self.folder, f"{os.getpid()}.ready").touch()
        while len(list(Path(self.folder).glob("*.ready"))) < self.processes:
            if time.time() > self.deadline + 60:
                break
            time.sleep(0.1)
        with open(os.path.join(self.folder, "lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def measure(name: str, training: bool, make: MakeCompilers, turn: Turn,
            dtype: torch.dtype = torch.float16) -> list[Measured]:  # fmt: skip
    """One model by every compiler: all compile and are checked first, then all are timed."""
    model, results = MODELS[name], []
    torch.manual_seed(1)
    inputs = model.inputs()
    exact = prepared(model, training, torch.float32)
    expected = [t.clone() for t in runner(exact, exact, training)(inputs)]
    del exact
    inputs, steps = converted(inputs, dtype), {}
    for compiler, compiled in make().items():
        result = Measured(name, compiler, training)
        if compiler != EAGER and turn.is_late():
            result.failure = "not compiled in time"
            continue
        results.append(result)
        try:
            steps[compiler] = first_calls(result, model, compiled, inputs, expected, dtype)
        except Exception:
            result.failure = traceback.format_exc()
    with turn.alone():
        calls = {name: partial(step, inputs) for name, step in steps.items()}
        spent = side_by_side(calls)
        for result in results:
            if result.compiler in calls:
                result.milliseconds = spent[result.compiler]
                result.kernels = profiled(calls[result.compiler]) if turn.profiles else {}
            print(shown(result), flush=True)
    return results


def shown(result: Measured) -> str:
    """A result as a line of the log."""
    kind = "train" if result.training else "infer"
    return (
        f"{result.model:20} {kind} {result.compiler:30} {result.milliseconds:8.3f} ms "
        f"first {result.first_call:6.2f} s error {result.error:.1e} {result.phases or ''}"
        f"{result.failure[-3000:]}"
    )


def first_calls(result: Measured, model: Model, compiled: Callable[[Any], Any], inputs: Inputs,
                expected: list[Tensor], dtype: torch.dtype) -> Callable[..., Any]:  # fmt: skip
    """Compile, note how long that takes, compare; the compiled step."""
    module = prepared(model, result.training, dtype)
    step = runner(compiled(module), module, result.training)
    torch.cuda.synchronize()
    start = time.perf_counter()
    with stages.collect(texts=False) as log:
        step(inputs)
        torch.cuda.synchronize()
    result.first_call = time.perf_counter() - start
    if "minitorch2" in result.compiler:
        seconds = {**log.seconds, "running": result.first_call - sum(log.seconds.values())}
        result.phases = {n: round(s, 2) for n, s in seconds.items() if s >= 0.01}
        wanted = ("graphs", "graph_breaks", "kernels", "fallbacks", "templates")
        result.phases |= {n: float(c) for n, c in log.counts.items() if n in wanted}
    for _ in range(3):  # CUDA graphs are recorded in the second and third call
        got = step(inputs)
    result.error = distance(got, expected)
    return step


def table(results: Sequence[Measured]) -> str:
    """Milliseconds by model and compiler, first calls, and geometric means of the ratios."""
    names = list(dict.fromkeys(r.compiler for r in results))
    lines = ["| model | " + " | ".join(f"{n}, ms" for n in names) + " | first calls, s |"]
    lines.append("| --- |" + " ---: |" * len(names) + " --- |")
    for training in (False, True):
        chosen = [r for r in results if r.training == training]
        for model in dict.fromkeys(r.model for r in chosen):
            row = {r.compiler: r for r in chosen if r.model == model}
            cells = [_cell(row.get(n), row["eager"]) for n in names]
            first = " / ".join(f"{row[n].first_call:.1f}" for n in names[1:] if n in row)
            label = f"{model}{', training' if training else ''}"
            lines.append(f"| {label} | {' | '.join(cells)} | {first} |")
        lines += _means(chosen, names)
    return "\n".join(lines)


def _cell(result: Measured | None, eager: Measured) -> str:
    if result is None or result.failure:
        return "failed"
    note = "" if result.is_as_near_as(eager) else f" WRONG {result.error:.1e}"
    return f"{result.milliseconds:.3f}{note}"


def _means(results: Sequence[Measured], names: Sequence[str]) -> list[str]:
    lines = []
    for ours in (n for n in names if n.startswith("minitorch2")):
        for other in ("eager", ours.replace("minitorch2", "torch.compile")):
            pairs = [(a, b) for a in results for b in results
                     if a.model == b.model and (a.compiler, b.compiler) == (ours, other)
                     and not a.failure and not b.failure]  # fmt: skip
            if pairs:
                ratios = [a.milliseconds / b.milliseconds for a, b in pairs]
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                spread = f"geometric mean {mean:.3f}, most {max(ratios):.3f}"
                lines.append(f"{ours} over {other}: {spread} ({len(pairs)} models)")
    return lines


def at_once(jobs: Sequence[tuple[str, bool]], make: MakeCompilers, deadline: float,
            profiles: bool = False) -> list[Measured]:  # fmt: skip
    """The results of jobs that compile at once, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        turn = Turn(folder, len(jobs), deadline, profiles)
        spawn = get_context("spawn")
        with ProcessPoolExecutor(len(jobs), spawn, max_tasks_per_child=1) as pool:
            work = [pool.submit(measure, *job, make, turn) for job in jobs]
            return [result for future in as_completed(work) for result in future.result()]


def main(arguments: Sequence[str]) -> int:
    """Measure, print a table, write JSON; the status is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="models that contain this text")
    parser.add_argument("--mode", action="append", default=[])
    parser.add_argument("--training", action="store_true", help="forward and backward, too")
    parser.add_argument("--no-inference", action="store_true")
    parser.add_argument("--peer", action="store_true", help="torch.compile beside")
    parser.add_argument("--jobs", type=int, default=1, help="so many models compile at once")
    parser.add_argument("--minutes", type=float, default=60.0, help="then measure what there is")
    parser.add_argument("--profile", action="store_true", help="time kernels one by one, too")
    parser.add_argument("--out", default=str(RESULTS / "gpu_models.json"))
    options = parser.parse_args(arguments)
    kinds = [False] * (not options.no_inference) + [True] * options.training
    names = [n for n in MODELS if not options.only or any(o in n for o in options.only)]
    modes = options.mode or ["default"]
    results: list[Measured] = []
    jobs = [(name, training) for training in kinds for name in names]
    deadline = time.time() + 60 * options.minutes
    for first in range(0, len(jobs), options.jobs):  # nobody compiles while others are timed
        wave = jobs[first : first + options.jobs]
        results += at_once(wave, partial(compilers, modes, options.peer), deadline, options.profile)
        Path(options.out).write_text(json.dumps([asdict(r) for r in results], indent=1))
    results.sort(key=lambda result: (result.training, names.index(result.model)))
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print(table(results))
    return int(any(r.failure for r in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
