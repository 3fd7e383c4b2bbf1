"""The search: run a program, take the first graph that is wrong, cut it down, and find the blame.

A graph is taken out of the run by the judge of `checked`. If all graphs are right and the function
is wrong, capture is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from minitorch2 import config
from minitorch2.backends import fitting_backend, lookup_backend
from minitorch2.bytecode.compiling.backend_calls import name_of
from minitorch2.bytecode.compiling.compile_frame import Backend
from minitorch2.explorer.bisection.checked import JUDGE, compared
from minitorch2.explorer.bisection.differences import Difference
from minitorch2.explorer.bisection.levels import CACHE, Blame, blame_of, switches_of, wrong_fake
from minitorch2.explorer.bisection.minimal_file import file_of, file_of_function
from minitorch2.explorer.bisection.minimize import SECONDS, Minimizer
from minitorch2.explorer.bisection.outcomes import copies_of
from minitorch2.explorer.bisection.programs import Program
from minitorch2.explorer.bisection.rewrites import first_wrong_rewrite
from minitorch2.explorer.bisection.statements import Source, ends, smallest
from minitorch2.explorer.bisection.trials import HANGS_AFTER, Earlier, Trial
from minitorch2.graph.graph_module import GraphModule

FILE = "minimal_program.py"
CAPTURE = "capture: each graph is right, and the function is not"
"""The blame if no graph can be cut."""

RIGHT = "nothing is wrong: all that was compiled is what eager PyTorch computes"
NOTHING = "no graph was compiled, so nothing was compared"
"""The words if nothing is wrong, and if there was no graph."""

GUARDS = "guards: the call is right alone, and wrong behind the earlier calls, whose code serves it"
"""The blame if only a later call is wrong."""


class Found(BaseException):
    """The end of a run at the first wrong graph; no `except Exception` of the program stops it."""

    def __init__(self, backend: Backend, program: Program, difference: Difference) -> None:
        super().__init__(str(difference))
        self.backend = backend
        self.program = program
        self.difference = difference


@dataclass
class Taking:
    """The judge that takes the first wrong graph out of a run.

    Attributes:
        own_process: whether each graph is first tried in a process of its own.
        graphs: the number of calls of graphs so far.
    """

    own_process: bool = False
    graphs: int = 0
    _tried: set[int] = field(default_factory=set)

    def before(self, backend: Backend, module: GraphModule, inputs: list[Any]) -> None:
        """Try the graph in a process of its own, once."""
        self.graphs += 1
        if self.own_process and id(module) not in self._tried:
            self._tried.add(id(module))
            program = Program.of(module, inputs)
            found = Trial(backend, config_now(), own_process=True).difference(program)
            if found is not None:
                raise Found(backend, program, found)

    def differs(
        self, backend: Backend, module: GraphModule, inputs: list[Any], found: Difference
    ) -> None:
        """End the run."""
        raise Found(backend, Program.of(module, inputs), found)


def config_now() -> dict[str, config.Value]:
    """Return the options in force that are not at their defaults, but for those of this search."""
    now, plain = vars(config.current()), vars(config.Config())
    ours = ("compare", "suppress_errors", "wait", "cache_dir")
    return {name: now[name] for name in now if now[name] != plain[name] and name not in ours}


@dataclass(frozen=True)
class Bisection:
    """The result of a search.

    Attributes:
        difference: the failure; None if nothing is wrong.
        blame: the part of the compiler to blame.
        text: the smallest program that fails, as a file.
        path: where it was written.
        operations: the number of operations of the graph that was wrong, and of what is left; of
            statements, if no graph is wrong and the function was cut.
        trials: the number of programs that were tried.
        note: what is said if nothing is wrong, "" for the usual.
        is_function: whether the text is the function, cut by statements, instead of a graph.
    """

    difference: Difference | None
    blame: Blame | None = None
    text: str = ""
    path: Path | None = None
    operations: tuple[int, int] = (0, 0)
    trials: int = 0
    note: str = ""
    is_function: bool = False

    def __str__(self) -> str:
        if self.difference is None:
            return self.note or RIGHT
        lines = [str(self.difference), *(self.blame.lines() if self.blame else ())]
        if self.text:
            before, after = self.operations
            what = "statements" if self.is_function else "operations"
            lines.append(f"{before} {what}, {after} left after {self.trials} trials")
        if self.path is not None:
            lines.append(f"written: {self.path}")
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Return the result as what JSON can hold."""
        blame, found = self.blame, self.difference
        return {
            "difference": None if found is None else vars(found),
            "floor": blame and blame.floor,
            "rewrite": blame and blame.rewrite and vars(blame.rewrite),
            "switches": list(blame.switches) if blame else [],
            "first_wrong": blame.first_wrong if blame else "",
            "kernels": list(blame.kernels) if blame else [],
            "operations": list(self.operations),
            "trials": self.trials,
            "note": self.note,
            "path": None if self.path is None else str(self.path),
        }


@contextmanager
def judging(judge: Taking) -> Iterator[None]:
    """Let a judge decide about the graphs that are compiled with `compare` inside the block."""
    token = JUDGE.set(judge)
    try:
        yield
    finally:
        JUDGE.reset(token)


def searched(
    run: Callable[[], Difference | None],
    path: Path | None,
    *,
    own_process: bool = False,
    tolerance: float | None = None,
    seconds: float = SECONDS,
) -> Bisection:
    """Run a program whose graphs are compared, and return what is wrong with it.

    Args:
        run: runs the program; returns what is wrong with it if all its graphs are right.
        path: the file for the smallest program; None writes none.
    """
    taking = Taking(own_process)
    try:
        with judging(taking):
            found = run()
    except Found as wrong:
        trial = Trial(wrong.backend, config_now(), tolerance, own_process)
        return minimized(wrong.program, wrong.difference, trial, path, seconds)
    note = "" if taking.graphs else NOTHING
    return Bisection(found, None if found is None else Blame(CAPTURE), note=note)


