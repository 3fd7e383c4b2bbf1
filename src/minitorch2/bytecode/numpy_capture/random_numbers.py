"""NumPy's generators of random numbers: `Generator`, `RandomState`, and those behind `rand`.

As with Python's (`random_generator`), residual code draws in front of the graph. A number is a
symbol, an array or a scalar of NumPy an input of the graph. The numbers of a generator that the
captured code makes or seeds are known: they are drawn while capturing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitorch2.bytecode.guards.drawing import set_state, shuffled, state_of
from minitorch2.bytecode.guards.sources import ItemSource
from minitorch2.bytecode.numpy_capture.arrays import ArrayVariable
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE, is_none, literal
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.random_generator import call_text, selected
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable
from minitorch2.bytecode.trackers.side_effects import Effect
from minitorch2.bytecode.trackers.torch_values.symbolic import from_number
from minitorch2.graph.symbols.ranges import ANY, Range

_CODE: Final = "random-state"
_OTHER: Final = frozenset({"bit_generator", "bytes", "spawn", "permuted", "get_state", "set_state"})
"""The methods that draw no numbers."""


class NumpyGeneratorVariable(ObjectVariable):
    """A `numpy.random.Generator` or `RandomState`.

    Attributes:
        known: a generator in the same state, if the captured code has made or seeded it.
    """

    knows_methods_by_name = True
    known: Any = None

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name.startswith("_") or not hasattr(self.cls, name):
            return super().get_attribute(evaluator, name)
        if name in _OTHER:
            unsupported(_CODE, f"{name} of a NumPy generator")
        return GetAttrVariable(self, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name == "seed":
            return self._seed(evaluator, args, kwargs)
        if name.startswith("_") or name in _OTHER:
            return super().call_method(evaluator, name, args, kwargs)
        if name == "shuffle":
            return self._shuffle(evaluator, *args)
        values = [arg.as_constant() for arg in args]
        named = {key: value.as_constant() for key, value in kwargs.items()}
        probe = copy.deepcopy(self.value) if self.known is None else self.known
        try:
            example = getattr(probe, name)(*values, **named)
        except Exception as error:  # noqa: BLE001 (the program's own)
            raise_as_observed(error)
        if self.known is not None:
            return _constant(evaluator, example)
        return self._drawn(evaluator, name, values, named, example)

    def _drawn(
        self, evaluator: Evaluator, name: str, args: list[Any], kwargs: dict[str, Any], example: Any
    ) -> VariableTracker:
        """Let residual code draw; return the tracker of the result, which is like the example."""
        assert self.source is not None
        if not isinstance(example, float | int | np.generic | np.ndarray):
            unsupported(_CODE, f"{name} of a NumPy generator")
        capture = evaluator.capture
        source = capture.draw(self.source, call_text(name, args, kwargs))
        if isinstance(example, np.generic | np.ndarray):
            return capture.wrap(copy.deepcopy(example), source)
        return from_number(capture.sizes.of_drawn(source, example, _limits(name, example, args)))

    def _shuffle(self, evaluator: Evaluator, values: VariableTracker) -> VariableTracker:
        if isinstance(values, ArrayVariable) and values.ndim:
            return self._shuffle_array(evaluator, values)
        if not isinstance(values, ListVariable):
            unsupported(_CODE, f"shuffle of a {values.python_type().__name__}")
        elements = operations.iterate(evaluator, values)
        if self.known is not None:
            made = [elements[place] for place in shuffled(self.known, len(elements))]
        else:
            assert self.source is not None
            drawn = evaluator.capture.draw(self.source, str(len(elements)), shuffled)
            places = range(len(elements))
            made = [selected(evaluator, elements, ItemSource(drawn, i)) for i in places]
        evaluator.call(values.get_attribute(evaluator, "clear"), [])
        evaluator.call(values.get_attribute(evaluator, "extend"), [ListVariable(made)])
        return NONE

    def _shuffle_array(self, evaluator: Evaluator, values: ArrayVariable) -> VariableTracker:
        """Shuffle the rows of an array in place."""
        count = values.call_method(evaluator, "__len__", [], {}).as_constant()
        places = shuffled_array(
            np.random.RandomState() if self.known is None else self.known, count
        )
        if self.known is not None:
            order = _constant(evaluator, places)
        else:
            assert self.source is not None
            drawn = evaluator.capture.draw(self.source, str(count), shuffled_array)
            order = evaluator.capture.wrap(places, drawn)
        whole = evaluator.capture.wrap(slice(None), None)
        rows = values.call_method(evaluator, "__getitem__", [order], {})
        return values.call_method(evaluator, "__setitem__", [whole, rows], {})

    def _seed(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        values = [value.as_constant() for value in (*args, *kwargs.values())]
        if values in ([], [None]):
            unsupported(_CODE, "numpy.random.seed without a number")
        try:
            self.known = np.random.RandomState(*values)
        except Exception as error:  # noqa: BLE001 (the program's own)
            raise_as_observed(error)
        effect = NumpyStateEffect(self)
        evaluator.capture.side_effects.change(("random", id(self)), effect)
        return NONE

    def rebuild(self, residual: Residual) -> str:
        return f"{residual.reference(copy.deepcopy)}({residual.reference(self.known, 'generator')})"


@dataclass
class NumpyStateEffect(Effect):
    """The state that a seeded generator has at the end."""

    generator: NumpyGeneratorVariable

    def owner(self) -> VariableTracker:
        return self.generator

    def emit(self, residual: Residual) -> None:
        state = residual.reference(state_of(self.generator.known), "random_state")
        name = residual.name_for(self.generator)
        residual.emit(f"{residual.reference(set_state)}({name}, {state})")


def _limits(name: str, example: float, args: Sequence[Any]) -> Range:
    if type(example) is float:
        return ANY
    if name == "randint" and args and all(type(arg) is int for arg in args[:2]):
        low, high = (0, args[0]) if len(args) == 1 else args[:2]
        return Range(low, high - 1)
    return Range(-(2**62), 2**62)


def _constant(evaluator: Evaluator, value: Any) -> VariableTracker:
    """Return the tracker of a known result; an array is a new one in each call."""
    if not isinstance(value, np.ndarray):
        return literal(value)
    held = evaluator.capture.wrap(value, evaluator.capture.reference(value))
    return held.call_method(evaluator, "copy", [], {})


def _made(evaluator: Evaluator, cls: Any, real: Any) -> VariableTracker:
    made = NumpyGeneratorVariable(cls, capture=evaluator.capture)
    made.known = real
    evaluator.capture.side_effects.new_object(made)
    return made


@constructs(np.random.RandomState)
def make_random_state(evaluator: Evaluator, seed: VariableTracker = NONE) -> VariableTracker:
    """``numpy.random.RandomState(seed)``"""
    if is_none(seed):
        unsupported(_CODE, "a NumPy generator without a seed")
    return _made(evaluator, np.random.RandomState, np.random.RandomState(seed.as_constant()))


@models(np.random.default_rng)
def make_generator(evaluator: Evaluator, seed: VariableTracker = NONE) -> VariableTracker:
    """``numpy.random.default_rng(seed)``"""
    if isinstance(seed, NumpyGeneratorVariable) and seed.cls is np.random.Generator:
        return seed
    if is_none(seed):
        unsupported(_CODE, "a NumPy generator without a seed")
    return _made(evaluator, np.random.Generator, np.random.default_rng(seed.as_constant()))


@models(np.random.seed)
def seed_global(evaluator: Evaluator, seed: VariableTracker = NONE) -> VariableTracker:
    """``numpy.random.seed(seed)``"""
    owner: Any = np.random.rand
    generator = evaluator.capture.wrap(owner.__self__, None)
    return generator.call_method(evaluator, "seed", [seed], {})


def shuffled_array(generator: Any, count: int) -> Any:
    """Return the old index of each row after ``generator.shuffle`` of an array of `count` rows."""
    places = np.arange(count)
    generator.shuffle(places)
    return places
