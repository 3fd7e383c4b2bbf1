"""`python -m benchmarks captures`: ways to capture, on the same models and programs.

Four are ours: bytecode (`compile`), lazy tensors, traces and scripts; three are PyTorch's. It is
Tables 1 and 2 of the PyTorch 2 paper with a column for each way. No way compiles kernels here: the
graphs run operator by operator, so that differences are those of capture alone. Without `--quick`
the models are measured with kernels, too.

Each call is compared with eager mode: the result, gradients, what became of arguments and buffers.
A program *works* if all calls are right. It is *silently wrong* if some call gives something else.
It is *refused* if an error is raised when it is captured, or in a call that eager mode serves.
"""

from __future__ import annotations

import copy
import json
import logging
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any, Final

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._pytree import tree_flatten

import minitorch2
from benchmarks.capture_programs import CALLS, CONTROL, MODELS, WEIGHT, Program
from minitorch2 import config, jit, lazy, stages
from minitorch2.demo.timing import medians, rounds, seconds

ROUNDS: Final = 20
WARM_CALLS: Final = 3
TOLERANCE: Final = 1e-4
WORKS, WRONG, REFUSED = "works", "silently wrong", "refused"
EAGER: Final = "eager"

Function = Callable[..., Any]
Capture = Callable[[Function, tuple[Any, ...]], Function]


# The ways -----------------------------------------------------------------------------------------


def run_lazily(function: Function, example: tuple[Any, ...]) -> Function:
    """Record each call."""

    def call(*arguments: Any) -> Any:
        with minitorch2.lazily():
            return function(*arguments)

    return call


def trace_by_torch(function: Function, example: tuple[Any, ...]) -> Function:
    """Trace as PyTorch does, with the check that is its default."""
    return torch.jit.trace(function, example, strict=False)


OURS: Final[dict[str, Capture]] = {
    "compile": lambda function, _: minitorch2.compile(function),
    "lazy": run_lazily,
    "trace": lambda function, example: jit.trace(function, example),
    "script": lambda function, _: jit.script(function),
}
PEERS: Final[dict[str, Capture]] = {
    "torch.compile": lambda function, _: torch.compile(function, backend="eager"),
    "torch.jit.trace": trace_by_torch,
    "torch.jit.script": lambda function, _: torch.jit.script(function),
}
WITH_KERNELS: Final[dict[str, Capture]] = {
    **OURS,
    **PEERS,
    "torch.compile": lambda function, _: torch.compile(function),
}


def compilations(way: str) -> int | None:
    """How many graphs this process has given to a backend; None where nobody counts it."""
    if way.startswith("torch.jit"):
        return None
    if way == "torch.compile":
        # Imported here: it takes seconds, and only this function needs the peer.
        from torch._dynamo.utils import counters

        return counters["stats"]["unique_graphs"]
    if way == "lazy":
        return lazy.metrics().compiled
    counted = stages.counters()
    return counted.get("graphs" if way == "compile" else "script_regions", 0)


def forget() -> None:
    """Let each program be captured afresh."""
    minitorch2.reset()
    lazy.reset()
    torch.compiler.reset()


# Calls, and what a caller can see of them ---------------------------------------------------------


@dataclass
class Observation:
    """What a call did: numbers and tensors, in order; or the type of the error."""

    seen: list[Any] = field(default_factory=list)
    error: Exception | None = None

    def equals(self, other: Observation) -> bool:
        """Whether two calls cannot be told apart."""
        if (self.error is None) != (other.error is None) or len(self.seen) != len(other.seen):
            return False
        return all(map(_equal, self.seen, other.seen))


def _equal(a: Any, b: Any) -> bool:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return type(a) is type(b) and a == b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def observe(call: Function, original: Function, arguments: tuple[Any, ...]) -> Observation:
    """Call; return the result, arguments, buffers, state of Python, and gradients."""
    try:
        result = call(*arguments)
        is_module = isinstance(original, torch.nn.Module)
        holder = call if hasattr(call, "calls") else original  # a script has its own attributes
        seen = [*_flat(result), *_flat(arguments), len(CALLS), getattr(holder, "calls", 0)]
        seen += [buffer.clone() for buffer in original.buffers()] if is_module else []
        seen += gradients(result, [*original.parameters()] if is_module else [WEIGHT])
        return Observation([_copy(part) if isinstance(part, Tensor) else part for part in seen])
    except Exception as error:
        return Observation(error=error)


def _copy(tensor: Tensor) -> Tensor:
    return lazy.to_eager(tensor.detach()).clone()


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):  # tree_flatten would sort the keys away
        return [part for key, item in value.items() for part in (key, *_flat(item))]
    return tree_flatten(value)[0]


