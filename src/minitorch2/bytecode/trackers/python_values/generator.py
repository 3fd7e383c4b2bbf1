"""Generators whose code is evaluated while capturing, one ``yield`` at a time.

A generator is a suspended frame. Residual code makes a generator that was not started yet by a call
of its function. It makes one that waits in the middle of its code by a continuation there
(`minitorch2.bytecode.residual.suspensions`). If a generator is dropped inside a ``try`` or
``with``, then CPython's reference counts decide when its clean-up code runs. Residual code would
keep the generator too long, so a frame that may leave one half way runs in Python.
"""

from __future__ import annotations

from collections.abc import Generator
from inspect import CO_GENERATOR, CO_ITERABLE_COROUTINE, CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, GeneratorType
from typing import Any, Final, NoReturn

from minitorch2.bytecode.frames.steps import drive, half_way
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.polyfills import POLYFILLS
from minitorch2.bytecode.polyfills.iterators import call_until
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.python_values.exceptions import exception_of
from minitorch2.bytecode.trackers.python_values.iterator import IteratorVariable
from minitorch2.bytecode.trackers.side_effects import StartedGenerator
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.errors import UnsupportedError

MADE_BY: Final[dict[int, Any]] = {
    id(body.__code__): real
    for real, body in [*POLYFILLS.items(), (iter, call_until)]
    if isinstance(body, FunctionType) and body.__code__.co_flags & CO_GENERATOR
}
"""The real maker of the iterators that some generators stand for, by the identity of their code:
hashing a code object hashes all of its constants."""


class OutsideWait(UnsupportedError):
    """A frame waits for an iterator that the captured code does not run itself."""


def last_instruction(frame: Evaluator) -> Instruction:
    """Return the instruction at which a suspended frame waits."""
    return frame.program.instructions[frame.position - 1]


def waits_for_iterator(frame: Evaluator) -> bool:
    """Return whether a suspended frame waits in a ``yield from`` or ``await``."""
    if last_instruction(frame).opname == "SEND":
        return True
    resumed = frame.program.instructions[frame.position]
    return resumed.opname == "RESUME" and int(resumed.argval) & 3 in (2, 3)


def finished_generator(name: str) -> Generator[object, None, None]:
    """Return a generator that has come to its end."""
    finished = _empty()
    finished.close()
    finished.__name__ = name  # type: ignore[attr-defined]
    return finished


def _empty() -> Generator[object, None, None]:
    yield from ()


