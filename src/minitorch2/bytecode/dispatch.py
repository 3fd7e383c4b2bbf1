"""Compiled functions: look for an entry whose guards hold, run it, or compile a new one.

A `Region` is one call of `compile`: a backend and options. It has one `CodeCache` for each code
object that it met. A frame reaches its cache in one of three ways:

- through the *dispatcher* of a compiled function: a generated function with the parameters of the
  user's own, which tries the guards of its entries in order, without any hook;
- through the dispatcher of a continuation, called by residual code;
- through the frame hook, for functions called where a graph is broken.

One lock for compiling, none for running. PyTorch 2 paper, section 3.2.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from types import CellType, CodeType, FunctionType
from typing import Any

import torch

from minitorch2 import config, stages
from minitorch2.bytecode.capture import Frame
from minitorch2.bytecode.compile_frame import (
    Backend,
    UserProgramError,
    compile_frame,
    graph_break_error,
)
from minitorch2.bytecode.compiled_frame import CompiledFrame, GraphBreak, canonical
from minitorch2.bytecode.continuations import Continuation, Continuations
from minitorch2.bytecode.guard_function import GuardFailure
from minitorch2.bytecode.guards import ConstantMatch
from minitorch2.bytecode.machine import frame_hook
from minitorch2.bytecode.machine.frame_hook import Answer, FrameHook
from minitorch2.bytecode.signature import generate_function, signature_of
from minitorch2.bytecode.skip_files import is_skipped_file
from minitorch2.bytecode.sources import LocalSource, Source
from minitorch2.bytecode.worth import is_worth_capturing
from minitorch2.cautions import caution
from minitorch2.errors import BackendError, GraphBreakError, MinitorchError, UnsupportedError
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)

Run = Callable[..., Any]
"""A residual function: takes the values of all parameters positionally."""

Entry = tuple[Callable[..., bool], Run]
"""A guard and the residual function that may run when it holds."""

_COMPILING = threading.RLock()


class CodeCache:
    """What a region knows about one code object.

    Attributes:
        code: the code object.
        compiled: its entries, in the order in which they are tried.
        as_is: why its frames run in Python as they are; None while they are captured.
        varying: its parameters that change too often to be constants.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.compiled: list[CompiledFrame] = []
        self.as_is: GraphBreak | None = None
        self.varying: set[Source] = set()
        self.shared: dict[int, Dispatcher] = {}
        self.dispatchers: weakref.WeakSet[Dispatcher] = weakref.WeakSet()

    def add(self, compiled: CompiledFrame) -> None:
        """Add an entry; it is dropped when an object dies that its guards know by its id only."""
        self.compiled.append(compiled)
        for value in compiled.guards.watched():
            _when_it_dies(value, self, compiled)
        for dispatcher in list(self.dispatchers):
            dispatcher.add(compiled)

    def drop(self, compiled: CompiledFrame) -> None:
        """Forget an entry."""
        self.compiled = [entry for entry in self.compiled if entry is not compiled]
        for dispatcher in list(self.dispatchers):
            dispatcher.drop(compiled)


def _when_it_dies(value: object, cache: CodeCache, compiled: CompiledFrame) -> None:
    try:
        weakref.finalize(value, cache.drop, compiled).atexit = False
    except TypeError:  # no weak references: keep it alive, so that its id stays its own
        compiled.references[f"__kept_{id(value)}"] = value


@dataclass(frozen=True, slots=True)
class TailCall:
    """A call of a continuation that is still to be made."""

    callee: Dispatcher
    values: tuple[object, ...]


