"""Charts of stored results: bars beside each other, in groups of a row each."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from benchmarks import tables
from docs.drawing import LETTER, Picture
from docs.figures import CHARTS, RESULTS, result

KINDS = ("", "one", "two", "three", "four", "good", "bad")
FIXED = {
    "eager": "", "ours": "one", "minitorch2": "one", "here": "one", "min-cut": "one",
    "template": "one", "torch.compile": "two", "library and kernels": "two",
}  # fmt: skip
"""Colours of compilers, the same in all charts; other series take the ones that are left."""
Group = tuple[str, Sequence[tuple[str, float, str]]]
"""A label, and bars: the series, the length, the text behind."""


def number(cell: str) -> float | None:
    """The first number of a cell."""
    found = re.search(r"\d[\d,]*\.?\d*", cell)
    return float(found[0].replace(",", "")) if found else None


def grouped(title: str, groups: Iterable[Group], *, own_scale: bool = True) -> Picture:
    """Draw groups of bars, each in a scale of its own unless they are of one unit and size."""
    picture = Picture(title)
    groups = [(label, [bar for bar in bars if bar[1] is not None]) for label, bars in groups]
    left = 24 + max(len(label) for label, _ in groups) * LETTER
    series = list(dict.fromkeys(name for _, bars in groups for name, _, _ in bars))
    free = iter([kind for kind in KINDS if kind not in {FIXED.get(name) for name in series}])
    kinds = {name: FIXED[name] if name in FIXED else next(free) for name in series}
    longest = max(value for _, bars in groups for _, value, _ in bars)
    picture.text(16, 24, title, "title")
    note = "each group in a scale of its own" if own_scale else ""
    note = series[0] if len(series) == 1 else note
    picture.text(16, 42, note, "note")
    y = 52.0
    for label, bars in groups:
        picture.text(left - 10, y + 13, label, "", "end")
        scale = 300 / (max(value for _, value, _ in bars) if own_scale else longest)
        for name, value, shown in bars:
            picture.rect(left, y, max(value * scale, 1), 15, kinds[name])
            behind = f"{shown}  {name}" if len(series) > 1 else shown
            picture.text(left + value * scale + 6, y + 12, behind, "note")
            y += 18
        y += 8
    return picture


def of_columns(
    name: str,
    columns: Sequence[int],
    *,
    labels: int = 1,
    leave_out: str = "?",
    own_scale: bool = True,
) -> Picture:
    """The chart of columns of a stored result; labels are made of the first columns."""
    found = result(name)
    groups = []
    above = ""
    for row in found["rows"]:
        above = row[0] or above
        if leave_out in " ".join(row):
            continue
        label = ", ".join(cell for cell in (above, *row[1:labels]) if cell).replace("`", "")
        bars = [(plain(found["columns"][c]), number(row[c]), row[c]) for c in columns]
        if any(value is not None for _, value, _ in bars):
            groups.append((label, bars))
    return grouped(found["title"], groups, own_scale=own_scale)


def plain(text: str) -> str:
    """A column's name without Markdown and unit."""
    return text.replace("`", "").removesuffix(", ms")


def calls(training: bool) -> Picture:
    """Milliseconds of a call of models on a GPU."""
    compilers = {
        "eager": "eager", "ours": tables.DEFAULT[0], "torch.compile": tables.DEFAULT[1],
        "ours, replayed": tables.REPLAYED[0], "torch.compile, replayed": tables.REPLAYED[1],
    }  # fmt: skip
    groups: list[Group] = []
    for model, shown in tables.MODELS.items():
        times = [
            (name, tables.gpu_rows()[model, each, training]["milliseconds"])
            for name, each in compilers.items()
        ]
        groups.append((shown, [(name, time, f"{time:.2f}") for name, time in times]))
    return grouped(f"{'Training' if training else 'Inference'}, milliseconds a call", groups)


def first_calls() -> Picture:
    """Seconds of the first call, inference and training."""
    groups: list[Group] = []
    for model, shown in tables.MODELS.items():
        bars = []
        for training in (False, True):
            for name, compiler in zip(("ours", "torch.compile"), tables.DEFAULT, strict=True):
                seconds = tables.gpu_rows()[model, compiler, training]["first_call"]
                what = f"{name}, {'training' if training else 'inference'}"
                bars.append((what, seconds, f"{seconds:.1f}"))
        groups.append((shown, bars))
    return grouped("First call, seconds", groups, own_scale=False)


