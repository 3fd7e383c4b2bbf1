"""Tables of pages, rendered from stored results: `python -m benchmarks.tables` prints them.

`docs/gpu/replay.md` and the README show them. A test compares the pages with the stored result, so
that no page shows a figure of a run that nobody can look at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
MODELS = {
    "BERT-base 16x128": "BERT-base 16 x 128",
    "GPT-2 8x256": "GPT-2 8 x 256",
    "Llama-style 8x256": "Llama-style, 8 layers, 8 x 256",
    "T5-small 8x128": "T5-small 8 x 128",
    "DistilBERT 16x128": "DistilBERT 16 x 128",
    "ResNet-50 32": "ResNet-50, batch 32",
    "ViT-B/16 16": "ViT-B/16, batch 16",
    "ConvNeXt-tiny 16": "ConvNeXt-tiny, batch 16",
    "Mixer-B/16 16": "Mixer-B/16, batch 16",
}
DEFAULT = ("minitorch2 default", "torch.compile default")
REPLAYED = ("minitorch2 reduce-overhead", "torch.compile reduce-overhead")
PHASES = {
    "capture, guards": ("capture", "guards"),
    "joint graph, partition, passes": ("joint", "partition", "passes"),
    "lowering, schedule": ("lower", "schedule"),
    "printing": ("codegen",),
    "loading the text of kernels": ("load",),
    "waiting for kernels, loading them": ("kernel_compile", "kernel_load"),
    "running": ("running",),
    "other: imports": ("other",),
}


@cache
def gpu_rows() -> dict[tuple[str, str, bool], dict[str, Any]]:
    """The stored rows by model, compiler, and whether they are of training."""
    rows = json.loads((RESULTS / "gpu_models.json").read_text())
    return {(row["model"], row["compiler"], row["training"]): row for row in rows}


def ratio(compilers: tuple[str, str], training: bool) -> float:
    """The geometric mean over the models of the first compiler's time over the second's."""
    return math.exp(sum(map(math.log, ratios(compilers, training))) / len(MODELS))


def ratios(compilers: tuple[str, str], training: bool) -> list[float]:
    """The first compiler's time over the second's, a number a model."""
    times = [
        [gpu_rows()[model, compiler, training]["milliseconds"] for model in MODELS]
        for compiler in compilers
    ]
    return [ours / theirs for ours, theirs in zip(*times, strict=True)]


def calls(training: bool) -> Iterator[str]:
    """Milliseconds of a call, a row a model."""
    for model, shown in MODELS.items():
        compilers = ("eager", *DEFAULT, *REPLAYED)
        times = [gpu_rows()[model, each, training]["milliseconds"] for each in compilers]
        yield row(shown, [f"{each:.2f}" for each in times])
    means = [f"{ratio(pair, training):.2f}" for pair in (DEFAULT, REPLAYED)]
    yield row("geometric mean of ours over torch.compile", ["", means[0], "", means[1], ""])


def first_calls() -> Iterator[str]:
    """Seconds of the first call, inference and training, a row a model."""
    for model, shown in MODELS.items():
        found = [
            gpu_rows()[model, compiler, training]["first_call"]
            for training in (False, True)
            for compiler in DEFAULT
        ]
        yield row(shown, [f"{seconds:.1f}" for seconds in found])


def phases() -> Iterator[str]:
    """Seconds of the phases of our first training step, a column a model."""
    rows = [gpu_rows()[model, DEFAULT[0], True] for model in MODELS]
    for shown, names in PHASES.items():
        seconds = [sum(each["phases"].get(name, 0.0) for name in names) for each in rows]
        yield row(shown, [f"{each:.1f}" for each in seconds])
    yield row("together", [f"{each['first_call']:.1f}" for each in rows])


def row(title: str, cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return " ".join(f"| {cell}".rstrip() for cell in (title, *cells)) + " |"


def main() -> None:
    """Print all tables."""
    for table in (calls(False), calls(True), first_calls(), phases()):
        print(*table, "", sep="\n")
    pairs = (DEFAULT, REPLAYED)
    found = [each for pair in pairs for t in (False, True) for each in ratios(pair, t)]
    print(f"largest ratio {max(found):.2f}")


if __name__ == "__main__":
    main()