class Dispatcher:
    """Runs calls of one function object.

    Attributes:
        entries: guard and residual function of each entry, bound to the function object; the list
            that the generated function walks.
    """

    def __init__(self, region: Region, function: FunctionType) -> None:
        self.region = region
        self.function = function
        self.cache = region.cache_of(function.__code__)
        self.entries: list[Entry] = []
        self._bound: dict[int, Entry] = {}
        with _COMPILING:
            for compiled in self.cache.compiled:
                self.add(compiled)
            self.cache.dispatchers.add(self)

    def add(self, compiled: CompiledFrame) -> None:
        """Try one more entry."""
        bound = compiled.bind(self.function)
        self._bound[id(compiled)] = (bound.check, bound.run)
        self.entries.append(self._bound[id(compiled)])

    def drop(self, compiled: CompiledFrame) -> None:
        """Forget an entry."""
        entry = self._bound.pop(id(compiled), None)
        self.entries[:] = [other for other in self.entries if other is not entry]

    def find(self, values: tuple[object, ...]) -> Run | None:
        """The residual function of the first entry whose guards hold."""
        _LOGGER.debug("step 2 of 8: %d entries of %s", len(self.entries), self.name)
        for check, run in self.entries:
            if check(*values):
                return run
        return None

    @property
    def name(self) -> str:
        """The function's qualified name."""
        return self.function.__qualname__

    def __call__(self, *values: object) -> object:
        """Call with the values of all parameters, positionally; follow tail calls to their end."""
        result = self._call(values)
        while type(result) is TailCall:
            result = result.callee._call(result.values)
        return result

    def tail(self, *values: object) -> TailCall:
        """The call as a value: whoever called the residual code that returns it will make it."""
        return TailCall(self, values)

    def _call(self, values: tuple[object, ...]) -> object:
        for check, run in self.entries:
            if check(*values):
                return run(*values)
        return self.miss(values)

    def miss(self, values: tuple[object, ...]) -> object:
        """A call that no entry serves: compile one, or run the function as it is."""
        try:
            run = self.find_or_compile(values)
        except UserProgramError as error:
            failed = error.reason
        else:
            return self._run(run, values)
        self.call_original(*values)  # raises the user's own exception
        raise graph_break_error(failed)

    def _run(self, run: Run | None, values: tuple[object, ...]) -> object:
        if run is None:
            with self.region.capturing():
                return self.call_original(*values)
        _LOGGER.debug("step 8 of 8: run the residual code of %s", self.name)
        return run(*values)

    def find_or_compile(self, values: tuple[object, ...]) -> Run | None:
        """An entry for these arguments, compiled if need be; None if the frame runs as it is."""
        if self.cache.as_is is not None or not is_worth_capturing(self.function, values):
            return None
        _LOGGER.debug("step 1 of 8: %s is not skipped", self.name)
        with _COMPILING, frame_hook.disabled():
            return self.find(values) or self._compile(values)

    def _compile(self, values: tuple[object, ...]) -> Run | None:
        if len(self.cache.compiled) >= config.current().recompile_limit:
            self._reach_limit(values)
            return None
        self._note_varying(values)
        compiled = self.region.compile(self.function, values, frozenset(self.cache.varying))
        if compiled is None:
            return None
        self.cache.add(compiled)
        return self._bound[id(compiled)][1]

    def _note_varying(self, values: tuple[object, ...]) -> None:
        """Stop taking a number or string for a constant whose guard fails.

        Floats are rarely the same again; integers and strings get a few tries, as they are often
        sizes or modes, for which separate graphs are better.
        """
        patience = config.current().recompile_limit // 2
        for failure in self.failures(values):
            guard = failure.guard
            if not isinstance(guard, ConstantMatch) or not isinstance(guard.source, LocalSource):
                continue
            if guard.cls is float or len(self.cache.compiled) >= patience:
                self.cache.varying.add(guard.source)

    def _reach_limit(self, values: tuple[object, ...]) -> None:
        """Stop compiling the function; say so once."""
        failures = self.failures(values)
        reason = str(failures[-1]) if failures else "unknown"
        times = len(self.cache.compiled)
        cause = f"{self.name} was compiled {times} times; the last guard that failed: {reason}"
        fix = "make that value stay the same, pass it as a tensor, or raise recompile_limit"
        if self.region.fullgraph:
            raise GraphBreakError(cause, code="recompile-limit", fix=fix)
        self.cache.as_is = GraphBreak("recompile-limit", cause, fix, first_line(self.cache.code))
        caution(_LOGGER, f"{cause}. From now on it runs without compilation. Fix: {fix}")

    def failures(self, values: tuple[object, ...]) -> list[GuardFailure]:
        """For each entry, the first guard that fails for these arguments."""
        bound = [entry.guards.bind(canonical(self.function)) for entry in self.cache.compiled]
        found = [guards.explain(*values) for guards in bound]
        return [failure for failure in found if failure is not None]

    @cached_property
    def call_original(self) -> Run:
        """The user's function, taking the values of all its parameters positionally."""
        signature = signature_of(self.cache.code)
        names = ", ".join(signature.names)
        text = f"def call({names}): return _minitorch2_function({signature.call})"
        return generate_function(text, {"_minitorch2_function": self.function})

    def as_function(self) -> FunctionType:
        """A function with the parameters and defaults of the user's that dispatches its calls."""
        signature = signature_of(self.cache.code)
        values = "".join(f"{name}, " for name in signature.names)
        text = _DISPATCH.format(header=signature.header, values=values)
        scope = {"_minitorch2_entries": self.entries, "_minitorch2_miss": self.miss}
        made = generate_function(text, scope)
        made.__defaults__ = self.function.__defaults__
        made.__kwdefaults__ = self.function.__kwdefaults__
        functools.update_wrapper(made, self.function)
        made.__dict__[_DISPATCHER] = self
        return made


