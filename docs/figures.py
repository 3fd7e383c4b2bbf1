"""Writes stored results into README and pages: `python -m docs.figures`; `--check` only compares.

`--ages` prints how many days and commits each result is behind the layers that it measures.

    result ::= title, command, commit, date, machine, versions, load, unit, columns, align, rows
    region ::= "<!-- result: NAME -->" table, conditions, chart "<!-- end of result -->"
    figure ::= "<!-- figure: NAME, ROW, COLUMN -->" cell "<!-- end -->"

Results lie in `benchmarks/results/tables/`, a JSON file each. `commit` is the one under which the
figures were written down, `load` what else ran. A measured number stands in its file, and nowhere
else: pages and README show it in the region that bears the file's name, or as a figure in a
sentence. ROW is the row's title or `inference` or `training` of `gpu_models`; COLUMN counts cells.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import tables

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RESULTS = ROOT / "benchmarks" / "results" / "tables"
REGION = re.compile(r"<!-- result: (\w+) -->\n.*?<!-- end of result -->\n", re.S)
RENDERED = re.compile(r"<!-- ([a-z0-9, ]+): begin -->\n.*?<!-- \1: end -->", re.S)
"""What `benchmarks.evaluate.page` writes from its own rows."""
FIGURE = re.compile(r"<!-- figure: (\w+), (.+?), (\w+) -->.*?<!-- end -->", re.S)
TYPED = re.compile(
    r"(?<![\w.])\d+(?:\.\d+)?(?= (?:ms|us|s|seconds|microseconds|milliseconds|GB/s|%)(?!\w))"
    r"|(?<![\w.])\d+(?:\.\d+)?(?= times (?:eager|faster|slower|as ))|(?<![\w.])0\.\d+(?= of )"
)
"""A measured number in prose: a time, a rate, a share or a ratio."""
IN_SENTENCES = ("calls", "cpu_calls", "freezing", "gpu_models")
"""The results that have no table of their own in a page."""
CONDITIONS = ("command", "commit", "date", "machine", "versions", "load", "unit")
CHARTS = {
    "demo": "demo.svg",
    "captures": "captured.svg",
    "memory": "gradients/memory.svg",
    "bandwidth": "gpu/bandwidth.svg",
    "random": "gpu/random.svg",
    "templates": "gpu/templates.svg",
    "attention": "gpu/attention.svg",
    "switches": "gpu/switches.svg",
    "launches": "gpu/launches.svg",
    "optimizers": "howto/optimizers.svg",
    "optimizers_gpu": "howto/optimizers_gpu.svg",
    "growth": "growth.svg",
    "scale": "howto/scale.svg",
    "scale_four": "howto/scale_four.svg",
    "scale_overlap": "howto/scale_overlap.svg",
    "scale_first": "howto/scale_first.svg",
    "lazy_steps": "layers/lazy_steps.svg",
    "lazy_gpu": "layers/lazy_gpu.svg",
    "lazy_words": "lazy_words.svg",
    "ablation": "ablation.svg",
    "ablation_gpu": "ablation_gpu.svg",
    "script_packages": "layers/script_packages.svg",
    "ways": "layers/ways.svg",
    "ways_calls": "layers/ways_calls.svg",
}
"""The chart of each result, by its path below `docs/`."""

MOST_DAYS = 14
"""A result may be older than the last change of its layers by so many days."""
LAYERS = {
    "calls": ("bytecode", "codegen/numba"),
    "cpu_calls": ("native/torch_internals", "codegen/numba"),
    "lazy": ("lazy",),
    "lazy_steps": ("lazy",),
    "lazy_gpu": ("lazy",),
    "lazy_words": ("lazy",),
    "scale": ("distributed",),
    "scale_four": ("distributed",),
    "scale_overlap": ("distributed",),
    "scale_first": ("distributed", "cache"),
    "bandwidth": ("codegen/triton", "loopir"),
    "ablation": ("graph/passes", "loopir", "codegen/numba"),
    "ablation_gpu": ("graph/passes", "loopir", "codegen/triton"),
    "captures": ("bytecode",),
    "demo": ("bytecode", "autograd", "loopir", "codegen/numba"),
    "freezing": ("graph/passes", "loopir", "codegen/numba"),
    "growth": ("bytecode", "graph", "autograd", "loopir"),
    "halide": ("codegen/halide", "loopir"),
    "launches": ("codegen/replay.py", "codegen/triton"),
    "memory": ("autograd",),
    "optimizers": ("autograd", "loopir", "codegen/numba"),
    "optimizers_gpu": ("autograd", "loopir", "codegen/triton"),
    "random": ("codegen/triton", "loopir"),
    "switches": ("loopir", "codegen/triton", "codegen/replay.py"),
    "templates": ("codegen/triton",),
    "attention": ("codegen/triton", "graph/patterns"),
    "gpu_models": ("loopir", "codegen/triton", "codegen/replay.py"),
    "script_packages": ("script",),
    "ways": ("bytecode", "lazy", "script"),
    "ways_calls": ("bytecode", "lazy", "script"),
    "evaluation": ("bytecode", "autograd", "loopir", "codegen"),
}
"""The folders and files below `src/minitorch2/` whose changes move each result."""


def git(*arguments: str) -> str:
    """What git prints in this repository; nothing if it has no answer."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def has_history() -> bool:
    """Whether git knows when each file has changed: this is no archive and no shallow clone."""
    return git("rev-parse", "--is-shallow-repository") == "false"


