"""Reports on what compiling did: `explain`, `bisect`, `recompiles`, `shapes`, `replay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

import torch

from minitorch2 import stages
from minitorch2.api.compile_options import Options, options_of
from minitorch2.api.compiler import BackendChoice, backend_of, compile_callable
from minitorch2.bytecode.dispatch import Region, dispatcher_of
from minitorch2.bytecode.dispatch.recompiles import Recompiles
from minitorch2.bytecode.observe.costs import ExplainedRegion, Operators
from minitorch2.bytecode.observe.explain import explanation_of
from minitorch2.bytecode.observe.replay import load_call
from minitorch2.bytecode.observe.shapes import ShapesReport, shapes_report
from minitorch2.errors import ConfigError

if TYPE_CHECKING:
    from minitorch2.explorer.bisection import Bisection
    from minitorch2.explorer.explored import ExploredCall


def recompiles(compiled: Callable[..., Any]) -> Recompiles:
    """Report why a compiled function or module, and code captured with it, was compiled again.

    The same as `compiled.recompiles()`.

    Raises:
        ConfigError: it is not compiled.
    """
    return _region_of(compiled).recompiles()


def shapes(compiled: Callable[..., Any]) -> ShapesReport:
    """Report what a compiled function or module assumes about sizes.

    The report lists every symbol with its range. For each specialization it gives the chain of user
    lines, operators and guards that led to it.

    Raises:
        ConfigError: it is not compiled.
    """
    caches = _region_of(compiled).caches.values()
    return shapes_report(entry for cache in list(caches) for entry in cache.compiled)


def _region_of(compiled: Callable[..., Any]) -> Region:
    called = type(compiled).forward if isinstance(compiled, torch.nn.Module) else compiled
    function = getattr(called, "__func__", called)
    dispatcher = dispatcher_of(function) if isinstance(function, FunctionType) else None
    if dispatcher is None:
        raise ConfigError(f"{compiled} is not compiled", code="not-compiled")
    return dispatcher.region


def replay(folder: str | Path, *, backend: BackendChoice = "eager") -> ExploredCall:
    """Capture again the call that `save_call` kept in a folder, and report the result.

    This runs the program in the folder: read programs of others before replaying them.
    """
    saved = load_call(folder)
    return explain(saved.function, backend=backend)(*saved.args, **saved.kwargs)


def bisect(
    function: Callable[..., Any],
    *args: Any,
    backend: BackendChoice = None,
    options: Options | None = None,
    path: str | Path | None = "minimal_program.py",
    own_process: bool = False,
    earlier: Sequence[Sequence[Any] | Callable[[], object]] = (),
    frontend: Literal["compile", "lazy", "script", "text", "trace"] = "compile",
) -> Bisection:
    """Find out why a compiled function is not what eager PyTorch computes.

    Each graph is compared, in float64 as well; the first that fails is cut to a small program.

    Args:
        function: what `compile` takes; it is called with `args`, several times.
        options: those of `compile`.
        path: the file for the small program; None writes none.
        own_process: each trial has a process of its own, for programs that kill theirs.
        earlier: arguments of calls in front of this one, or functions that change what it reads.
        frontend: `compile`, `lazily()`, `jit.script`, of its text alone, or `jit.trace`.
    """
    # Deferred: it reads all floors, which other reports need not.
    from minitorch2.explorer.bisection import frontends, search, trials

    chosen = backend_of(backend), options_of(None, options)[0]
    trial = trials.Trial(*chosen, own_process=own_process, frontend=frontends.named(frontend))
    return search.search_function(function, args, trial, Path(path) if path else None, earlier)


def explain(
    model: Callable[..., Any], *, backend: BackendChoice = None
) -> Callable[..., ExploredCall]:
    """``explain(model)(*args)``: compile anew for these arguments and report the result.

    The program's result is not returned. ``to_html(path)`` of the report writes a page.
    """

    def explaining(*args: Any, **kwargs: Any) -> ExploredCall:
        # Deferred: it reads all floors, which other reports need not.
        from minitorch2.explorer import explored, recorder

        region = ExplainedRegion(backend_of(backend), options=options_of(None, {"wait": True})[0])
        log = recorder.Recorder()
        with stages.collect_into((*stages.open_logs(), log)), Operators(region):
            compile_callable(model, region)(*args, **kwargs)
        return explored.explored(explanation_of(region, log), log)

    return explaining
