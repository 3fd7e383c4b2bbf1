"""Check, then time: each case by every compiler, taking turns."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.cases import Case, Function, near, same
from benchmarks.compilers import EAGER, PEER, Compiler, forget
from benchmarks.truth import Truth
from minitorch2.demo.timing import medians, rounds, seconds

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # the names of parameters in malloc.h
SHORTEST_SAMPLE = 1e-3  # seconds: far above the cost of reading the clock


@dataclass(frozen=True)
class Result:
    """Median seconds of one call by compiler; which compilers' results were wrong."""

    case: str
    seconds: dict[str, float]
    wrong: list[str]

    def speedup(self, compiler: str, over: str = EAGER) -> float:
        """How many times as fast `compiler` is as `over`."""
        return self.seconds[over] / self.seconds[compiler]


def keep_memory() -> None:
    """Let the C library keep what is freed, where that is glibc's.

    A fresh page costs a microsecond or more, and whether a result of 8 MB gets fresh pages depends
    on what was freed before: it would decide the ratio of two kernels that take half of that.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def measure(case: Case, compilers: dict[str, Compiler], budget: float = 2.0) -> Result:
    """Compile, compare with eager on two sets of fresh inputs, then time `budget` seconds."""
    forget(compilers)
    with torch.set_grad_enabled(case.backward):
        functions = {name: case.build(compiler) for name, compiler in compilers.items()}
        wrong = disagreeing(case, functions) | disagreeing(case, functions)
        inputs = case.fresh_inputs()
        slowest = max(seconds(repeated(f, inputs, 1)) for f in functions.values())
        calls = max(1, int(SHORTEST_SAMPLE / slowest))
        runs = {name: repeated(f, inputs, calls) for name, f in functions.items()}
        count = int(budget / (slowest * calls * len(runs)))
        samples = list(rounds(runs, min(max(count, 5), 500)))
    times = {name: spent / calls for name, spent in medians(samples).items()}
    return Result(case.name, times, sorted(wrong))


def disagreeing(case: Case, functions: dict[str, Function]) -> set[str]:
    """The compilers whose results on fresh inputs, from the same seed, are not eager's.

    torch.compile draws random numbers of its own, so a case that drops cannot hold it to eager's.
    A result that differs is compared with float64, too: it may only be rounded otherwise (`truth`).
    """
    inputs = case.fresh_inputs()

    def seeded(function: Function) -> object:
        torch.manual_seed(1)
        return function(*inputs)

    alike = near if case.draws else same
    expected = seeded(functions[EAGER])
    wrong = {
        name: result
        for name, function in functions.items()
        if name != EAGER  # a training step does not give the same twice
        and not alike(result := seeded(function), expected)
        and not (case.draws and name == PEER)
    }
    truth = Truth.of(case, inputs) if wrong else None
    if truth is None:
        return set(wrong)
    return {name for name, each in wrong.items() if not truth.admits(each, expected, alike)}


def repeated(function: Function, inputs: tuple[Tensor, ...], calls: int) -> Function:
    """A function that calls another several times, so that short calls can be timed; it ends when
    the device has done what was asked for.
    """

    def run() -> None:
        for _ in range(calls):
            function(*inputs)
        for device in {x.device for x in inputs if x.device.type == "cuda"}:
            torch.cuda.synchronize(device)

    return run


def measure_all(
    cases: list[Case], compilers: dict[str, Compiler], budget: float
) -> Iterator[Result]:
    """Measure the cases one by one."""
    keep_memory()
    for case in cases:
        yield measure(case, compilers, budget)
