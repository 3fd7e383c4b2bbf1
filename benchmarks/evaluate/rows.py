"""Rows of the evaluation: what is asked, what was found, and the files that hold them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.peers import BFLOAT16, GRADIENTS

INFERENCE, TRAINING = "inference", "training"
DTYPES = ("float32", "float16", "bfloat16", "amp")
NOT_OFFERED = "not offered"


@dataclass(frozen=True)
class Question:
    """One row to be measured.

    Attributes:
        case: the name of a case of the suite.
        dtype: of parameters and inputs, or "amp" for float32 under autocast.
        repeats: timed calls of each, after `warm_ups` more; fewer if they take longer than
            `seconds`.
    """

    suite: str
    case: str
    backend: str
    dtype: str = "float32"
    device: str = "cpu"
    freezing: bool = False
    repeats: int = 100
    warm_ups: int = 3
    seconds: float = 10.0

    @property
    def mode(self) -> str:
        """Inference or training; a case that computes gradients says so at the end of its name."""
        return TRAINING if self.case.endswith((f", {TRAINING}", " step")) else INFERENCE

    @property
    def needed(self) -> set[str]:
        """What the row asks of a compiler; autocast computes in bfloat16 on a CPU."""
        asked = {GRADIENTS: self.mode == TRAINING, BFLOAT16: self.dtype in (BFLOAT16, "amp")}
        return {name for name, is_asked in asked.items() if is_asked}

    @property
    def key(self) -> tuple[object, ...]:
        """The parts that tell one row from another, however long each is timed."""
        return self.suite, self.case, self.backend, self.dtype, self.device, self.freezing


@dataclass(frozen=True)
class Found:
    """The measured part of a row, of medians.

    Attributes:
        seconds: of a call by the backend, `eager_seconds` by eager in turns with it.
        repeats: how many calls of each were timed.
        cold_seconds: of the first call with an empty cache, `warm_seconds` with the cache of it.
        graphs, breaks, guard_microseconds: as `explain` tells, for our own capture.
        failure: why there is no speedup; empty if the results are eager's.
        offered: False if the backend says that it has nothing for this row. Nothing was run then.
    """

    seconds: float = 0.0
    eager_seconds: float = 0.0
    repeats: int = 0
    cold_seconds: float = 0.0
    warm_seconds: float = 0.0
    graphs: int = 0
    breaks: int = 0
    guard_microseconds: float = 0.0
    failure: str = ""
    offered: bool = True


@dataclass(frozen=True)
class Row:
    """A question and its answer."""

    question: Question
    found: Found

    @property
    def speedup(self) -> float:
        """How many times as fast as eager the backend is; 0 if it failed (paper, section 6).

        A row that is not offered has 0, too. Tables leave it out.
        """
        if self.found.failure or not self.found.offered:
            return 0.0
        return self.found.eager_seconds / self.found.seconds

    @property
    def outcome(self) -> str:
        """The speedup as text, or the reason why there is none."""
        without = self.found.failure or ("" if self.found.offered else NOT_OFFERED)
        return without or f"{self.speedup:.2f}x"


def load(path: Path) -> list[Row]:
    """The rows of a file of JSON lines; none if there is no file.

    A line that a killed run left unfinished is left out, and its row is measured again.
    """
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = (json.loads(line) for line in lines if line.endswith("}\n"))
    return [Row(Question(**each["question"]), Found(**each["found"])) for each in whole]


def append(path: Path, row: Row) -> None:
    """Write a row behind the others, on a line of its own whatever the last line is."""
    with path.open("a") as file:
        file.write("\n" + json.dumps(asdict(row)) + "\n")


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Write one line a row, the speedup behind the question (paper, appendix A.6)."""
    asked = [each.name for each in fields(Question)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*asked, "speedup", *(each.name for each in fields(Found))])
        for row in rows:
            values = asdict(row.question).values(), [row.speedup], asdict(row.found).values()
            writer.writerow([value for part in values for value in part])
