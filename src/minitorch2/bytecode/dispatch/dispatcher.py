"""Calls of one function object: try the guards of its entries, run one, or compile another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any

from minitorch2 import config
from minitorch2.bytecode.compiling.compile_frame import Backend, UserProgramError, graph_break_error
from minitorch2.bytecode.compiling.compiled_frame import (
    BoundEntry,
    CompiledFrame,
    canonical,
)
from minitorch2.bytecode.compiling.isolation import isolated
from minitorch2.bytecode.compiling.rerun import Rerun
from minitorch2.bytecode.dispatch import background, stance, suspended, tracebacks
from minitorch2.bytecode.dispatch.code_cache import first_line
from minitorch2.bytecode.dispatch.definition import Definition
from minitorch2.bytecode.dispatch.stance import shown_entries
from minitorch2.bytecode.frames.callers import continues
from minitorch2.bytecode.frames.signature import PRIVATE, generate_function, signature_of
from minitorch2.bytecode.frames.steps import calling_all_positionally, is_suspendable
from minitorch2.bytecode.frames.worth import is_worth_capturing
from minitorch2.bytecode.guards import ConstantMatch
from minitorch2.bytecode.guards.guard_function import GuardFailure
from minitorch2.bytecode.guards.sources import LocalSource, PeekSource
from minitorch2.bytecode.trackers.control_rules import mark_of
from minitorch2.bytecode.trackers.observed import UninitializedError
from minitorch2.errors import GraphBreakError, MinitorchError, RecompileError, UnsupportedError
from minitorch2.errors.cautions import caution
from minitorch2.foundation import profiling
from minitorch2.foundation.compile_lock import COMPILING, AsBefore, put_garbage_off, take_turn
from minitorch2.foundation.generated_code import DISPATCHER
from minitorch2.logs import get_logger
from minitorch2.marks.controls import Disabled
from minitorch2.native.cpython import frame_hook

if TYPE_CHECKING:
    from minitorch2.bytecode.dispatch.region import Region

_LOGGER = get_logger(__name__)

Run = Callable[..., Any]
"""A residual function: takes the values of all parameters positionally."""

Entry = tuple[Callable[..., bool], Run]
"""A guard and the residual function that may run when it holds."""


@dataclass(frozen=True, slots=True)
class TailCall:
    """A call of a continuation that is still to be made."""

    callee: Dispatcher
    values: tuple[object, ...]


class Dispatcher:
    """Runs calls of one function object.

    Args:
        holder: the class of modules whose `forward` the function is, if it is one. If the class
            gets another `forward` later, that one runs.

    Attributes:
        entries: guard and residual function of each entry, bound to the function object; the list
            that the generated function walks.
    """

    def __init__(
        self, region: Region, function: FunctionType, holder: type[Any] | None = None
    ) -> None:
        self.region = region
        self.function = function
        self.holder = holder
        self.entries: list[Entry] = []
        self._changes = 0
        with COMPILING:
            self._take_code()

    def _take_code(self) -> None:
        """Serve calls by the entries of the code that the function has now."""
        self.definition = Definition.of(self.function)
        self.cache = self.region.cache_of(self.function.__code__)
        self._bound = {id(entry): entry.bind(self.function) for entry in self.cache.compiled}
        self.show_entries()
        self.cache.dispatchers.add(self)

    def follow(self, scope: dict[str, object]) -> None:
        """Serve calls by the code that the function was given since the last call.

        Args:
            scope: the globals of the compiled function.

        Raises:
            RecompileError: the call is bound to parameters or defaults that are gone.
        """
        function = self.function if self.holder is None else _forward_of(self.holder)
        found = Definition.of(function)
        if not self.definition.binds_like(found):
            raise RecompileError(
                f"the parameters of {self.name} were replaced after it was compiled",
                fix="compile the function again",
                user_line=first_line(self.function.__code__),
            )
        with COMPILING:
            self.cache.dispatchers.discard(self)
            self.function = function
            for name in ("call_original", "call_captured"):
                self.__dict__.pop(name, None)
            self._take_code()
        private = signature_of(self.cache.code).private
        names = self._definition_names().items()
        scope.update({private + name: value for name, value in names})

    def _definition_names(self) -> dict[str, object]:
        """Return the names that the test of the function's replacement reads."""
        names = {"function": self.function, **self.definition.names()}
        if self.holder is not None:
            names |= {"class": self.holder, "held": self.holder.forward}
        return names

    def add(self, compiled: CompiledFrame) -> None:
        """Try one more entry."""
        self._bound[id(compiled)] = compiled.bind(self.function)
        self.show_entries()

    def drop(self, compiled: CompiledFrame) -> None:
        """Forget an entry."""
        self._bound.pop(id(compiled), None)
        self.show_entries()

    def show_entries(self) -> None:
        """Let calls try the entries that the stance of the process allows.

        Garbage collection may drop an entry in between, in this thread or another; it must not come
        back.
        """
        self._changes += 1
        while True:
            changes, bound = self._changes, list(self._bound.values())
            self.entries[:] = shown_entries(bound, self.function, lambda: self.call_original)
            if changes == self._changes:
                return

    def find(self, values: tuple[object, ...]) -> Run | None:
        """Return the residual function of the first entry whose guards hold; None if none holds."""
        _LOGGER.debug("step 2 of 8: %d entries of %s", len(self.entries), self.name)
        for check, run in self.entries:
            if check(*values):
                return run
        return None

    @property
    def name(self) -> str:
        """The function's qualified name, behind the name of its region if it has one."""
        return self.region.name_of(self.function)

    def __call__(self, *values: object) -> object:
        """Call with the values of all parameters, positionally; follow tail calls to their end."""
        result = self._call(values)
        while type(result) is TailCall:
            result = result.callee._call(result.values)
        return result

    def tail(self, *values: object) -> TailCall:
        """Return the call as a value; the caller of the residual code that returns it makes it."""
        return TailCall(self, values)

    def _call(self, values: tuple[object, ...]) -> object:
        for check, run in self.entries:
            if check(*values):
                return run(*values)
        return self.resolve(values)(*values)

    def resolve(self, values: tuple[object, ...]) -> Run:
        """Return a function for a call that no entry serves: compiled now, or the user's own."""
        try:
            run = self.find_or_compile(values)
        except UserProgramError as error:
            return self._failing(error.reason)
        if run is None:
            return self.call_captured
        _LOGGER.debug("step 8 of 8: run the residual code of %s", self.name)
        return run

    def _failing(self, reason: UnsupportedError) -> Run:
        def call(*values: object) -> object:
            result = self.call_original(*values)  # raises the user's own exception
            if is_suspendable(self.function.__code__):
                return result  # it will, in one of its steps
            raise graph_break_error(reason)

        return call

    def find_or_compile(self, values: tuple[object, ...]) -> Run | None:
        """Return an entry for these values, compiled if need be; None to run the frame as it is."""
        if self.cache.as_is is not None or not is_worth_capturing(self.function, values):
            return None
        if isinstance(mark_of(self.function), Disabled):
            return None
        _LOGGER.debug("step 1 of 8: %s is not skipped", self.name)
        run = None if self.region.waits else self._run_while_compiling(values)
        return run or self._compile_in_turn(values)

    def _compile_in_turn(self, values: tuple[object, ...]) -> Run | None:
        """Let one thread after another compile the function."""
        turn = self.cache.turn
        with AsBefore(turn), AsBefore(turn):
            take_turn(turn)
            put_garbage_off()
            with COMPILING, frame_hook.disabled():
                while True:
                    try:
                        return self.find(values) or isolated(lambda: self._compile(values))
                    except UninitializedError as call:
                        if not self.region.waits or not call.initialize():
                            return self.call_uncaptured

    def _run_while_compiling(self, values: tuple[object, ...]) -> Run | None:
        """Find an entry or run in Python, and let another thread compile; None if this one has to.

        The call that starts the other thread runs in Python, however fast that thread is.

        Raises:
            MinitorchError: the other thread's compilation for an earlier call failed with it.
        """
        pending = self.cache.pending
        if pending is not None and not pending.done():
            return self.find(values) or self.call_uncaptured
        self.cache.pending = None
        error = None if pending is None or pending.cancelled() else pending.exception()
        if isinstance(error, MinitorchError | UserProgramError):
            raise error
        if error is not None or stance.current() != stance.Stance():
            return None
        if not background.can_compile_elsewhere():
            return None
        self._forbid_recompilation(values)
        run = self.find(values)
        if run is None:
            self.cache.pending = background.submit(lambda: self._compile_elsewhere(values))
        return run or self.call_uncaptured

    def _compile_elsewhere(self, values: tuple[object, ...]) -> None:
        with config.patch(suppress_errors=False):
            self._compile_in_turn(values)

    def _forbid_recompilation(self, values: tuple[object, ...]) -> None:
        if self.cache.times_compiled and self.region.settings().fail_on_recompile:
            raise self._recompile_error(values)

    def _compile(self, values: tuple[object, ...]) -> Run | None:
        now, is_first = stance.current(), not self.cache.was_called
        self.cache.was_called = True
        if now.name == "eager_on_recompile":
            return None
        if now.name == "fail_on_recompile":
            raise self._recompile_error(values)
        if is_first and now.name in stance.FIRST_CALL_DIFFERS:
            return self._first_run(values, now.first_backend)
        self._forbid_recompilation(values)
        limit = self.region.exceeded_limit(self.cache)
        if limit is not None:
            self._reach_limit(values, limit)
            return None
        self._note_varying(values)
        before = len(self.entries)
        compiled = self.region.compile(self.function, values, frozenset(self.cache.varying))
        if compiled is None:
            return None
        if len(self.entries) > before:  # another thread was here while the backend ran
            run = self.find(values)
            if run is not None:
                return run
        compiled = replace(compiled, forced_backend=now.backend)
        if not self.region.waits:
            for value in compiled.references.values():
                background.prepare(value)
        self.cache.add(compiled)
        entry = self._bound.get(id(compiled)) or compiled.bind(self.function)
        self._measure_guards(entry, values)
        return entry.run

    def _measure_guards(self, entry: BoundEntry, values: tuple[object, ...]) -> None:
        """Note the cost of a new entry's guards, and whether they hold for its first call."""
        guards = entry.compiled.guards
        holds, cost = self.region.measure_guards(entry, values), guards.microseconds
        _LOGGER.info("%d guards of %s: %.1f us a call", len(guards.guards), self.name, cost)
        if not holds:
            reason = next(reversed(self.failures(values)), "unknown")
            _LOGGER.warning("%s will be compiled again: %s", self.name, reason)

    def _recompile_error(self, values: tuple[object, ...]) -> RecompileError:
        failures = [f"entry {i}: {failure}" for i, failure in enumerate(self.failures(values))]
        return RecompileError(
            "\n".join([f"a call of {self.name} needs to be compiled", *failures]),
            fix="make the guard hold (dynamic=True lets sizes vary), or compile such a call before",
            user_line=first_line(self.cache.code),
        )

    def _first_run(self, values: tuple[object, ...], backend: Backend | None) -> Run | None:
        """Return an entry for this call only, by another backend; without one it runs in Python."""
        if backend is None:
            return self.call_uncaptured
        with stance.compiling_with(backend):
            compiled = self.region.compile(self.function, values, frozenset(self.cache.varying))
        return None if compiled is None else compiled.bind(self.function).run

    def _note_varying(self, values: tuple[object, ...]) -> None:
        """Stop taking a number or string for a constant whose guard fails.

        Floats are rarely the same again; integers and strings get a few tries, as they are often
        sizes or modes, for which separate graphs are better. With `fullgraph` they stay constants,
        as nothing can be computed outside the graph.
        """
        patience = self.region.settings().recompile_limit // 2
        for failure in self._missed(values):
            guard = failure.guard
            if not isinstance(guard, ConstantMatch) or not isinstance(guard.source, _CHANGING):
                continue
            if self.region.fullgraph:
                continue
            if guard.cls is float or len(self.cache.compiled) >= patience:
                self.cache.varying.add(guard.source)

    def _reach_limit(self, values: tuple[object, ...], limit: str) -> None:
        """Stop compiling the function; warn once, with the cost of that."""
        failures = self._missed(values)
        reason = str(failures[-1]) if failures else "what it asked for has died"
        times = self.cache.times_compiled
        cause = f"{self.name} was compiled {times} times; the last guard that failed: {reason}"
        fix = f"make that value stay the same, pass it as a tensor, or raise {limit}"
        if self.region.fullgraph:
            where = first_line(self.cache.code)
            raise GraphBreakError(cause, code="recompile-limit", fix=fix, user_line=where)
        self.region.run_as_is(
            self.cache.code, UnsupportedError(cause, code="recompile-limit", fix=fix)
        )
        caution(_LOGGER, f"{cause}. {self._cost_of_limit()} Fix: {fix}")

    def _cost_of_limit(self) -> str:
        """Describe the cost of compiling no more entries."""
        counts = [entry.operators for entry in self.cache.compiled]
        most = max(counts, default=0)
        return (
            f"A call that none of the {len(counts)} versions serves runs in Python from now on: "
            f"{most} operators one by one, after {len(counts)} guards have failed."
        )

    def _missed(self, values: tuple[object, ...]) -> list[GuardFailure]:
        """Record that no entry serves these arguments, and why."""
        failures = self.failures(values)
        self.cache.misses.note(failures)
        return failures

    def failures(self, values: tuple[object, ...]) -> list[GuardFailure]:
        """Return, for each entry, the first guard that fails for these arguments."""
        function, found = canonical(self.function), []
        for entry in self.cache.compiled:
            failure = entry.guards.bind(function).explain(*values)
            if failure is not None:
                found.append(replace(failure, compile_id=entry.compile_id))
        return found

    @cached_property
    def call_original(self) -> Run:
        """The user's function, taking the values of all its parameters positionally."""
        return calling_all_positionally(self.function)

    @cached_property
    def call_captured(self) -> Run:
        """The user's function as it is; its callees are captured."""
        if is_suspendable(self.function.__code__):
            return self.call_original  # each of its steps is made in the context
        return self._generated(_CALL_CAPTURED)

    def call_uncaptured(self, *values: object) -> object:
        """Call the user's function as it is, with all that it calls."""
        with frame_hook.disabled():
            return self.call_original(*values)

    def as_function(self) -> FunctionType:
        """Return a function that dispatches its calls, like the user's in kind and parameters."""
        code = self.cache.code
        self.cache.is_given = True
        made = self._generated(suspended.dispatching_text(code) or _DISPATCH)
        made.__defaults__ = self.function.__defaults__
        made.__kwdefaults__ = self.function.__kwdefaults__
        functools.update_wrapper(made, self.function)
        made = suspended.of_the_same_kind(made, code)
        made.__dict__.setdefault("recompiles", self.region.recompiles)
        return made

    def _generated(self, text: str) -> FunctionType:
        """Return a function with the user's parameters."""
        changed = self.definition.changed(f"{PRIVATE}function")
        if self.holder is not None:
            changed += f" or {PRIVATE}class.forward is not {PRIVATE}held"
        values = {
            "entries": self.entries,
            "resolve": self.resolve,
            "begin": self,
            "capturing": self.region.capturing,
            **suspended.names(self.region.capturing),
            "hide": tracebacks.hide_frames,
            "follow": self.follow,
            "profiler": profiling.PROFILER,
            "profiled": profiling.ranged(f"minitorch2: {self.name}", self),
            **self._definition_names(),
        }
        made = generate_function(text.replace("{changed}", changed), self.cache.code, values)
        made.__globals__[DISPATCHER] = self
        return made


