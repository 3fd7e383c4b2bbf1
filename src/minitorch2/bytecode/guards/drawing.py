"""Random numbers of Python's and NumPy's generators, which residual code draws before a graph.

    k = random.randint(1, 4)            __drawn_0 = random.randint.__self__.randint(1, 4)
    return x + k                   -->  add, = __compiled_fn_0(__drawn_0, x)

The generator itself draws, so the stream is the program's own. If the graph raises, generators get
back the states that they had.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch2.bytecode.guards.sources import Naming, Source, StepSource, plainly

Drawing = Callable[..., object]
"""A function that draws from the generator that is its first argument."""


@dataclass(frozen=True)
class Draw:
    """One draw.

    Attributes:
        name: the variable that gets the drawn number.
        generator: loads the generator.
        call: its method's name with the arguments.
        function: is called with the generator, if there is one; `call` is its other arguments.
    """

    name: str
    generator: Source
    call: str
    function: Drawing | None = None

    def expression(self, named: Naming) -> str:
        """Return the call in residual code."""
        path = self.generator.expression(named)
        if self.function is None:
            return f"{path}.{self.call}"
        return f"{named(self.function)}({path}, {self.call})"


@dataclass(frozen=True, eq=False)
class SelectedSource(StepSource):
    """``(1, 2, 3)[base]``: one of some numbers, by an index that was drawn."""

    values: tuple[float, ...]

    def step(self, base: str, named: Naming = plainly) -> str:
        return f"{self.values!r}[{base}]"


def shuffled(generator: Any, count: int) -> list[int]:
    """Return the old index of each element after ``generator.shuffle`` of a list of `count`."""
    places = list(range(count))
    generator.shuffle(places)
    return places


def state_of(generator: Any) -> Any:
    """Return the state of a generator."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return copy.deepcopy(generator.bit_generator.state)
    return generator.get_state(legacy=False)


def set_state(generator: Any, state: Any) -> None:
    """Give a generator a state that `state_of` has found."""
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
