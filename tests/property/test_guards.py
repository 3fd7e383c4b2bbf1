"""A compiled function that is called in changing worlds always does what Python does.

The function looks at everything that a graph may depend on: tensors' metadata, numbers, containers,
attributes, globals, modes. What it saw is built into the graph, so only guards keep it right.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.testing.assertions import assert_same_observation, observe

MODE = "plain"


class Box:
    """An object with attributes that come and go."""


class Crate(Box):
    """The same, of another class."""


@dataclass
class World:
    """Arguments and everything else that the function reads."""

    arguments: list[Any]
    mode: str = "plain"
    grad: bool = True
    dtype: torch.dtype = field(default=torch.float32)

    def call(self, function: Any) -> Any:
        """One call in this world."""
        global MODE
        MODE = self.mode
        torch.set_default_dtype(self.dtype)
        try:
            with torch.set_grad_enabled(self.grad):
                return observe(function, self.arguments, None)
        finally:
            torch.set_default_dtype(torch.float32)


def look_at_everything(x, y, n, items, table, box):
    total = (x * n).sum() + torch.ones(()) + len(items) * y.sum()
    for item in items:
        total = total + item
    seen = [x.shape, x.stride(), str(x.dtype), x.requires_grad, x is y, x.dim(), y.shape]
    seen += [n, type(n).__name__, n == 0, list(table), table.get("a"), len(items), MODE]
    seen += [type(box).__name__, hasattr(box, "extra"), box.kind, torch.is_grad_enabled()]
    return total, seen


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    size = draw(st.sampled_from([(), (2,), (3,), (2, 3), (3, 2), (1, 3), (0,)]))
    dtype = draw(st.sampled_from([torch.float32, torch.float32, torch.float64, torch.int64]))
    value = torch.arange(math.prod(size)).reshape(size).to(dtype)
    if draw(st.booleans()) and value.dim() == 2:
        value = value.t().contiguous().t()
    return value.requires_grad_(draw(st.booleans()) and dtype.is_floating_point)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    x = draw(tensors())
    y = x if draw(st.booleans()) else draw(tensors())
    n = draw(st.sampled_from([0, 1, 2, 1.0, True, 0.0, -0.0, None]))
    items = draw(st.lists(st.integers(0, 2), max_size=3))
    table = {key: draw(st.integers(0, 1)) for key in draw(st.permutations("ab"))}
    box = draw(st.sampled_from([Box, Crate]))()
    box.kind = draw(st.sampled_from(["k", 3]))
    if draw(st.booleans()):
        box.extra = 1
    arguments = [x, y, 2 if n is None else n, items, table, box]
    mode, grad = draw(st.sampled_from(["plain", "other"])), draw(st.booleans())
    return World(arguments, mode, grad, draw(st.sampled_from([torch.float32, torch.float64])))


@st.composite
def neighbours(draw: st.DrawFn) -> list[World]:
    """Worlds of which each differs from the first in one thing only, or in everything."""
    first, result = draw(worlds()), []
    for _ in range(draw(st.integers(1, 5))):
        other = draw(worlds())
        place = draw(st.integers(0, 9))
        arguments = list(first.arguments)
        if place < 6:
            arguments[place] = other.arguments[place]
        new = World(arguments, first.mode, first.grad, first.dtype)
        for name in {6: ["mode"], 7: ["grad"], 8: ["dtype"]}.get(place, []):
            setattr(new, name, getattr(other, name))
        result.append(other if place == 9 else new)
    return [first, *result, first]


@given(neighbours())
def test_calls_in_changing_worlds_match_python(sequence: list[World]) -> None:
    with config.patch(suppress_errors=False, recompile_limit=20), stages.collect() as log:
        compiled = minitorch2.compile(look_at_everything, backend="eager")
        for world in sequence:
            assert_same_observation(world.call(compiled), world.call(look_at_everything))
        captured = log.counts["graphs"]
        assert captured >= 1
        sequence[0].call(compiled)
        assert log.counts["graphs"] == captured, "the same world was captured twice"
