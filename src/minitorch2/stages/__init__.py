"""The report of a compilation: the text of each stage, seconds, counts.

It takes what a layer reports (`record`, `phase`, `count`) and gives it to the logs that are open
(`collect`); no layer knows who reads a log. So `explain`, the demo, the tests that count kernels
and the command `python -m minitorch2 demo --stages DIR` all read the same report. Besides, `record`
shows what `minitorch2.logs` was asked to show, and `counters` are the counts of the whole process.
Read `progress` next: the lines that a user sees.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from logging import Logger
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from minitorch2 import logs
from minitorch2.errors.cautions import caution
from minitorch2.foundation.blocks import holding
from minitorch2.foundation.compile_lock import new_lock

Watch: TypeAlias = Callable[[Any, Any], None]
"""A function that is told of each instruction before it is evaluated: evaluator, instruction."""


@dataclass(frozen=True)
class Stage:
    """One readable artefact of a compilation: `name` says which, `text` is its content.

    `main` follows the text in a file, so that the file is a program.
    """

    name: str
    text: str
    main: str = ""


@dataclass
class StageLog:
    """Everything reported while the log was open.

    `stages` are in the order of recording. `seconds` per phase leave out the phases inside it, so
    that they add up. `counts` by name are `graphs`, `graph_breaks`, `kernels`,
    `kernels_before_fusion`, `fallbacks` and all others that a layer counts. Without `keeps_texts`
    the log has no stages: printing them takes a third of the time of a large model's compilation.
    """

    keeps_texts: bool = True
    stages: list[Stage] = field(default_factory=list)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    counts: Counter[str] = field(default_factory=Counter)

    def takes(self, name: str) -> bool:
        """Return whether the log wants the texts of stages of this name."""
        return self.keeps_texts

    def add(self, stage: Stage, subject: object = None) -> None:
        """Take in one more stage; `subject` is the object that its text describes, if given.

        The object may change later: a log that reads it does so now.
        """
        self.stages.append(stage)

    def charge(self, name: str, seconds: float, start: float, elapsed: float) -> None:
        """Charge seconds to a phase that began at `start` (`perf_counter`) and took `elapsed`."""
        self.seconds[name] += seconds

    def watch(self) -> Watch | None:
        """Return the function to tell of each instruction that is evaluated, if there is one."""
        return None

    def texts(self, name: str) -> list[str]:
        """Return the texts of all stages called `name`, oldest first."""
        return [stage.text for stage in self.stages if stage.name == name]

    def write(self, directory: str | Path) -> list[Path]:
        """Write each stage as a numbered file; return the paths in order.

        A stage called `guards.py` becomes `003_guards.py`; one without a suffix gets `.txt`.
        """
        return [_write(stage, i, Path(directory)) for i, stage in enumerate(self.stages, 1)]


@dataclass
class WrittenLog(StageLog):
    """A log that writes each stage into a folder as soon as it is recorded, and keeps none.

    A backward graph is compiled long after its forward graph, and belongs into the same folder.
    """

    directory: Path = Path()
    _number: int = 0

    def add(self, stage: Stage, subject: object = None) -> None:
        """Write one more file."""
        self._number += 1
        _write(stage, self._number, self.directory)


def _write(stage: Stage, number: int, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _file_name(number, stage.name)
    path.write_text(stage.text.rstrip("\n") + "\n" + stage.main, encoding="utf-8")
    return path


def _file_name(number: int, name: str) -> str:
    safe = re.sub(r"[^\w.-]+", "_", name)
    return f"{number:03d}_{safe}" + ("" if Path(safe).suffix else ".txt")


_OPEN_LOGS: ContextVar[tuple[StageLog, ...]] = ContextVar("open_logs", default=())
_PROCESS_LOGS: list[StageLog] = []
# Seconds that phases inside the one now open have used: they are charged to those, not to it.
_INNER_SECONDS: ContextVar[float] = ContextVar("inner_seconds", default=0.0)


@contextmanager
def collect(texts: bool = True) -> Iterator[StageLog]:
    """Open a log for compilations inside the block, on this thread.

    Without `texts` it holds seconds and counts only.
    """
    log = StageLog(texts)
    with collect_into((*_OPEN_LOGS.get(), log)):
        yield log


@contextmanager
def written(directory: str | Path) -> Iterator[None]:
    """Write the stages of compilations inside the block into a folder; "" writes nothing."""
    if not directory:
        yield
        return
    log = WrittenLog(directory=Path(directory))
    with collect_into((*_OPEN_LOGS.get(), log)):
        yield


def collect_into(logs: tuple[StageLog, ...]) -> AbstractContextManager[object]:
    """Report to logs that were opened elsewhere.

    A backward graph may be compiled later, on a thread of the autograd engine: it keeps
    `open_logs()` from the time of its forward graph and reports there.
    """
    return holding(_OPEN_LOGS, logs)


def open_logs() -> tuple[StageLog, ...]:
    """Return the logs that are open here, outermost first; empty if none is open."""
    return _OPEN_LOGS.get()


def open_everywhere(log: StageLog) -> None:
    """Report to a log, from now on, what any thread of the process compiles."""
    _PROCESS_LOGS.append(log)


def close_everywhere(log: StageLog) -> None:
    """Report no more to a log that `open_everywhere` opened."""
    _PROCESS_LOGS.remove(log)


def _readers() -> tuple[StageLog, ...]:
    return (*_PROCESS_LOGS, *_OPEN_LOGS.get()) if _PROCESS_LOGS else _OPEN_LOGS.get()


def watches() -> tuple[Watch, ...]:
    """Return the functions of open logs that are told of each instruction that is evaluated."""
    return tuple(watch for log in _readers() if (watch := log.watch()) is not None)


def wanted(name: str) -> bool:
    """Return whether anybody reads stages of this name: ask before printing a costly text."""
    return any(log.takes(name) for log in _readers()) or logs.shows(name)


def record(name: str, text: str, main: str = "", *, subject: object = None) -> None:
    """Add one stage to the open logs, and show it if its artifact is wanted.

    Args:
        main: what makes the text a program, if there is one: it follows the text in files and in
            what is shown.
        subject: the object that the text describes, for logs that want more than text.
    """
    for log in _readers():
        if log.takes(name):
            log.add(Stage(name, text, main), subject)
    logs.show(name, text + main)


_TOTALS: Counter[str] = Counter()
_TOTALS_LOCK = new_lock()


def note_backend_failure(logger: Logger, failure: object, what: str) -> None:
    """Count a graph that runs in Python as its backend failed, and say so."""
    count("backend_failures")
    caution(logger, f"{failure}\n{what} in Python instead")


def count(name: str, number: int = 1) -> None:
    """Add `number` to the counter `name` of the open logs and of the process."""
    for log in _readers():
        log.counts[name] += number
    with _TOTALS_LOCK:
        _TOTALS[name] += number


def counters() -> dict[str, int]:
    """Return the counts of this process so far, by name.

    Capture: `frames`, `frames_as_is`, `graphs`, `graph_breaks`, `cache_misses` (calls that no entry
    served), `recompiles`. Loops: `kernels_before_fusion`, `fusions`, `kernels`, `fallbacks`,
    `library_calls`, `intermediate_bytes` (the most that each graph compiled holds at a time, if no
    size of them varies). Backends: `backend_failures`. Graphs: `graphs_compiled`, `graphs_loaded`
    (from the cache on disk), `graphs_shared` (with an equal one of this process),
    `graphs_bypassed`. Kernels: `kernels_compiled`, `kernels_loaded`, `kernels_shared` likewise.
    """
    with _TOTALS_LOCK:
        return dict(_TOTALS)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Charge the seconds of the block, without the seconds of phases inside it, to phase `name`."""
    around = _INNER_SECONDS.set(0.0)
    start = perf_counter()
    try:
        yield
    finally:
        elapsed = perf_counter() - start
        for log in _readers():
            log.charge(name, elapsed - _INNER_SECONDS.get(), start, elapsed)
        _INNER_SECONDS.reset(around)
        _INNER_SECONDS.set(_INNER_SECONDS.get() + elapsed)