_CHANGING = (LocalSource, PeekSource)
"""The sources of numbers and strings that differ in each call: arguments, iterators."""


def original_of(function: FunctionType) -> FunctionType:
    """Return the user's function that a compiled function stands for; others are their own."""
    dispatcher = dispatcher_of(function)
    return function if dispatcher is None else dispatcher.function


def _forward_of(cls: type[Any]) -> FunctionType:
    """Return the function that modules of a class run."""
    function = getattr(cls.forward, "__func__", cls.forward)
    assert isinstance(function, FunctionType), f"{cls.__name__}.forward is a Python function"
    return original_of(function)


def dispatcher_of(function: FunctionType) -> Dispatcher | None:
    """Return the dispatcher of a compiled function's calls; None if it was not compiled."""
    dispatcher = function.__globals__.get(DISPATCHER)
    return dispatcher if isinstance(dispatcher, Dispatcher) else None


_CALL_CAPTURED = """\
def call({names}):
    with _minitorch2_capturing():
        return _minitorch2_function({call})
"""
_DISPATCH = """\
def dispatch({header}):
    try:
        if {changed}:
            _minitorch2_follow(_minitorch2_globals())
        if _minitorch2_profiler._is_profiler_enabled:
            return _minitorch2_profiled({values})
        for _minitorch2_check, _minitorch2_run in _minitorch2_entries:
            if _minitorch2_check({values}):
                return _minitorch2_run({values})
        return _minitorch2_resolve(({values}))({values})
    except _minitorch2_BaseException as _minitorch2_error:
        _minitorch2_hide(_minitorch2_error)
        raise
"""

tracebacks.compiles(Dispatcher.find_or_compile.__code__)
continues(Dispatcher.__call__.__code__)
continues(Rerun.__call__.__code__)