def minimized(
    program: Program, found: Difference, trial: Trial, path: Path | None, seconds: float
) -> Bisection:
    """Return the smallest program that fails as a graph of a run has failed."""
    first = trial.difference(program)
    if not found.is_like(first):
        if first is None:
            floor = "unknown: the graph fails only in the run of its program"
            return Bisection(found, Blame(floor), operations=(program.size, program.size))
        found = first
    tensors = (each for each in program.inputs if isinstance(each, torch.Tensor))
    if any(each.layout is not torch.strided for each in tensors):
        blame = Blame("unknown: no part of a graph with sparse or nested inputs is tried")
        return Bisection(found, blame, operations=(program.size, program.size))
    minimizer = Minimizer(lambda each: found.is_like(trial.difference(each)), seconds)
    small = minimizer.run(program)
    left = trial.difference(small) or found
    blame = blame_of(small, trial, left)
    blame = replace(blame, floor=wrong_fake(program, small) or blame.floor)
    backend = None if trial.backend is fitting_backend else name_of(trial.backend)
    text = file_of(small, backend, trial.options, f"{left}. {blame.floor.capitalize()}.")
    if path is not None:
        path.write_text(text, encoding="utf-8")
    return Bisection(left, blame, text, path, (program.size, small.size), minimizer.trials)


def search_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    trial: Trial,
    path: Path | None,
    earlier: Sequence[Earlier] = (),
    seconds: float = SECONDS,
) -> Bisection:
    """Return what is wrong with a function at some arguments when it is compiled.

    Args:
        earlier: what was done in front of this call.
    """

    def call(*given: Any) -> Any:
        return function(*given)

    if trial.frontend is not None:
        return _of_frontend(function, args, trial, path, earlier, seconds)
    # In front of the search of graphs, which fills the cache with what the call alone needs.
    behind = trial.alone().difference_behind(function, earlier, args) if earlier else None
    checked = replace(trial, backend=compared(trial.backend), own_process=False)
    with config.patch(**trial.options):
        found = searched(
            lambda: checked.difference_of(call, args), path, own_process=trial.own_process,
            tolerance=trial.tolerance, seconds=seconds,
        )  # fmt: skip
    if found.difference is None and behind is not None:
        return _behind(function, args, trial, path, earlier, behind, seconds)
    if found.blame == Blame(CAPTURE):
        return cut_function(function, args, trial, found, path, seconds=seconds)
    return found


def _small(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def _of_frontend(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    trial: Trial,
    path: Path | None,
    earlier: Sequence[Earlier],
    seconds: float,
) -> Bisection:
    """Return what is wrong with a function that is deferred, or scripted."""
    frontend = trial.frontend
    assert frontend is not None

    def differs(with_trial: Trial) -> Difference | None:
        return with_trial.difference_behind(function, earlier, args)

    warm_up = torch.ones(2, device="cpu")
    trial.difference_of(_small, [warm_up])  # what is imported here, no fork has to import
    trial = trial.alone()
    difference = differs(trial)
    if difference is None:
        return Bisection(None)
    rewrite = first_wrong_rewrite(lambda: not difference.is_like(differs(trial)))
    blame = Blame(
        frontend.blame, rewrite,
        switches_of(trial, frontend.switches, lambda t: difference.is_like(differs(t))),
    )  # fmt: skip
    found = Bisection(difference, blame)
    return cut_function(function, args, trial, found, path, earlier, seconds)


def _behind(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    trial: Trial,
    path: Path | None,
    earlier: Sequence[Earlier],
    difference: Difference,
    seconds: float,
) -> Bisection:
    """Return the blame for a call behind earlier ones: guards let their code serve it."""
    trial = trial.alone()
    uncached = trial.with_options(cache=False).difference_behind(function, earlier, args)
    found = Bisection(difference, Blame(GUARDS if difference.is_like(uncached) else CACHE))
    return cut_function(function, args, trial, found, path, earlier, seconds)


def cut_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    trial: Trial,
    found: Bisection,
    path: Path | None,
    earlier: Sequence[Earlier] = (),
    seconds: float = SECONDS,
) -> Bisection:
    """Return a result with the fewest statements of the function that fail in the same way.

    A cut program may lose the statement that takes back what it changes, so each has a process of
    its own.
    """
    whole, difference = Source.of(function), found.difference
    if whole is None or difference is None:
        return found

    def fails(part: FunctionType, how: Trial) -> bool:
        def compare() -> Difference | None:
            within = replace(how, own_process=False)
            is_program = ends(part, copies_of(args))
            return within.difference_behind(part, earlier, args) if is_program else None

        return difference.is_like(how.alone().placed(compare, HANGS_AFTER / 4))

    quick = replace(trial.with_options(backend="eager"), backend=lookup_backend("eager"))
    if fails(whole.made(), quick):  # no kernel is to blame, so none need be compiled
        trial = quick
    small, trials = smallest(whole, lambda part: fails(part, trial), seconds)
    text = small.text if earlier else file_of_function(small, args, trial, str(found))
    if path is not None:
        path.write_text(text, encoding="utf-8")
    return replace(
        found, text=text, path=path, operations=(whole.size, small.size), trials=trials,
        is_function=True,
    )  # fmt: skip
