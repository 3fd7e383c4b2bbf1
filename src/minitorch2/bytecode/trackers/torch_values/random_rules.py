"""PyTorch's functions on the state of its default generator: each is an operator of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from minitorch2.bytecode.observed import raise_as_observed
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.python_values.constant import NONE, fold
from minitorch2.bytecode.trackers.torch_values.generator import GeneratorVariable, as_seed
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph import random_operators

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator


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
