"""One program by each compiler, each in a process of its own; the processes take turns.

A process compiles and calls the program on two sets of inputs, and answers with the results. Then
it waits for its turns, in which it calls the program for a while and answers with the seconds of
each call. So no compiler sees another's caches or threads, and what slows the machine down for a
while slows all of them down.
"""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.breadth.programs import programs
from benchmarks.cases import Case, near, same
from benchmarks.compilers import EAGER, OURS, PEER, compilers
from benchmarks.measure import keep_memory
from benchmarks.table4 import on_device
from minitorch2.demo.timing import seconds

TURNS = 12
SECONDS_A_TURN = 0.04
SLOWEST = 6
"""So many kernels and library calls are named of a program that is slower than eager."""
PATIENCE = 240.0
"""Seconds that a process may take for its answer."""


@dataclass
class Trial:
    """A program's seconds a call by compiler, median and minimum, and what was found out.

    Attributes:
        wrong: the compilers whose results are not eager's.
        failed: by compiler, what it raised.
        slowest: milliseconds and calls of our kernels and library calls, if eager was faster.
    """

    program: str
    seconds: dict[str, float] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    slowest: dict[str, tuple[float, int]] = field(default_factory=dict)

    def ratio(self, compiler: str = OURS) -> float:
        """How many times as fast as eager a compiler is; 0 if it failed."""
        return self.seconds[EAGER] / self.seconds[compiler] if compiler in self.seconds else 0.0


@dataclass
class Runner:
    """A compiled program in this process."""

    case: Case
    compiler: str

    def __post_init__(self) -> None:
        keep_memory()
        torch.set_grad_enabled(self.case.backward)
        self.function = self.case.build(compilers(peer=True)[self.compiler])

    def results(self) -> bytes:
        """The results for two sets of inputs, and then inputs for the time to come."""
        found = []
        for seed in (1, 2, 3):
            torch.manual_seed(seed)
            self.inputs = self.case.fresh_inputs()
            torch.manual_seed(seed)
            found.append(self.function(*self.inputs))
        held = io.BytesIO()
        torch.save(_detached(found[:2]), held)
        return held.getvalue()

    def once(self) -> None:
        """One call, until the device is done."""
        self.function(*self.inputs)
        if any(x.is_cuda for x in self.inputs):
            torch.cuda.synchronize()

    def turn(self) -> list[float]:
        """The seconds of single calls, after one that fills the caches again."""
        self.once()
        spent, start = list[float](), time.perf_counter()
        while not spent or time.perf_counter() - start < SECONDS_A_TURN:
            spent.append(seconds(self.once))
        return spent

    def slowest(self) -> dict[str, tuple[float, int]]:
        """Milliseconds and calls of what takes longest in a call."""
        kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA][: 1 + torch.cuda.is_available()]
        with profile(activities=kinds) as profiler:
            self.once()
        spent = {
            event.key: (max(event.self_cpu_time_total, event.self_device_time_total), event.count)
            for event in profiler.key_averages()
        }
        ordered = sorted(spent.items(), key=lambda item: -item[1][0])[:SLOWEST]
        return {name: (round(us / 1e3, 3), count) for name, (us, count) in ordered}


def _detached(found: Any) -> Any:
    if isinstance(found, torch.Tensor):
        return found.detach().cpu()
    return [_detached(each) for each in found]


def serve(name: str, compiler: str, device: str, pipe: Connection) -> None:
    """Answer the calls of `Runner`'s methods by name, until the pipe is closed."""
    try:
        (case,) = (each for each in programs() if each.name == name)
        runner = Runner(on_device(case, device), compiler)
        while (asked := pipe.recv()) is not None:
            pipe.send(getattr(runner, asked)())
    except Exception as error:
        pipe.send(error_text(error))


def error_text(error: Exception) -> str:
    """The first line of what was raised."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


class Process:
    """A program by one compiler in another process."""

    def __init__(self, name: str, compiler: str, device: str) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        given = name, compiler, device, theirs
        self.process = context.Process(target=serve, args=given, daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, what: str) -> Any:
        """The answer of the process.

        Raises:
            RuntimeError: the program failed there, died, or took too long.
        """
        try:
            self.pipe.send(what)
            answer = self.pipe.recv() if self.pipe.poll(PATIENCE) else "no answer in time"
        except (EOFError, OSError):
            answer = "the process died"
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def end(self) -> None:
        self.process.terminate()
        self.process.join()


@contextmanager
def processes(name: str, chosen: list[str], device: str) -> Iterator[dict[str, Process]]:
    started = {compiler: Process(name, compiler, device) for compiler in chosen}
    try:
        yield started
    finally:
        for process in started.values():
            process.end()


def tried(case: Case, chosen: list[str], device: str) -> Trial:
    """Compile, check and time one program."""
    trial = Trial(case.name)
    with processes(case.name, chosen, device) as started:
        answers = {c: _asked(trial, c, process, "results") for c, process in started.items()}
        results = {c: torch.load(io.BytesIO(found)) for c, found in answers.items() if found}
        if EAGER in results:
            trial.wrong = _disagreeing(case, results)
            _time(trial, {compiler: started[compiler] for compiler in results})
            if OURS in trial.seconds and trial.ratio() < 1:
                trial.slowest = _asked(trial, OURS, started[OURS], "slowest") or {}
    return trial


def _asked(trial: Trial, compiler: str, process: Process, what: str) -> Any:
    try:
        return process.ask(what)
    except RuntimeError as error:
        trial.failed[compiler] = str(error)
        return None


def _disagreeing(case: Case, results: dict[str, Any]) -> list[str]:
    """Random numbers of torch.compile are its own: where they matter, nothing can be compared."""
    expected = results[EAGER]
    return [
        compiler
        for compiler, found in results.items()
        if not (same(found, expected) or (case.backward and near(found, expected)))
        and not (case.draws and compiler == PEER)
    ]


def _time(trial: Trial, started: dict[str, Process]) -> None:
    spent = {compiler: list[float]() for compiler in started}
    names = list(started)
    for i in range(TURNS):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            spent[name] += _asked(trial, name, started[name], "turn") or []
    trial.seconds = {name: median(measured) for name, measured in spent.items() if measured}
    trial.least = {name: min(measured) for name, measured in spent.items() if measured}