def gradients(result: Any, leaves: list[Tensor]) -> list[Tensor | None]:
    """Return the gradients of the sum of a result."""
    outputs = [o for o in tree_flatten(result)[0] if isinstance(o, Tensor) and o.requires_grad]
    if not outputs:
        return []
    return list(torch.autograd.grad([o.sum() for o in outputs], leaves, allow_unused=True))


def new(program: Program) -> Function:
    """The program's function with its first weights; the state of Python is as at the start."""
    CALLS.clear()
    torch.manual_seed(0)
    return program.make()


def arguments_of(program: Program) -> list[tuple[Any, ...]]:
    torch.manual_seed(1)
    return program.calls()


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)


# Table 1: what is captured ------------------------------------------------------------------------


@dataclass
class Outcome:
    """One program captured in one way.

    Attributes:
        status: "works", "silently wrong" or "refused".
        reason: the error, or the first call that was wrong; empty where it works.
        warned: whether a warning was given.
        graphs: graphs that hold the first call; None for lazy tensors.
        compilations: graphs of all calls.
        first: seconds to capture, and of the first calls with the example.
        call: microseconds of a call afterwards.
        ratio: a call over one of eager mode.
    """

    program: str
    way: str
    status: str
    reason: str = ""
    warned: bool = False
    graphs: int | None = None
    compilations: int | None = None
    first: float = 0.0
    call: float = 0.0
    ratio: float = 0.0


def expected_of(program: Program) -> list[Observation]:
    """What eager mode does in each call."""
    function, found = new(program), []
    for number, arguments in enumerate(arguments_of(program)):
        program.before(function, number)
        seed(number)
        found.append(observe(function, function, arguments))
    return found