def measured_on(name: str) -> str:
    """The day of a result: its own, or that of the commit that stored it."""
    if (RESULTS / f"{name}.json").is_file():
        return result(name)["date"]
    places = (str(RESULTS.parent / f"{name}.json"), str(RESULTS.parent / name))
    return git("log", "-1", "--format=%cs", "--", *places)


def stored() -> set[str]:
    """The names of the results that git keeps: a JSON file or a folder each.

    `python -m benchmarks` writes the results of its runs beside them, which git ignores.
    """
    folder = RESULTS.parent
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "--", str(folder))
    paths = [Path(ROOT, line).relative_to(folder) for line in listed.splitlines()]
    return {Path(path.parts[path.parts[0] == RESULTS.name]).stem for path in paths}


def days_behind(name: str) -> int:
    """How many days after a result one of its layers has changed; negative if none has."""
    changed = git("log", "-1", "--format=%cs", "--", *paths(name))
    return (date.fromisoformat(changed) - date.fromisoformat(measured_on(name))).days


def commits_behind(name: str) -> int:
    """How many commits have changed the layers of a result since its day."""
    since = f"--since={measured_on(name)}T23:59:59"
    return int(git("rev-list", "--count", since, "HEAD", "--", *paths(name)))


def paths(name: str) -> list[str]:
    """The paths of a result's layers."""
    return [f"src/minitorch2/{layer}" for layer in LAYERS[name]]


@cache
def result(name: str) -> dict[str, Any]:
    """The stored result of a name."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def pages() -> list[Path]:
    """README and all pages."""
    return [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)]


def conditions(found: dict[str, Any]) -> str:
    """The conditions of a result as a sentence in italics."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    command = found["command"] if found["command"] == "not recorded" else f"`{found['command']}`"
    day = f"{found['date']} (commit {found['commit']})"
    return (
        f"*{found['title']}: {found['unit']}. Command: {command}; {day}; machine: "
        f"{found['machine']}; {versions}; load: {found['load']}.*"
    )


def table(found: dict[str, Any]) -> Iterator[str]:
    """The lines of a result's table."""
    yield tables.row(found["columns"][0], found["columns"][1:])
    yield "| " + " | ".join("---:" if side == "right" else "---" for side in found["align"]) + " |"
    for title, *cells in found["rows"]:
        yield tables.row(title, cells)