_DISPATCHER = "_minitorch2_dispatcher"
"""The attribute of a compiled function that holds its dispatcher."""


def original_of(function: FunctionType) -> FunctionType:
    """The user's function that a compiled function stands for; other functions are their own."""
    dispatcher = function.__dict__.get(_DISPATCHER)
    return dispatcher.function if isinstance(dispatcher, Dispatcher) else function


_DISPATCH = """\
def dispatch({header}):
    for _minitorch2_check, _minitorch2_run in _minitorch2_entries:
        if _minitorch2_check({values}):
            return _minitorch2_run({values})
    return _minitorch2_miss(({values}))
"""


class ClosingContinuation:
    """A continuation that goes on using cells of its function: it needs them at each call."""

    def __init__(
        self, region: Region, continuation: Continuation, namespace: dict[str, Any]
    ) -> None:
        self._region = region
        self._code = continuation.code
        self._namespace = namespace

    def closing_over(self, *cells: CellType) -> Dispatcher:
        """The continuation with these cells."""
        name = self._code.co_name
        function = FunctionType(self._code, self._namespace, name, None, cells)
        return Dispatcher(self._region, function)


class Region:
    """One call of `compile`: a backend, its options, and the caches of all code it met."""

    def __init__(
        self,
        backend: Backend,
        fullgraph: bool = False,
        options: Mapping[str, config.Value] | None = None,
    ) -> None:
        self.backend = backend
        self.fullgraph = fullgraph
        self.options = dict(options or {})
        self.caches: dict[int, CodeCache] = {}
        self.failures: list[str] = []
        self._numbers = itertools.count()
        self.continuations = Continuations(self.new_number)
        self._hook: FrameHook | None = None
        _REGIONS.add(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Region:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Region, (self.backend, self.fullgraph, self.options)

    def reset(self) -> None:
        """Forget all entries; functions that ran as they are get another try."""
        for cache in list(self.caches.values()):
            for compiled in cache.compiled:
                cache.drop(compiled)
            cache.as_is = None

    # What residual code needs --------------------------------------------------------------------

    def new_number(self) -> int:
        """Numbers compiled graphs and continuations."""
        return next(self._numbers)

    def compile_graph(self, module: GraphModule, inputs: list[torch.Tensor]) -> Run:
        """Run the backend.

        Raises:
            BackendError: the backend failed.
        """
        try:
            return self.backend(module, inputs)
        except MinitorchError:
            raise
        except Exception as error:
            cause = f"the backend failed: {type(error).__name__}: {error}"
            raise BackendError(cause, code="backend-failed") from error

    def continuation(self, continuation: Continuation, frame: Frame) -> object:
        """Make a continuation callable from residual code."""
        code = continuation.code
        if continuation.as_is:
            reason = (
                "the function goes on in Python behind an instruction that residual code cannot do"
            )
            self.cache_of(code).as_is = GraphBreak("as-is", reason, "", first_line(code))
        if code.co_freevars:
            return ClosingContinuation(self, continuation, frame.globals)
        return self._dispatcher_of(FunctionType(code, frame.globals, code.co_name))

    def capturing(self) -> AbstractContextManager[object]:
        """The context in which functions called by residual code are captured on their own."""
        if self._hook is None:
            self._hook = FrameHook(self.on_frame)
        return self._hook.enabled()

    # Frames --------------------------------------------------------------------------------------

    def cache_of(self, code: CodeType) -> CodeCache:
        """The cache of a code object."""
        cache = self.caches.get(id(code))
        if cache is None:
            cache = self.caches.setdefault(id(code), CodeCache(code))
        return cache

    def on_frame(self, function: FunctionType, values: tuple[object, ...]) -> Answer | None:
        """What the frame hook asks about each frame: None to run it as it is."""
        code = function.__code__
        if is_skipped_file(code.co_filename):
            _LOGGER.debug("step 1 of 8: skip %s of %s", code.co_qualname, code.co_filename)
            frame_hook.skip(code)
            return None
        run = self._dispatcher_of(function).find_or_compile(values)
        if run is None:
            return None

        def answer() -> object:
            with frame_hook.disabled():
                return run(*values)

        return answer

    def _dispatcher_of(self, function: FunctionType) -> Dispatcher:
        """One dispatcher for all functions of one code and module; a new one for each closure."""
        if function.__closure__ is not None:
            return Dispatcher(self, function)
        shared = self.cache_of(function.__code__).shared
        key = id(function.__globals__)
        if key not in shared:
            shared[key] = Dispatcher(self, function)
        return shared[key]

    def compile(
        self, function: FunctionType, values: tuple[object, ...], varying: frozenset[Source]
    ) -> CompiledFrame | None:
        """Compile a frame; None (and a note in its cache) if it runs in Python as it is."""
        code = function.__code__
        frame = Frame(function, dict(zip(code.co_varnames, values, strict=False)), varying)
        try:
            with config.patch(**self.options):
                return compile_frame(frame, self)
        except UnsupportedError as reason:
            if self.fullgraph:
                raise graph_break_error(reason) from None
            self.run_as_is(code, reason)
        except UserProgramError:
            raise
        except MinitorchError:
            raise
        except Exception as error:
            if not config.current().suppress_errors:
                raise
            _LOGGER.exception(
                "internal error while capturing %s; it runs in Python", code.co_qualname
            )
            cause = f"internal error: {type(error).__name__}: {error}"
            self.failures.append(f"{code.co_qualname}: {cause}")
            self.run_as_is(code, UnsupportedError(cause, code="internal-error"))
        return None

    def run_as_is(self, code: CodeType, reason: UnsupportedError) -> None:
        """From now on frames of the code run in Python; functions that they call are captured."""
        line = reason.user_line
        where = line if isinstance(line, SourceLine) else first_line(code)
        _LOGGER.info("%s runs in Python: %s", code.co_qualname, reason)
        self.cache_of(code).as_is = GraphBreak.of(reason, where)
        stages.count("frames_as_is")


_REGIONS: weakref.WeakSet[Region] = weakref.WeakSet()


def reset_regions() -> None:
    """Forget everything that was compiled."""
    with _COMPILING:
        for region in list(_REGIONS):
            region.reset()


def first_line(code: CodeType) -> SourceLine:
    """The line on which a function is defined."""
    text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return SourceLine(code.co_filename, code.co_firstlineno, text, code.co_name)
