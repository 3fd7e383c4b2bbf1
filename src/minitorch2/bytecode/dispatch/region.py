"""One call of `compile`: a backend, its options, and the caches of all code that it met."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import CellType, CodeType, FunctionType
from typing import Any

import torch

from minitorch2 import config, stages
from minitorch2.bytecode.compiling.backend_calls import call_backend, is_suppressible
from minitorch2.bytecode.compiling.compile_frame import (
    Backend,
    UserProgramError,
    compile_frame,
    graph_break_error,
)
from minitorch2.bytecode.compiling.compiled_frame import BoundEntry, CompiledFrame, GraphBreak
from minitorch2.bytecode.dispatch.code_cache import CodeCache, first_line
from minitorch2.bytecode.dispatch.dispatcher import Dispatcher, Run
from minitorch2.bytecode.dispatch.recompiles import Recompiles
from minitorch2.bytecode.dispatch.stance import Stance, forced_backend, replace_current
from minitorch2.bytecode.dispatch.tracebacks import hide_frames
from minitorch2.bytecode.frames.skip_files import file_of, is_override, is_skipped_file, runs_apart
from minitorch2.bytecode.guards.filters import GuardFilter
from minitorch2.bytecode.guards.sizes import SizeHistory
from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.residual.continuations import Continuation, Continuations
from minitorch2.bytecode.trackers.control_rules import ORIGINAL_BY_TORCH, mark_of
from minitorch2.bytecode.trackers.frame import Frame
from minitorch2.bytecode.trackers.observed import UninitializedError
from minitorch2.errors import MinitorchError, UnsupportedError
from minitorch2.errors.cautions import caution_once
from minitorch2.foundation import profiling
from minitorch2.foundation.compile_lock import COMPILING, AsBefore, is_held, let_others_compile
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine
from minitorch2.logs import compile_id, compiling, get_logger
from minitorch2.marks.controls import Disabled
from minitorch2.marks.dimensions import ShapesSpec, mark_arguments
from minitorch2.native.cpython import frame_hook
from minitorch2.native.cpython.frame_hook import Answer, FrameHook
from minitorch2.native.cpython.interpreter_api import check_threads
from minitorch2.stages.progress import reported

_LOGGER = get_logger(__name__)


class ClosingContinuation:
    """A continuation of a closure: it needs the closure's cells at each call.

    Attributes:
        code: the continuation's code.
    """

    def __init__(
        self, region: Region, continuation: Continuation, namespace: dict[str, Any]
    ) -> None:
        self._region = region
        self.code = continuation.code
        self._namespace = namespace

    def closing_over(self, *cells: CellType) -> Dispatcher:
        """Return the continuation with these cells."""
        name = self.code.co_name
        function = FunctionType(self.code, self._namespace, name, None, cells)
        return Dispatcher(self._region, function)


class Region:
    """One call of `compile`: a backend, its options, and the caches of all code it met.

    Attributes:
        waits: whether calls wait until they are compiled.
        twin_classes: for the class and the `forward` of a module that was compiled here, the class
            of its compiled modules. Equal modules have one, so an entry serves them all.
    """

    def __init__(
        self,
        backend: Backend,
        fullgraph: bool = False,
        options: Mapping[str, config.Value] | None = None,
        name: str = "",
        guard_filter: GuardFilter | None = None,
        shapes_spec: ShapesSpec | None = None,
    ) -> None:
        check_threads()
        self.backend = backend
        self.name = name
        self.fullgraph = fullgraph
        self.options = dict(options or {})
        self.waits = bool(self.options.get("wait", True))
        self.guard_filter = guard_filter
        self.shapes_spec = dict(shapes_spec or {})
        self.caches: dict[int, CodeCache] = {}
        self.failures: list[str] = []
        self._numbers = itertools.count()
        self.continuations = Continuations(self.new_number)
        self.twin_classes: weakref.WeakValueDictionary[tuple[type, FunctionType], type] = (
            weakref.WeakValueDictionary()
        )
        self._hook: FrameHook | None = None
        _REGIONS.add(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Region:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self.backend, self.fullgraph, self.options, self.name, self.guard_filter
        return Region, (*settings, self.shapes_spec)

    def reset(self) -> None:
        """Forget all entries; functions that ran as they are get another try."""
        for cache in list(self.caches.values()):
            for compiled in cache.compiled:
                cache.drop(compiled)
            cache.as_is = None
            cache.died = 0
            cache.varying.clear()
            cache.was_called = False
            cache.sizes = SizeHistory()
            cache.pending = None
            cache.misses.clear()

    def name_of(self, function: FunctionType) -> str:
        """Return a function's qualified name, behind the name of the region if it has one."""
        return f"{self.name}: {function.__qualname__}" if self.name else function.__qualname__

    def settings(self) -> config.Config:
        """Return the options that are in force for compilations of this region."""
        with config.patch(**self.options) as options:
            return options

    def exceeded_limit(self, cache: CodeCache) -> str | None:
        """Return the option that forbids one more entry for a code object.

        Entries that died count. So the moment of garbage collection makes no difference, and a
        class that is made at each call does not cause a compilation at each call.
        """
        options = self.settings()
        if cache.times_compiled >= options.recompile_limit:
            return "recompile_limit"
        recompiled = sum(max(each.times_compiled - 1, 0) for each in list(self.caches.values()))
        if cache.times_compiled and recompiled >= options.accumulated_recompile_limit:
            return "accumulated_recompile_limit"
        return None

    def show_entries(self) -> None:
        """Let all dispatchers show the entries that the stance of the process allows."""
        for cache in list(self.caches.values()):
            for dispatcher in list(cache.dispatchers):
                dispatcher.show_entries()

    def recompiles(self) -> Recompiles:
        """Return the reasons of recompilations, here and in all code that was captured with it."""
        caches = list(self.caches.values())
        return Recompiles(recompile for cache in caches for recompile in cache.misses.all())

    # Methods for residual code -------------------------------------------------------------------

    def new_number(self) -> int:
        """Return the next number for the names of compiled graphs and continuations."""
        return next(self._numbers)

    def measure_guards(self, entry: BoundEntry, values: tuple[object, ...]) -> bool:
        """Note the cost of a new entry's guards; return whether they hold for these values."""
        return entry.compiled.guards.measure(entry.check, values)

    def compile_graph(self, module: GraphModule, inputs: list[torch.Tensor]) -> Run:
        """Run the backend; if it fails, the graph runs as it is.

        Raises:
            MinitorchError: the backend failed, and that is not suppressed.
        """
        backend, spare = forced_backend() or self.backend, module.copy()
        try:
            with AsBefore(), AsBefore():
                let_others_compile()
                return call_backend(backend, module, inputs)
        except Exception as error:
            if not self.suppresses_errors() or not is_suppressible(error):
                raise
            self.note_failure(str(error))
        return spare

    def suppresses_errors(self) -> bool:
        """Return whether a graph of this region runs in Python if its backend fails."""
        return not self.fullgraph and self.settings().suppress_errors

    def note_failure(self, failure: str) -> None:
        """Say that a graph runs in Python because its backend failed."""
        stages.note_backend_failure(_LOGGER, failure, "The graph runs")
        self.failures.append(failure)

    def continuation(
        self, continuation: Continuation, namespace: dict[str, Any], graph_break: GraphBreak | None
    ) -> object:
        """Make a continuation callable from residual code, behind a break or a suspension.

        A continuation that runs as it is starts with an instruction that residual code cannot do.
        """
        code = continuation.code
        if continuation.as_is:
            assert graph_break is not None, "a suspended frame goes on with what can be captured"
            cause = f"{graph_break.cause}; the rest of the function runs in Python"
            self.cache_of(code).as_is = replace(graph_break, cause=cause)
        if code.co_freevars:
            return ClosingContinuation(self, continuation, namespace)
        return self._dispatcher_of(FunctionType(code, namespace, code.co_name))

    def capturing(self) -> AbstractContextManager[object]:
        """Return the context in which functions that residual code calls are captured, too."""
        if self._hook is None:
            reason = frame_hook.why_unavailable()
            if reason is not None:
                text = f"functions called where a graph breaks run in Python: {reason}"
                caution_once(_LOGGER, text)
                return nullcontext()
            self._hook = FrameHook(self.on_frame)
        return self._hook.enabled()

    # Frames --------------------------------------------------------------------------------------

    def cache_of(self, code: CodeType) -> CodeCache:
        """Return the cache of a code object."""
        cache = self.caches.get(id(code))
        if cache is None:
            cache = self.caches.setdefault(id(code), CodeCache(code))
        return cache

    def on_frame(self, function: FunctionType, values: tuple[object, ...]) -> Answer | None:
        """Answer the frame hook, which asks about each frame; None runs the frame as it is."""
        code = function.__code__
        if is_held():
            return None  # a backward graph that is compiled where the program calls backward()
        if runs_apart(code.co_filename):
            frame_hook.run_apart(code)
            return None
        mark = mark_of(function)
        if isinstance(mark, Disabled):
            return self._left_to_python(function, values) if mark.recursive else None
        if is_skipped_file(file_of(function)) or is_override(code):
            _LOGGER.debug("step 1 of 8: skip %s of %s", code.co_qualname, code.co_filename)
            if ORIGINAL_BY_TORCH not in function.__dict__:  # wrappers with other marks share code
                frame_hook.skip(code)
            return None
        run = self._dispatcher_of(function).find_or_compile(values)
        if run is None:
            return None
        if profiling.is_on():
            run = profiling.ranged(f"minitorch2: {self.name_of(function)}", run)

        def answer() -> object:
            try:
                with frame_hook.disabled():
                    return run(*values)
            except BaseException as error:
                hide_frames(error)
                raise

        return answer

    def _left_to_python(self, function: FunctionType, values: tuple[object, ...]) -> Answer:
        """Run a disabled function, with all that it calls, as it is."""
        call = Dispatcher(self, function).call_uncaptured
        return lambda: call(*values)

    def _dispatcher_of(self, function: FunctionType) -> Dispatcher:
        """Return the dispatcher of a code and module's functions, or a new one for a closure."""
        if function.__closure__ is not None:
            return Dispatcher(self, function)
        shared = self.cache_of(function.__code__).shared
        key = id(function.__globals__)
        if key not in shared or shared[key].function.__code__ is not function.__code__:
            shared[key] = Dispatcher(self, function)
        return shared[key]

    def compile(
        self, function: FunctionType, values: tuple[object, ...], varying: frozenset[Source]
    ) -> CompiledFrame | None:
        """Compile a frame; None (and a note in its cache) if it runs in Python as it is."""
        code = function.__code__
        named = dict(zip(code.co_varnames, values, strict=False))
        if self.cache_of(code).is_given:
            mark_arguments(named, self.shapes_spec)
        frame = Frame(function, named, varying, sizes=self.cache_of(code).sizes)
        try:
            with (
                compiling(self.cache_of(code).new_compile_id()),
                config.patch(**self.options) as options,
                stages.written(_stages_folder(options.stages_dir)),
                reported(self.name_of(function)),
                stages.phase("other"),
            ):
                return compile_frame(frame, self)
        except UnsupportedError as reason:
            if self.fullgraph:
                raise graph_break_error(reason) from None
            self.run_as_is(code, reason)
        except (UserProgramError, UninitializedError):
            raise
        except MinitorchError:
            raise
        except Exception as error:
            if not self.suppresses_errors():
                raise
            _LOGGER.exception(
                "internal error while capturing %s; it runs in Python", code.co_qualname
            )
            cause = f"internal error: {type(error).__name__}: {error}"
            self.failures.append(f"{code.co_qualname}: {cause}")
            self.run_as_is(code, UnsupportedError(cause, code="internal-error"))
        return None

    def run_as_is(self, code: CodeType, reason: UnsupportedError) -> None:
        """Let frames of the code run in Python from now on; their callees are captured."""
        line = reason.user_line
        where = line if isinstance(line, SourceLine) else first_line(code)
        _LOGGER.info("%s runs in Python: %s", code.co_qualname, reason)
        left = self.cache_of(code).as_is = GraphBreak.of(reason, where)
        stages.count("frames_as_is")
        stages.record("as_is", f"{code.co_qualname}: {left}", subject=(code, left))


def _stages_folder(parent: str) -> str:
    """Return the folder for the stages of the present compilation; empty if `parent` is."""
    return parent and os.path.join(parent, f"{os.getpid()}_{compile_id().replace('/', '_')}")


_REGIONS: weakref.WeakSet[Region] = weakref.WeakSet()


def reset_regions() -> None:
    """Forget everything that was compiled."""
    with COMPILING:
        for region in list(_REGIONS):
            region.reset()


def take_stance(stance: Stance) -> Stance:
    """Let all compiled functions of the process take a stance; return the one before."""
    with COMPILING:
        previous = replace_current(stance)
        for region in list(_REGIONS):
            region.show_entries()
    return previous