def check(program: Program, way: str, capture: Capture) -> Outcome:
    """Capture a program, and compare all its calls with eager mode."""
    forget()
    expected, before = expected_of(program), compilations(way)
    outcome = Outcome(program.name, way, WORKS)
    function = new(program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program.before(function, 0)
        try:
            captured = capture(function, copy.deepcopy(arguments_of(program)[0]))
        except Exception as error:
            return Outcome(program.name, way, REFUSED, f"when captured: {_brief(error)}")
        restart(program, function)
        for number, arguments in enumerate(arguments_of(program)):
            program.before(captured if hasattr(captured, "eval") else function, number)
            seed(number)
            found = observe(captured, function, arguments)
            outcome.status, outcome.reason = _verdict(found, expected[number], number)
            if number == 0:
                outcome.graphs = _graphs(way, before)
            if outcome.status != WORKS:
                break
    outcome.warned = any(
        "minitorch2" in str(w.category) or "Tracer" in str(w.category) for w in caught
    )
    outcome.compilations = _count(way, before)
    return outcome


def restart(program: Program, function: Function) -> None:
    """Give the program its first state again: to capture it may be a call, or none."""
    CALLS.clear()
    if isinstance(function, torch.nn.Module):
        function.load_state_dict(new(program).state_dict())


def _graphs(way: str, before: int | None) -> int | None:
    """How many graphs hold the program; None for lazy tensors, whose graphs are of other calls."""
    if way == "lazy":
        return None
    return _count(way, before) if way.endswith("compile") else 1


def _count(way: str, before: int | None) -> int | None:
    now = compilations(way)
    return None if now is None or before is None else now - before


def _verdict(found: Observation, expected: Observation, number: int) -> tuple[str, str]:
    if found.equals(expected):
        return WORKS, ""
    if found.error is not None:
        return REFUSED, f"call {number + 1}: {_brief(found.error)}"
    return WRONG, f"call {number + 1}"


def _brief(error: Exception) -> str:
    """The last line of a message that is no advice."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("Fix:")]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:160]


# Table 2: what a call costs -----------------------------------------------------------------------


def no_kernels() -> AbstractContextManager[object]:
    """Let each graph run operator by operator."""
    return config.patch(backend="eager")


def measure(program: Program, outcomes: list[Outcome], ways: dict[str, Capture]) -> None:
    """Time the ways that work: the first calls, then calls in turns with eager mode."""
    forget()
    example, runs = arguments_of(program)[0], {}
    function = new(program)
    runs[EAGER] = lambda: function(*example)
    working = {outcome.way: outcome for outcome in outcomes if outcome.status == WORKS}
    for way, outcome in working.items():
        start = perf_counter()
        captured = ways[way](new(program), example)
        runs[way] = lambda captured=captured: captured(*example)
        for _ in range(WARM_CALLS):
            runs[way]()
        outcome.first = perf_counter() - start
    calls = max(1, int(1e-3 / max(map(seconds, runs.values()))))
    repeated = {
        name: (lambda run=run: [run() for _ in range(calls)]) for name, run in runs.items()
    }  # fmt: skip
    spent = medians(list(rounds(repeated, ROUNDS)))
    for way, outcome in working.items():
        outcome.call = spent[way] / calls * 1e6
        outcome.ratio = spent[way] / spent[EAGER]


# Reporting ----------------------------------------------------------------------------------------


def summary(found: list[Outcome], title: str) -> Table:
    """Table 1: how many programs work, are wrong, are refused, by way."""
    ways = list(dict.fromkeys(outcome.way for outcome in found))
    shown = Table("", *ways, title=title)
    groups = [[outcome for outcome in found if outcome.way == way] for way in ways]
    rows: dict[str, Callable[[list[Outcome]], object]] = {
        status: lambda group, status=status: sum(o.status == status for o in group)
        for status in (WORKS, WRONG, REFUSED)
    }
    rows["  of the wrong: warned"] = lambda g: sum(o.status == WRONG and o.warned for o in g)
    rows["graphs of the first call"] = lambda g: _total(o.graphs for o in g if o.status == WORKS)
    rows["compilations in all"] = lambda g: _total(o.compilations for o in g if o.status == WORKS)
    for name, value in rows.items():
        shown.add_row(name, *(str(value(group)) for group in groups))
    return shown


def _total(numbers: Iterator[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return str(sum(known)) if known else "not counted"


def by_program(found: list[Outcome]) -> Table:
    """A line for each program, a column for each way."""
    ways = list(dict.fromkeys(outcome.way for outcome in found))
    shown = Table("program", *ways, title="each program: compilations where it works")
    for name in dict.fromkeys(outcome.program for outcome in found):
        cells = {outcome.way: _cell(outcome) for outcome in found if outcome.program == name}
        shown.add_row(name, *(cells[way] for way in ways))
    return shown


def _cell(outcome: Outcome) -> str:
    if outcome.status == WORKS:
        return "works" if outcome.compilations is None else f"works, {outcome.compilations}"
    return f"[bold red]{WRONG}[/]" if outcome.status == WRONG else REFUSED


def costs(found: list[Outcome], title: str) -> Iterator[Table]:
    """Table 2: a call over eager mode; and the seconds until it is fast."""
    timed = [outcome for outcome in found if outcome.call]
    ways = list(dict.fromkeys(outcome.way for outcome in found))
    values: dict[str, Callable[[Outcome], float]] = {
        f"{title}: a call over eager mode": lambda outcome: outcome.ratio,
        f"{title}: seconds to capture and of {WARM_CALLS} calls": lambda outcome: outcome.first,
    }
    for name, value in values.items():
        shown = Table("model", *ways, title=name)
        for model in dict.fromkeys(outcome.program for outcome in timed):
            cells = {o.way: f"{value(o):.2f}" for o in timed if o.program == model}
            shown.add_row(model, *(cells.get(way, "") for way in ways))
        shown.add_section()
        means = [[value(o) for o in timed if o.way == way] for way in ways]
        shown.add_row("geometric mean", *(f"{geometric_mean(m):.2f}" if m else "" for m in means))
        yield shown


@contextmanager
def quietly() -> Iterator[None]:
    """Hide warnings and messages: `check` counts the warnings."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def captured(programs: list[Program], ways: dict[str, Capture], *, timed: bool) -> list[Outcome]:
    """Check each program in each way; time those that work."""
    found = []
    for program in programs:
        outcomes = [check(program, way, capture) for way, capture in ways.items()]
        if timed:
            measure(program, outcomes, ways)
        found += outcomes
    return found


def show(name: str, found: list[Outcome], console: Console) -> None:
    """Print the tables of one part, as soon as it is measured."""
    if not found:
        return
    programs = len({outcome.program for outcome in found})
    console.print(summary(found, f"Table 1: {name}, {programs} programs"), by_program(found))
    if any(outcome.call for outcome in found):
        console.print(*costs(found, f"Table 2, {name}"))


def run(quick: bool, only: str, folder: Path, console: Console) -> int:
    """Measure, print, write JSON; the status is 1 if one of our ways was silently wrong."""
    ways = {**OURS, **PEERS}
    models = [program for program in MODELS if only in program.name]
    control = [program for program in CONTROL if only in program.name]
    report: dict[str, list[Outcome]] = {}
    with quietly():
        with no_kernels():
            report["models"] = captured(models, ways, timed=True)
            show("models", report["models"], console)
            report["control flow"] = captured(control, ways, timed=False)
            show("control flow", report["control flow"], console)
        if not quick:
            name = "models with kernels"
            report[name] = captured(models, WITH_KERNELS, timed=True)
            show(name, report[name], console)
    folder.mkdir(exist_ok=True)
    given = {name: [asdict(outcome) for outcome in found] for name, found in report.items()}
    (folder / "captures.json").write_text(json.dumps(given, indent=1) + "\n")
    ours = [outcome for found in report.values() for outcome in found if outcome.way in OURS]
    return int(any(outcome.status == WRONG for outcome in ours))