def phases() -> Picture:
    """Seconds of the phases of the first training step, one behind the other."""
    picture = Picture("Where the time of a first training step goes, in seconds")
    picture.text(16, 24, "First training step, seconds", "title")
    for place, phase in enumerate(tables.PHASES):
        picture.rect(240 + 250 * (place // 4), 38 + 18 * (place % 4), 12, 12, colour(place))
        picture.text(258 + 250 * (place // 4), 48 + 18 * (place % 4), phase, "note")
    for line, (model, shown) in enumerate(tables.MODELS.items()):
        row, x, y = tables.gpu_rows()[model, tables.DEFAULT[0], True], 240.0, 122 + 26 * line
        picture.text(230, y + 14, shown, "", "end")
        for place, names in enumerate(tables.PHASES.values()):
            seconds = sum(row["phases"].get(each, 0.0) for each in names)
            picture.rect(x, y, 20 * seconds, 19, colour(place))
            x += 20 * seconds
        picture.text(x + 6, y + 14, f"{row['first_call']:.1f}", "note")
    return picture


def colour(place: int) -> str:
    """The kind of a phase: eight in turn."""
    return (*KINDS, "again")[place]


def halide() -> Picture:
    """Times of kernels over those of the CPU target, cut off at eight times as much."""
    rows: list[dict[str, Any]] = json.loads((RESULTS / "halide.json").read_text())["results"]
    groups = []
    for row in rows:
        ours = row["seconds"]["minitorch2"]
        ratios = [(way, seconds / ours) for way, seconds in row["seconds"].items()]
        bars = [(way, min(ratio, 8.0), f"{ratio:.2f}") for way, ratio in ratios]
        groups.append((row["program"], bars))
    return grouped("Time of a call over our CPU kernels; bars end at 8", groups, own_scale=False)


DRAWN: dict[str, Callable[[], Picture]] = {
    "demo": partial(of_columns, "demo", (2, 3, 4), labels=2, leave_out="largest"),
    "captures": partial(of_columns, "captures", (2, 3, 4)),
    "memory": partial(of_columns, "memory", (1, 2, 3, 4), leave_out="**"),
    "bandwidth": partial(of_columns, "bandwidth", (1, 3)),
    "random": partial(of_columns, "random", (1, 2), own_scale=False),
    "templates": partial(of_columns, "templates", (1, 2)),
    "attention": partial(of_columns, "attention", (2, 3, 5), own_scale=False),
    "switches": partial(of_columns, "switches", (1,), own_scale=False),
    "launches": partial(of_columns, "launches", (1,), own_scale=False),
    "optimizers": partial(of_columns, "optimizers", (1, 2, 3)),
    "optimizers_gpu": partial(of_columns, "optimizers_gpu", (2, 3, 4), labels=2, own_scale=False),
    "growth": partial(of_columns, "growth", (1, 2, 3), own_scale=False),
    "scale": partial(of_columns, "scale", (2,), own_scale=False),
    "scale_four": partial(of_columns, "scale_four", (2,), own_scale=False),
    "scale_overlap": partial(of_columns, "scale_overlap", (3,), own_scale=False),
    "scale_first": partial(of_columns, "scale_first", (1,), own_scale=False),
    "lazy_steps": partial(of_columns, "lazy_steps", (2, 3, 4, 5)),
    "lazy_gpu": partial(of_columns, "lazy_gpu", (1, 2, 3), own_scale=False),
    "lazy_words": partial(of_columns, "lazy_words", (1, 2)),
    "ablation": partial(of_columns, "ablation", (1, 3), own_scale=False),
    "ablation_gpu": partial(of_columns, "ablation_gpu", (1, 3), own_scale=False),
    "script_packages": partial(of_columns, "script_packages", (2, 3)),
    "ways": partial(of_columns, "ways", tuple(range(1, 8)), leave_out="compil", own_scale=False),
    "ways_calls": partial(of_columns, "ways_calls", tuple(range(1, 8))),
}

PICTURES: dict[str, Callable[[], Picture]] = {
    **{CHARTS[name]: draw for name, draw in DRAWN.items()},
    "gpu/inference.svg": partial(calls, False),
    "gpu/training.svg": partial(calls, True),
    "gpu/first_calls.svg": first_calls,
    "gpu/phases.svg": phases,
    "layers/halide.svg": halide,
}