def region(name: str, page: Path) -> str:
    """A result as a page shows it: table, conditions, chart if it has one."""
    found = result(name)
    lines = [*table(found), "", conditions(found)]
    if name in CHARTS:
        chart = Path(os.path.relpath(DOCS / CHARTS[name], page.parent)).as_posix()
        lines += ["", f"![{found['title']}, as bars]({chart})"]
    return "\n".join([f"<!-- result: {name} -->", "", *lines, "", "<!-- end of result -->", ""])


def figure(name: str, row: str, column: str) -> str:
    """One cell of a result, or a geometric mean of `gpu_models`.

    Raises:
        ValueError: the result has no such row, or several.
    """
    if name == "gpu_models":
        pair = tables.REPLAYED if column == "replayed" else tables.DEFAULT
        return f"{tables.ratio(pair, row == 'training'):.2f}"
    (cells,) = (cells for title, *cells in result(name)["rows"] if title == row)
    return cells[int(column) - 1]


def shown_figure(found: re.Match[str]) -> str:
    """A figure with the cell that it should show."""
    name, row, column = found.groups()
    where = f"{name}, {row}, {column}"
    return f"<!-- figure: {where} -->{figure(name, ' '.join(row.split()), column)}<!-- end -->"


def rendered(page: Path) -> str:
    """The text that a page should have."""
    text = REGION.sub(lambda found: region(found[1], page), page.read_text(encoding="utf-8"))
    return FIGURE.sub(shown_figure, text)


def typed(text: str) -> list[str]:
    """The measured numbers in a page's sentences that no result has given.

    Tables, programs and quoted code are not sentences. A sentence that names a paper cites it.
    """
    prose = FIGURE.sub("", REGION.sub("", text))
    prose = re.sub(r"^(```|:::).*?^\1|^\|.*?$|^    .*?$|`[^`]*`", "", prose, flags=re.S | re.M)
    sentences = re.split(r"(?<=[.!?:])\s+(?=[A-Z`*])", prose)
    return [found[0] for s in sentences if "paper" not in s for found in TYPED.finditer(s)]


def measured(name: str, *, odd: bool) -> set[str]:
    """The numbers of a result that are not there by chance elsewhere.

    Those are numbers of three digits behind the point, or of five before it; on the page of the
    result itself (`odd` is False) also of two behind it, or of four before it.
    """
    pattern = r"\d+\.\d{3,}|\d{5,}" if odd else r"\d+\.\d{2,}|\d{4,}"
    cells = [cell for row in result(name)["rows"] for cell in row[1:]]
    return {n for cell in cells for n in re.findall(rf"(?<![\w.])(?:{pattern})(?![\w.])", cell)}


def shown_twice(text: str) -> list[str]:
    """The measured numbers that a page's text repeats outside of its regions and programs.

    Other tables have the papers' figures, of which some are equal to a short number by chance.
    """
    shown = set(re.findall(r"<!-- result: (\w+) -->", text))
    text = RENDERED.sub("", REGION.sub("", text))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    rows = "\n".join(re.findall(r"^\|.*", prose, re.M))
    sentences = re.sub(r"^\|.*", "", prose, flags=re.M)
    found = set[str]()
    for name in CHARTS:
        found |= measured(name, odd=name not in shown) & _numbers_in(sentences)
        found |= measured(name, odd=True) & _numbers_in(rows)
    return sorted(found)


def _numbers_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.:/-])\d+(?:\.\d+)?(?![\w.:/]*\w)", text))


def main() -> int:
    """Write the pages, or with `--check` name those that differ; `--ages` prints ages."""
    if "--ages" in sys.argv:
        for name in LAYERS:
            print(f"{name:15} {days_behind(name):3} days, {commits_behind(name):4} commits behind")
        return 0
    stale = [
        (page, text) for page in pages() if (text := rendered(page)) != page.read_text("utf-8")
    ]
    for page, text in stale:
        print(page.relative_to(ROOT))
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
