"""A trial: one program, compiled in one way, compared with eager PyTorch.

    trial ::= Trial(backend, options, tolerance, own_process, frontend)

A trial in a process of its own survives a program that kills its process. The process is a fork, so
it has the state of this one, and one thread.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from types import FunctionType
from typing import Any

import numpy
import torch

from minitorch2 import config
from minitorch2.bytecode.compiling.compile_frame import Backend
from minitorch2.bytecode.dispatch import Dispatcher, Region
from minitorch2.explorer.bisection.differences import Difference, first_difference
from minitorch2.explorer.bisection.frontends import Frontend
from minitorch2.explorer.bisection.outcomes import Outcome, copies_of, exact, observed
from minitorch2.explorer.bisection.programs import Program

HANGS_AFTER = 120.0
"""Seconds after which a process of its own is given up."""
FORK = multiprocessing.get_context("fork")
"""How processes of their own begin: with all that this one has compiled, planted and patched."""


Earlier = Sequence[Any] | Callable[[], object]
"""The arguments of an earlier call, or a function that changes what the program reads."""


@dataclass(frozen=True)
class Trial:
    """A way to compile programs, and to compare them.

    Attributes:
        options: those of the call of `compile`; a failure of the backend is always an error.
        own_process: whether each trial has a process of its own.
        seed: for the random state in front of each call.
        frontend: what runs functions instead of `compile`, with these options.
    """

    backend: Backend
    options: Mapping[str, config.Value] = field(default_factory=dict)
    tolerance: float | None = None
    own_process: bool = False
    seed: int = 0
    frontend: Frontend | None = None

    def compiled(self, function: FunctionType) -> Callable[..., Any]:
        """Return a function, compiled in this way."""
        if self.frontend is not None:
            with config.patch(**self.options):
                return self._with_its_options(self.frontend.run(function))
        options = {**self.options, "suppress_errors": False, "wait": True}
        return Dispatcher(Region(self.backend, options=options), function).as_function()

    def _with_its_options(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with config.patch(**self.options):
                return run(*args)

        return call

    def with_options(self, **options: config.Value) -> Trial:
        """Return the same way with other options."""
        return replace(self, options={**self.options, **options})

    def difference(self, program: Program) -> Difference | None:
        """Return what is wrong with a program; None if nothing is, or if eager refuses it."""
        try:
            function = program.function()
        except ValueError:
            return None
        return self.placed(partial(self._compare, function, program.arguments))

    def difference_of(self, function: Any, inputs: Sequence[Any]) -> Difference | None:
        """Return what is wrong with a function at some inputs."""
        return self.placed(partial(self._compare, function, partial(copies_of, inputs)))

    def difference_behind(
        self, function: Any, earlier: Sequence[Earlier], inputs: Sequence[Any]
    ) -> Difference | None:
        """Return what is wrong with a call of a compiled function behind what came earlier."""
        if not earlier:
            return self.difference_of(function, inputs)

        def compare() -> Difference | None:
            compiled = self.compiled(function)
            for each in earlier:
                if callable(each):
                    each()
                else:
                    self._seeded(observed, compiled, copies_of(each))
            return self._compare(function, partial(copies_of, inputs), compiled)

        return self.placed(compare)

    def placed(
        self, compare: Callable[[], Difference | None], seconds: float = HANGS_AFTER
    ) -> Difference | None:
        """Return what a comparison finds, in a process of its own if trials have one."""
        return in_own_process(compare, seconds) if self.own_process else compare()

    def alone(self) -> Trial:
        """Return the same way in a process of its own, so that a program leaves nothing behind.

        A process with a GPU has no fork.
        """
        has_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return replace(self, own_process=self.own_process or not has_gpu)

    def _compare(
        self,
        function: FunctionType,
        arguments: Callable[[], list[Any]],
        compiled: Callable[..., Any] | None = None,
    ) -> Difference | None:
        wanted = self._seeded(observed, function, arguments())
        if wanted.error is not None:
            return None
        calls = 1 if self.frontend is None else self.frontend.calls
        try:
            compiled = compiled or self.compiled(function)
            given = [self._seeded(observed, compiled, arguments()) for _ in range(calls)]
        except Exception as error:  # noqa: BLE001 - it is compared
            given = [Outcome(error=error)]
        # At last: what raises in float64 may leave things as no program leaves them.
        reference = self._seeded(exact, function, arguments())
        found = (first_difference(each, wanted, reference, self.tolerance) for each in given)
        return next((each for each in found if each is not None), None)

    def _seeded(self, observe: Callable[..., Any], call: Callable[..., Any], args: Any) -> Any:
        with torch.random.fork_rng(devices=[]), _python_state_kept():
            torch.manual_seed(self.seed)
            random.seed(self.seed)
            numpy.random.seed(self.seed)
            found: Outcome | None = observe(call, args)
        return found


@contextmanager
def _python_state_kept() -> Iterator[None]:
    """Leave the random numbers of Python and of NumPy as they were."""
    python, of_numpy = random.getstate(), numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(of_numpy)


def in_own_process(
    compare: Callable[[], Difference | None], seconds: float = HANGS_AFTER
) -> Difference | None:
    """Return what a comparison in a fork of this process finds; its death is a difference."""
    reading, writing = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(compare, writing))
    child.start()
    writing.close()
    try:
        is_there = reading.poll(seconds)
        found: Difference | None = reading.recv() if is_there else None
    except EOFError:
        child.join()
        return Difference("crash", "the process", f"died of {ending(child.exitcode)}")
    if not is_there:
        child.kill()
        found = Difference("hang", "the process", f"did not end in {seconds:g} seconds")
    child.join()
    return found


def ending(status: int | None) -> str:
    """Return the name of the signal that ended a process, or its status."""
    return signal.Signals(-status).name if status is not None and status < 0 else f"exit {status}"


def _answer(compare: Callable[[], Difference | None], writing: Connection) -> None:
    """Send what a comparison finds to the parent process."""
    torch.set_num_threads(1)  # the other threads of the pool are not in this process
    writing.send(compare())
