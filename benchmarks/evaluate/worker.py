"""The process that measures a row: `python -m benchmarks.evaluate.worker QUESTION [--first]`.

A question is JSON. The answer is the last line of the output, JSON too.
"""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from tempfile import gettempdir
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

import minitorch2
from benchmarks.cases import Case, Function
from benchmarks.compilers import EAGER, OURS
from benchmarks.evaluate.backends import BACKENDS
from benchmarks.evaluate.rows import Found, Question
from benchmarks.evaluate.suites import cases_of
from benchmarks.measure import disagreeing, keep_memory, repeated
from benchmarks.table4 import on_device
from minitorch2.demo.timing import medians, rounds


def prepared(question: Question) -> Case:
    """The case of a question, on its device and in its dtype."""
    (case,) = (each for each in cases_of(question.suite) if each.name == question.case)
    return in_dtype(on_device(case, question.device), question.dtype, question.device)


def in_dtype(case: Case, dtype: str, device: str) -> Case:
    """The same case with parameters and inputs of a dtype, or under autocast."""
    if dtype == "float32":
        return case
    if dtype == "amp":
        return replace(case, make=lambda: Autocast(case.make(), device))
    target = getattr(torch, dtype)

    def make() -> Function:
        function = case.make()
        return function.to(target) if isinstance(function, nn.Module) else function

    def inputs() -> tuple[Tensor, ...]:
        return tuple(x.to(target) if x.is_floating_point() else x for x in case.inputs())

    return replace(case, make=make, inputs=inputs)


class Autocast(nn.Module):
    """A function whose products are computed in 16 bits: bfloat16 on CPUs, float16 on GPUs."""

    def __init__(self, function: Function, device: str) -> None:
        super().__init__()
        self.function, self.device = function, torch.device(device).type

    def forward(self, *inputs: Tensor) -> Any:
        with torch.autocast(self.device):
            return self.function(*inputs)


def first_call(question: Question) -> Found:
    """Only compile and call: the seconds of the first call with the caches that there are."""
    case = prepared(question)
    with torch.set_grad_enabled(case.backward):
        function = case.build(BACKENDS[question.backend](options_of(question)))
        inputs = case.fresh_inputs()
        start = perf_counter()
        repeated(function, inputs, 1)()
        return Found(warm_seconds=perf_counter() - start)


def options_of(question: Question) -> dict[str, Any]:
    """The options of `minitorch2.compile` for a question."""
    return {"freezing": True} if question.freezing else {}


def measure(question: Question) -> Found:
    """Compile, compare with eager on two sets of fresh inputs, and time both in turns."""
    keep_memory()
    case = prepared(question)
    compiler = BACKENDS[question.backend](options_of(question))
    with torch.set_grad_enabled(case.backward):
        functions = {EAGER: case.build(lambda f: f), question.backend: case.build(compiler)}
        inputs = case.fresh_inputs()
        with turn(question.device, fcntl.LOCK_SH):
            start = perf_counter()
            repeated(functions[question.backend], inputs, 1)()
            found = Found(cold_seconds=perf_counter() - start)
            repeated(functions[EAGER], inputs, 1)()  # so that both have trained one step
            if disagreeing(case, functions) or disagreeing(case, functions):
                return replace(found, failure="wrong results")
        with turn(question.device, fcntl.LOCK_EX):
            found = replace(found, **timed(functions, inputs, question))
    return replace(found, **explained(case)) if question.backend == OURS else found


@contextmanager
def turn(device: str, lock: int) -> Iterator[None]:
    """Hold a GPU together with other shards to compile, alone to time.

    Shards on the CPU do not wait: they need cores of their own (`taskset`).
    """
    if device == "cpu":
        yield
        return
    with Path(gettempdir(), f"minitorch2-evaluate-{device.replace(':', '-')}").open("w") as file:
        fcntl.flock(file, lock)
        yield


def timed(
    functions: dict[str, Function], inputs: tuple[Tensor, ...], question: Question
) -> dict[str, Any]:
    """The medians of calls in turns."""
    runs = {name: repeated(function, inputs, 1) for name, function in functions.items()}
    warm = [sum(each.values()) for each in rounds(runs, question.warm_ups)]
    count = min(question.repeats, max(5, int(question.seconds / median(warm))))
    found = medians(list(rounds(runs, count)))
    seconds = found[question.backend]
    return {"seconds": seconds, "eager_seconds": found[EAGER], "repeats": count}


def explained(case: Case) -> dict[str, Any]:
    """What our capture makes of the case."""
    minitorch2.reset()
    with torch.set_grad_enabled(case.backward):
        found = minitorch2.explain(case.make(), backend="eager")(*case.fresh_inputs())
    return {
        "graphs": found.graph_count,
        "breaks": found.graph_break_count,
        "guard_microseconds": sum(found.guard_microseconds),
    }


def main(arguments: Sequence[str]) -> None:
    """Answer the question.

    Convolutions of float32 are computed in float32 by all. PyTorch allows TF32 by default, in which
    two right algorithms differ in the fourth digit, and nothing could be compared.
    """
    torch.backends.cudnn.allow_tf32 = False
    question = Question(**json.loads(arguments[0]))
    found = first_call(question) if "--first" in arguments[1:] else measure(question)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
