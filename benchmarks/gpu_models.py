"""Models on a GPU: eager, minitorch2 and torch.compile in one run, in default mode and with CUDA
graphs.

    python -m benchmarks.gpu_models --jobs 4 --peer --mode default --mode reduce-overhead
    python -m benchmarks.gpu_models --training --only bert

Inference runs in float16; so does training, which is forward and backward for a random gradient of
the output. Weights are random, from a fixed seed. A result is correct if it is as near to eager's
float32 result as eager's own float16 result is, within a factor of two. With `--jobs` several
models are compiled at once; whoever measures has the GPU alone.
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Inputs = tuple[Tensor, ...]
DEVICE = "cuda"
SCALE = 1 / 64
"""Of the gradients that flow into a model, so that float16 holds all that flow out of it."""
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
    "ResNet-50 32": Model(_vision("torchvision.models", "resnet50"), _images(32)),
    "ViT-B/16 16": Model(_timm("vit_base_patch16_224"), _images(16)),
    "ConvNeXt-tiny 16": Model(_timm("convnext_tiny"), _images(16)),
    "Mixer-B/16 16": Model(_timm("mixer_b16_224"), _images(16)),
}  # fmt: skip
"""The models of the comparison, with batch and length."""


@dataclass
class Measured:
    """One model by one compiler: milliseconds a call, seconds of the first call(s), the relative
    error against float32, and what went wrong if anything did."""

    model: str
    compiler: str
    training: bool
    milliseconds: float = math.nan
    first_call: float = math.nan
    error: float = math.nan
    failure: str = ""
    phases: dict[str, float] = field(default_factory=dict)


def compilers(modes: Sequence[str], peer: bool) -> dict[str, Callable[[Any], Any]]:
    """What is compared, by name."""
    import minitorch2  # here, so that the eager measurements start without it

    found: dict[str, Callable[[Any], Any]] = {"eager": lambda model: model}
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
            gradients[output.shape] = torch.randn(
                output.shape, generator=generator, device=DEVICE, dtype=torch.float32
            ).mul(SCALE).to(output.dtype)
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


def milliseconds(step: Callable[[], Any], seconds: float) -> float:
    """The median of single calls, by device events, after a warm-up."""
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    spent: list[float] = []
    start = time.perf_counter()
    while len(spent) < 20 or (time.perf_counter() - start < seconds and len(spent) < 400):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        step()
        events[1].record()
        torch.cuda.synchronize()
        spent.append(events[0].elapsed_time(events[1]))
    return sorted(spent)[len(spent) // 2]


@contextmanager
def alone(lock: str) -> Iterator[None]:
    """No other process of this run measures meanwhile."""
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure(name: str, training: bool, modes: Sequence[str], peer: bool, lock: str,
            dtype: torch.dtype = torch.float16) -> list[Measured]:  # fmt: skip
    """One model by every compiler."""
    model, results = MODELS[name], []
    torch.manual_seed(1)
    inputs = model.inputs()
    exact = prepared(model, training, torch.float32)
    expected = [t.clone() for t in runner(exact, exact, training)(inputs)]
    del exact
    for compiler, compiled in compilers(modes, peer).items():
        result = Measured(name, compiler, training)
        results.append(result)
        try:
            _measure(result, model, compiled, converted(inputs, dtype), expected, lock, dtype)
        except Exception:
            result.failure = traceback.format_exc()
        print(f"{name:20} {'train' if training else 'infer'} {compiler:30} "
              f"{result.milliseconds:8.3f} ms first {result.first_call:6.2f} s "
              f"error {result.error:.1e} {result.phases or ''}\n{result.failure[-3000:]}",
              end="" if not result.failure else "\n", flush=True)  # fmt: skip
    return results


def _measure(result: Measured, model: Model, compiled: Callable[[Any], Any], inputs: Inputs,
             expected: list[Tensor], lock: str, dtype: torch.dtype) -> None:  # fmt: skip
    from minitorch2 import stages

    module = prepared(model, result.training, dtype)
    step = runner(compiled(module), module, result.training)
    torch.cuda.synchronize()
    start = time.perf_counter()
    with stages.collect() as log:
        step(inputs)
        torch.cuda.synchronize()
    result.first_call = time.perf_counter() - start
    if "minitorch2" in result.compiler:
        result.phases = {n: round(s, 2) for n, s in log.seconds.items() if s >= 0.01}
        result.phases |= {n: float(c) for n, c in log.counts.items()
                          if n in ("graphs", "graph_breaks", "kernels", "fallbacks")}  # fmt: skip
    for _ in range(3):  # CUDA graphs are recorded in the second and third call
        got = step(inputs)
    result.error = distance(got, expected)
    del got
    with alone(lock):
        result.milliseconds = milliseconds(lambda: step(inputs), seconds=0.5)


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
    is_right = result.error <= 2 * eager.error + 1e-3
    return f"{result.milliseconds:.3f}" + ("" if is_right else f" WRONG {result.error:.1e}")


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
                lines.append(f"{ours} over {other}: geometric mean {mean:.3f}, most {max(ratios):.3f}"
                             f" ({len(pairs)} models)")  # fmt: skip
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure, print a table, write JSON; the status is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="models that contain this text")
    parser.add_argument("--mode", action="append", default=[])
    parser.add_argument("--training", action="store_true", help="forward and backward, too")
    parser.add_argument("--no-inference", action="store_true")
    parser.add_argument("--peer", action="store_true", help="torch.compile beside")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default=str(RESULTS / "gpu_models.json"))
    options = parser.parse_args(arguments)
    kinds = [False] * (not options.no_inference) + [True] * options.training
    names = [n for n in MODELS if not options.only or any(o in n for o in options.only)]
    modes = options.mode or ["default"]
    results: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder:
        lock = os.path.join(folder, "lock")
        work = [(n, k, modes, options.peer, lock) for k in kinds for n in names]
        with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
            for future in [pool.submit(measure, *item) for item in work]:
                try:
                    results += future.result()
                except Exception:
                    traceback.print_exc()
                Path(options.out).write_text(json.dumps([asdict(r) for r in results], indent=1))
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print(table(results))
    return int(any(r.failure for r in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
