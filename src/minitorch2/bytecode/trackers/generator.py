"""Generators whose code is evaluated while capturing, one ``yield`` at a time."""

from __future__ import annotations

from collections.abc import Sequence
from types import GeneratorType
from typing import TYPE_CHECKING, NoReturn

from minitorch2.bytecode.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.constant import ConstantVariable
from minitorch2.bytecode.trackers.iterator import IteratorVariable

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator


class GeneratorVariable(IteratorVariable):
    """A generator: a suspended frame. One that outlives the captured region is a graph break."""

    def __init__(self, frame: Evaluator) -> None:
        super().__init__()
        self.frame = frame
        self.running = False
        self.started = False

    def python_type(self) -> type:
        return GeneratorType

    def next(self, evaluator: Evaluator) -> VariableTracker:
        return self.py_send(evaluator, ConstantVariable(None))

    def py_send(self, evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
        """``generator.send(value)``"""
        if self.frame.result is not None:
            raise_observed(StopIteration)
        if self.running:
            raise_observed(ValueError, "generator already executing")
        if self.started:
            self.frame.push(value)
        self.started = self.running = True
        try:
            self._run_to_yield()
        except ObservedError as error:
            self.frame.result = ConstantVariable(None)
            if error.kind is StopIteration:
                raise_observed(RuntimeError, "generator raised StopIteration")
            raise
        finally:
            self.running = False
        if self.frame.yielded is None:
            self._stop(self.frame.result)
        return self.frame.yielded

    def py_close(self, evaluator: Evaluator) -> None:
        """``generator.close()`` of one that waits outside any ``try``."""
        self.frame.result = ConstantVariable(None)

    def _run_to_yield(self) -> None:
        frame = self.frame
        frame.yielded = None
        while frame.yielded is None and frame.result is None:
            frame.step()

    def _stop(self, result: VariableTracker | None) -> NoReturn:
        assert result is not None, "a frame stops by a yield or a return"
        nothing = result.is_constant() and result.as_constant() is None
        raise StopGeneration(() if nothing else (result,))


class StopGeneration(ObservedError):
    """The generator's end: a StopIteration that carries what the generator returned."""

    def __init__(self, values: Sequence[VariableTracker]) -> None:
        super().__init__(StopIteration)
        self.values = tuple(values)
