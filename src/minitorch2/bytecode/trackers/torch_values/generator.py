"""`torch.Generator`: its state is a tensor of the graph.

A draw from a generator is a draw from the default generator, which has the generator's state for
that time. After the graph, a side effect gives the new state to the generator::

    y = torch.rand(4, generator=g)    -->    outer = swap_random_state(g_state)
                                             y = torch.rand(4)
                                             state = swap_random_state(outer)
                                             -----------------------------------
                                             g.set_state(state)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from minitorch2.bytecode.guards.sources import AppliedSource
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, fold
from minitorch2.bytecode.trackers.side_effects import Effect
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph import random_operators
from minitorch2.graph.random_operators import STATE_BYTES

UNSEEDED: Final = torch.Generator().initial_seed()
"""The seed of a generator that was given none."""


class GeneratorVariable(ModeledVariable):
    """A generator for the CPU.

    Attributes:
        value: the generator that came from outside; None if the captured code makes it.
        state: what the graph has computed for its state; None if it has the one it came with, or is
            the default generator, whose state the graph itself reads and sets.
        seed: what it was seeded with; None if that is not known while capturing.
        is_reseeded: whether the captured code has set its seed or state.
    """

    def __init__(self, value: torch.Generator | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.value = value
        self.state: VariableTracker | None = None
        self.seed: VariableTracker | None = None
        self.is_reseeded = False

    @property
    def is_default(self) -> bool:
        """Return whether operators without a generator argument draw from this one."""
        return self.value is torch.default_generator

    def python_type(self) -> type:
        return torch.Generator

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "device":
            return ConstantVariable(torch.device("cpu"))
        return super().get_attribute(evaluator, name)

    def draw(self, evaluator: Evaluator, record: Callable[[], VariableTracker]) -> VariableTracker:
        """Let what `record` puts into the graph draw from this generator."""
        if self.is_default:
            return record()
        outer = _call(evaluator, random_operators.swap_random_state, self._read(evaluator))
        made = record()
        self._write(evaluator, _call(evaluator, random_operators.swap_random_state, outer))
        return made

    def py_manual_seed(self, evaluator: Evaluator, seed: VariableTracker) -> VariableTracker:
        number = as_seed(seed)
        self._write(evaluator, _call(evaluator, random_operators.seeded_state, number))
        self.reseeded(number)
        return self

    def py_initial_seed(self, evaluator: Evaluator) -> VariableTracker:
        if self.seed is not None:
            return self.seed
        if self.is_reseeded or self.source is None or self.value is None:
            unsupported("random-state", "the seed of a generator whose state was set")
        seed = self.value.initial_seed()
        if seed >= 2**63:
            unsupported("random-state", "a seed of more than 63 bits")
        asked = evaluator.capture.reference(torch.Generator.initial_seed)
        return evaluator.capture.wrap(seed, AppliedSource(self.source, asked))

    def py_get_state(self, evaluator: Evaluator) -> VariableTracker:
        state = self._read(evaluator)
        return state if self.is_default else state.call_method(evaluator, "clone", [], {})

    def py_set_state(self, evaluator: Evaluator, new_state: VariableTracker) -> VariableTracker:
        self._write(evaluator, as_state(new_state).call_method(evaluator, "clone", [], {}))
        self.reseeded(None)
        return self

    def py_clone_state(self, evaluator: Evaluator) -> VariableTracker:
        made = GeneratorVariable()
        made.seed, made.is_reseeded = self.seed, True
        evaluator.capture.side_effects.new_object(made)
        made._write(evaluator, self.py_get_state(evaluator))
        return made

    def reseeded(self, seed: VariableTracker | None) -> None:
        """Note a new seed: what asks for it gets a number without a sign."""
        self.seed, self.is_reseeded = seed, True
        if seed is not None and seed.is_constant():
            self.seed = ConstantVariable(seed.as_constant() % 2**64)

    def _read(self, evaluator: Evaluator) -> VariableTracker:
        if self.is_default:
            return _call(evaluator, random_operators.random_state)
        if self.state is None:
            self.state = self._state_outside(evaluator)
        return self.state

    def _write(self, evaluator: Evaluator, state: VariableTracker) -> None:
        if self.is_default:
            _call(evaluator, random_operators.swap_random_state, state)
            return
        self.state = state
        evaluator.capture.side_effects.change(("generator", id(self)), GeneratorEffect(self))

    def _state_outside(self, evaluator: Evaluator) -> VariableTracker:
        """The state with which the generator came: an input of the graph."""
        assert self.source is not None and self.value is not None
        capture = evaluator.capture
        source = AppliedSource(self.source, capture.reference(torch.Generator.get_state))
        return capture.tensor_input(self.value.get_state(), source, TensorVariable)

    def rebuild(self, residual: Residual) -> str:
        return f"{residual.reference(torch.Generator)}()"


@dataclass
class GeneratorEffect(Effect):
    """``generator.set_state(...)``: the state that a generator has at the end."""

    generator: GeneratorVariable

    def owner(self) -> VariableTracker:
        return self.generator

    def value(self) -> VariableTracker | None:
        return self.generator.state

    def emit(self, residual: Residual) -> None:
        assert self.generator.state is not None, "it was written"
        state = residual.name_for(self.generator.state)
        residual.emit(f"{residual.name_for(self.generator)}.set_state({state})")


def _call(evaluator: Evaluator, operator: Any, *args: VariableTracker) -> VariableTracker:
    return evaluator.capture.call_in_graph(evaluator, "call_function", operator, args)


def as_seed(seed: VariableTracker) -> VariableTracker:
    """A seed as operators take it: 64 bits with a sign.

    Raises:
        UnsupportedError: Python says what is wrong with it, or reads it out of a tensor.
    """
    if seed.python_type() not in (int, bool):
        unsupported("random-state", "a seed that is no integer")
    if not seed.is_constant():
        return seed
    number = int(seed.as_constant())
    if not -(2**63) <= number < 2**64:
        unsupported("random-state", "a seed of more than 64 bits")
    return ConstantVariable((number + 2**63) % 2**64 - 2**63)


def as_state(state: VariableTracker) -> TensorVariable:
    """A tensor that may be the state of a generator; Python says what is wrong with others."""
    if isinstance(state, TensorVariable):
        fake, place = state.fake, torch.device("cpu")
        if (fake.dtype, fake.shape, fake.device) == (torch.uint8, (STATE_BYTES,), place):
            return state
    return unsupported("random-state", "the state of a generator is so many bytes in a tensor")


def drawn_from_generator(
    evaluator: Evaluator,
    op: str,
    target: str | Callable[..., Any],
    args: Arguments,
    kwargs: Keywords,
) -> VariableTracker | None:
    """Record a call that names a generator; None if it names none."""
    found = [each for each in kwargs.values() if isinstance(each, GeneratorVariable)]
    if not found:
        return None
    others = {name: value for name, value in kwargs.items() if value is not found[0]}
    record = evaluator.capture.call_in_graph
    return found[0].draw(evaluator, lambda: record(evaluator, op, target, args, others))


@constructs(torch.Generator)
def make_generator(evaluator: Evaluator, device: VariableTracker | None = None) -> VariableTracker:
    """``torch.Generator(device)``"""
    if device is not None and torch.device(device.as_constant()).type != "cpu":
        unsupported("generator-argument", "a torch.Generator for another device than the CPU")
    made = GeneratorVariable()
    evaluator.capture.side_effects.new_object(made)
    made.py_manual_seed(evaluator, ConstantVariable(UNSEEDED))
    return made


def default_generator(evaluator: Evaluator) -> GeneratorVariable:
    """``torch.default_generator``"""
    made = evaluator.capture.wrap(torch.default_generator, None)
    assert isinstance(made, GeneratorVariable)
    return made


@handles(torch.random.manual_seed)  # torch.manual_seed may be what calls it without a compiler
def manual_seed(evaluator: Evaluator, seed: VariableTracker) -> VariableTracker:
    """``torch.manual_seed(seed)``, which seeds the generators of all devices."""
    number = as_seed(fold(int, [seed]) if seed.is_constant() else seed)
    seeds = random_operators.manual_seed
    evaluator.capture.call_in_graph(evaluator, "call_function", seeds, [number])
    generator = default_generator(evaluator)
    generator.reseeded(number)
    return generator


@handles(torch.seed)
def seed(evaluator: Evaluator) -> VariableTracker:
    """``torch.seed()`` gives a number of 64 bits, which no tensor of integers holds."""
    return unsupported("random-state", "the system chooses a seed")


@handles(torch.initial_seed)
def initial_seed(evaluator: Evaluator) -> VariableTracker:
    """``torch.initial_seed()``"""
    return default_generator(evaluator).py_initial_seed(evaluator)


@handles(torch.get_rng_state)
def get_rng_state(evaluator: Evaluator) -> VariableTracker:
    """``torch.get_rng_state()``"""
    return default_generator(evaluator).py_get_state(evaluator)


@handles(torch.get_device_module)
def get_device_module(evaluator: Evaluator, device: VariableTracker = NONE) -> VariableTracker:
    """``torch.get_device_module(device)``"""
    try:
        return evaluator.capture.wrap(torch.get_device_module(device.as_constant()), None)
    except RuntimeError as error:
        raise_as_observed(error)


@handles(torch.set_rng_state)
def set_rng_state(evaluator: Evaluator, new_state: VariableTracker) -> VariableTracker:
    """``torch.set_rng_state(new_state)``"""
    default_generator(evaluator).py_set_state(evaluator, new_state)
    return NONE