class GeneratorVariable(StartedGenerator, IteratorVariable):
    """A generator: a suspended frame."""

    KIND = "generator"

    def __init__(self, frame: Evaluator) -> None:
        super().__init__()
        self.frame = frame
        self.running = False
        self.started = False

    def python_type(self) -> type:
        made_by = MADE_BY.get(id(self.frame.code))
        return made_by if isinstance(made_by, type) else GeneratorType

    @property
    def is_awaitable(self) -> bool:
        """True if ``await`` takes it (`types.coroutine`)."""
        return bool(self.frame.code.co_flags & CO_ITERABLE_COROUTINE)

    @property
    def finished(self) -> bool:
        """True if it has returned or raised."""
        return self.frame.result is not None

    @property
    def function_name(self) -> str:
        return self.frame.code.co_name

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__"):
            return ConstantVariable(getattr(self.frame.code, f"co_{name.strip('_')}"))
        if name in ("gi_running", "cr_running", "ag_running"):
            return ConstantVariable(self.running)
        if name in ("gi_yieldfrom", "cr_await", "ag_await") and not self.running:
            waits = self.started and not self.finished
            return (self._delegate() if waits else None) or NONE
        if name in ("gi_frame", "cr_frame", "ag_frame") and self.finished:
            return NONE
        if name in ("gi_code", "cr_code", "ag_code"):
            code = self.frame.code
            return evaluator.capture.wrap(code, evaluator.capture.reference(code))
        return super().get_attribute(evaluator, name)

    # The protocol -------------------------------------------------------------------------------

    def next(self, evaluator: Evaluator) -> VariableTracker:
        return self.py_send(evaluator, NONE)

    def py_send(self, evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
        """``generator.send(value)``"""
        if self.finished:
            raise_observed(StopIteration)
        self._check_idle()
        if self.started:
            self.frame.push(value)
        elif not (value.is_constant() and value.as_constant() is None):
            raise_observed(TypeError, f"can't send non-None value to a just-started {self.KIND}")
        else:
            self._start(evaluator)
        return self._resume(None)

    def py_throw(
        self,
        evaluator: Evaluator,
        kind: VariableTracker,
        value: VariableTracker = NONE,
        traceback: VariableTracker = NONE,
    ) -> VariableTracker:
        """``generator.throw(exception)``, or with the class and its arguments apart."""
        exception = _exception(evaluator, kind, value)
        error = ObservedError(exception.python_type(), exception=exception)
        self._check_idle()
        if not self.started:
            self.frame.result = NONE
        if self.finished:
            raise error
        delegate = self._delegate()
        if delegate is not None and hasattr(delegate.python_type(), "throw"):
            return self._throw_into(delegate, evaluator, error, exception)
        return self._resume(error)

    def _throw_into(
        self,
        delegate: VariableTracker,
        evaluator: Evaluator,
        error: ObservedError,
        exception: VariableTracker,
    ) -> VariableTracker:
        """Throw the exception into the iterator of the ``yield from`` in which it waits."""
        try:
            if issubclass(error.kind, GeneratorExit):
                delegate.call_method(evaluator, "close", [], {})
                return self._resume(error)
            return delegate.call_method(evaluator, "throw", [exception], {})
        except ObservedError as raised:
            if raised.kind is not StopIteration:
                return self._resume(raised)
            self._end_delegation(evaluator, raised)
            return self._resume(None)

    def py_close(self, evaluator: Evaluator) -> None:
        """``generator.close()``"""
        if self.finished or not self.started:
            self.frame.result = NONE
            return
        leave = evaluator.capture.wrap(GeneratorExit, evaluator.capture.reference(GeneratorExit))
        try:
            self.py_throw(evaluator, leave)
        except ObservedError as error:
            if issubclass(error.kind, GeneratorExit | StopIteration):
                return
            raise
        raise_observed(RuntimeError, f"{self.KIND} ignored GeneratorExit")

    # The frame ----------------------------------------------------------------------------------

    def _check_idle(self) -> None:
        if self.running:
            raise_observed(ValueError, f"{self.KIND} already executing")

    def _start(self, evaluator: Evaluator) -> None:
        self.started = True
        top = evaluator
        while top.parent is not None:
            top = top.parent
        by_frame = top is evaluator
        evaluator.capture.side_effects.generator_started(self, top.root_step, by_frame=by_frame)

    def _resume(self, error: ObservedError | None) -> VariableTracker:
        """Run to the next yield, after raising `error` where the frame waits."""
        self.running, frame = True, self.frame
        frame.yielded = None
        try:
            if error is not None:
                frame.catch(error, frame.program.instructions[frame.position - 1])
            while frame.yielded is None and frame.result is None:
                frame.step()
        except ObservedError as raised:
            frame.result = NONE
            if raised.kind is StopIteration:
                self._raise_in_place_of(raised)
            raise
        finally:
            self.running = False
        if frame.yielded is not None:
            return frame.yielded
        assert frame.result is not None, "a frame stops by a yield or a return"
        nothing = frame.result.is_constant() and frame.result.as_constant() is None
        raise ObservedError(StopIteration, values=() if nothing else (frame.result,))

    def _raise_in_place_of(self, raised: ObservedError) -> NoReturn:
        """Raise RuntimeError in place of a StopIteration that leaves a generator (PEP 479)."""
        cause = exception_of(self.frame, raised)
        error = ObservedError(RuntimeError, (f"{self.KIND} raised StopIteration",))
        made = exception_of(self.frame, error)
        for name in ("__cause__", "__context__"):
            self.frame.capture.side_effects.store_attribute(made, name, cause)
        raise error

    def _delegate(self) -> VariableTracker | None:
        """Return the iterator of the ``yield from`` in which the frame waits."""
        return self.frame.stack[-1] if waits_for_iterator(self.frame) else None

    def _end_delegation(self, evaluator: Evaluator, error: ObservedError) -> None:
        """Go on behind the ``yield from`` with the value that its iterator has returned."""
        frame = self.frame
        send = next(
            instruction
            for instruction in reversed(frame.program.instructions[: frame.position])
            if instruction.opname == "SEND"
        )
        finish_delegation(frame, error, send)

    def needs_cleanup(self) -> bool:
        """Return whether it waits inside a ``try`` or ``with`` that runs code when it is dropped.

        Leaving the frame with GeneratorExit is tried out: an ``except`` that lets it pass does
        nothing. The generator is finished then.
        """
        if self.finished or not self.started:
            return False
        frame, error = self.frame, ObservedError(GeneratorExit)
        try:
            frame.catch(error, frame.program.instructions[frame.position - 1])
            while frame.program.instructions[frame.position].opname in _LETS_PASS:
                frame.step()
        except ObservedError as raised:
            frame.result = NONE
            return raised.kind is not GeneratorExit
        return True

    def may_clean_up(self) -> bool:
        """Return whether it runs code when it is dropped, at some of its places."""
        if self.finished or id(self.frame.code) in MADE_BY:
            return False
        return any(each.opname == "PUSH_EXC_INFO" for each in self.frame.program.instructions)

    # Rebuilding ---------------------------------------------------------------------------------

    def reconstruct(self, residual: Residual) -> str:
        if self.finished:
            if id(self.frame.code) in MADE_BY:
                return f"({residual.reference(iter)}(()))"
            return f"{residual.reference(finished_generator)}({self.frame.code.co_name!r})"
        if self.started:
            return self._half_way(residual)
        return f"{self._function(residual)}({', '.join(self._arguments(residual))})"

    def _half_way(self, residual: Residual) -> str:
        """Return the text of a generator that goes on at the instruction where this one waits."""
        code = self.frame.code
        if self.running or residual.suspended is None:
            unsupported("generator", f"the generator {code.co_name} is running")
        step = residual.suspended(self.frame)
        if self.frame.is_pending:
            return f"{residual.reference(drive)}({step}, {residual.capturing})"
        made_by = residual.reference(half_way)
        return f"{made_by}({step}, {residual.capturing}, {code.co_name!r}, {code.co_qualname!r})"

    def _function(self, residual: Residual) -> str:
        code = self.frame.code
        if id(code) in MADE_BY:
            return residual.reference(MADE_BY[id(code)])
        cells = [residual.name_for(self.frame.cells[name]) for name in code.co_freevars]
        parts = (
            residual.reference(code, f"code_of_{code.co_name}"),
            residual.references.globals_name(self.frame.namespace),
            repr(code.co_name),
            "None",
            f"({''.join(f'{cell}, ' for cell in cells)})",
        )
        return f"{residual.reference(FunctionType, 'FunctionType')}({', '.join(parts)})"

    def _arguments(self, residual: Residual) -> list[str]:
        code, count = self.frame.code, self.frame.code.co_argcount
        values = {name: residual.name_for(value) for name, value in self.frame.locals.items()}
        arguments = [values[name] for name in code.co_varnames[:count]]
        named = code.co_varnames[count : count + code.co_kwonlyargcount]
        rest = list(code.co_varnames[count + code.co_kwonlyargcount :])
        if code.co_flags & CO_VARARGS:
            arguments.append(f"*{values[rest.pop(0)]}")
        arguments += [f"{name}={values[name]}" for name in named]
        if code.co_flags & CO_VARKEYWORDS:
            arguments.append(f"**{values[rest.pop(0)]}")
        return arguments


_LETS_PASS: Final = words(
    "PUSH_EXC_INFO LOAD_GLOBAL LOAD_FAST LOAD_DEREF LOAD_ATTR BUILD_TUPLE CHECK_EXC_MATCH COPY SWAP"
    " POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_EXCEPT RERAISE CALL_INTRINSIC_1 NOP"
    " CLEANUP_THROW"
)
"""Instructions of an ``except`` clause that does not catch the exception."""


def finish_delegation(frame: Evaluator, error: ObservedError, send: Instruction) -> None:
    """Leave the value of a ``yield from``; an END_SEND (3.12 and later) expects the iterator."""
    value = stop_value(error)
    if send.target is not None and send.target.opname != "END_SEND":
        frame.pop()
    frame.push(value)
    frame.jump(send.target)


def stop_value(error: ObservedError) -> VariableTracker:
    """Return the value of a StopIteration."""
    arguments = getattr(error.exception, "arguments", error.values) or ()
    if not arguments and error.arguments:
        return ConstantVariable(error.arguments[0])
    return arguments[0] if arguments else NONE


def _exception(
    evaluator: Evaluator, kind: VariableTracker, value: VariableTracker
) -> VariableTracker:
    """Return the instance that ``throw(kind, value)`` throws."""
    if not issubclass(kind.python_type(), type):
        return kind
    if value.is_constant() and value.as_constant() is None:
        return kind.call(evaluator, [], {})
    cls = kind.as_constant()
    return value if issubclass(value.python_type(), cls) else kind.call(evaluator, [value], {})
