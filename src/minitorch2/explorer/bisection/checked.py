"""A backend whose compiled graphs are compared with eager PyTorch at each call: `compare=True`.

Before each call the graph runs in Python, and as it was compiled, on copies of its inputs and from
the same random state. So parameters, buffers and inputs that a graph writes to are written once, by
the call itself. Gradients are compared at once, for tangents of the comparison's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

import torch

from minitorch2.bytecode.compiling.backend_calls import first_line_of, name_of
from minitorch2.bytecode.compiling.compile_frame import Backend
from minitorch2.errors import CheckError
from minitorch2.errors.cautions import caution_once
from minitorch2.explorer.bisection.differences import Difference, first_difference, raised
from minitorch2.explorer.bisection.outcomes import copies_of, exact, observed
from minitorch2.graph.graph_module import GraphModule
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
COMMAND = "python -m minitorch2 bisect SCRIPT, or minitorch2.bisect(function, *args)"


class Judge(Protocol):
    """Decides about graphs while a program runs."""

    def before(self, backend: Backend, module: GraphModule, inputs: list[Any]) -> None:
        """See the inputs of a graph before it is compiled or called."""

    def differs(
        self, backend: Backend, module: GraphModule, inputs: list[Any], found: Difference
    ) -> None:
        """See copies of the inputs with which a compiled graph is wrong."""


class Strict:
    """The judge of `compare=True`: a difference is an error."""

    def before(self, backend: Backend, module: GraphModule, inputs: list[Any]) -> None:
        """Let each graph run."""

    def differs(
        self, backend: Backend, module: GraphModule, inputs: list[Any], found: Difference
    ) -> None:
        """Raise CheckError."""
        raise CheckError(
            f"a compiled graph is not what eager PyTorch computes: {found}",
            code="not-eager",
            fix=f"find the cause by {COMMAND}",
            user_line=first_line_of(module),
        )


JUDGE: ContextVar[Judge] = ContextVar("judge", default=Strict())  # noqa: B039 - it has no state


def compared(backend: Backend) -> Backend:
    """Return a backend that compiles as another one, and compares each call with eager PyTorch."""

    @functools.wraps(backend)
    def comparing(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
        kept, judge = module.copy(), JUDGE.get()
        judge.before(backend, kept, examples)
        try:
            run = backend(module, examples)
        except Exception as error:
            if not isinstance(judge, Strict):
                judge.differs(backend, kept, examples, raised(error))
            raise
        return _Compared(backend, kept, run)

    comparing.__name__ = name_of(backend)
    return comparing


class _Compared:
    """A compiled graph that compares its calls with eager PyTorch."""

    def __init__(self, backend: Backend, module: GraphModule, run: Callable[..., Any]) -> None:
        self._backend = backend
        self._module = module
        self._run = run

    def __call__(self, *inputs: Any) -> Any:
        """Run the compiled graph on the inputs, and return its results."""
        try:
            copies = copies_of(inputs)
        except (RuntimeError, NotImplementedError) as error:
            caution_once(_LOGGER, f"a graph is not compared with eager PyTorch: {error}")
            return self._run(*inputs)
        judge = JUDGE.get()
        judge.before(self._backend, self._module, copies)
        wanted = self._aside(observed, self._module, copies)
        if wanted.error is None:
            reference = self._aside(exact, self._module, copies)
            given = self._aside(observed, self._run, copies)
            found = first_difference(given, wanted, reference, None)
            if found is not None:
                judge.differs(self._backend, self._module, copies, found)
        return self._run(*inputs)

    def _aside(self, observe: Callable[..., Any], call: Callable[..., Any], inputs: Any) -> Any:
        """Observe a call on copies of the inputs, and leave the random state as it was."""
        with torch.random.fork_rng():
            return observe(call, copies_of(inputs))
