"""A compiled function that is called in changing worlds always does what Python does.

The function looks at everything that a graph may depend on: tensors' metadata, numbers, containers,
attributes, globals, modes. What it saw is built into the graph, so only guards keep it right.
"""

import math
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.testing.assertions import Observation, assert_same_observation, observe

MODE = "plain"


class Box:
    """An object with attributes that come and go."""


class Crate(Box):
    """The same, of another class."""


FACTS: dict[str, list[Any]] = {
    "size": [(2, 3), (3, 3), (3,), (2,), (1, 3), (0,), ()],
    "dtype": [torch.float32, torch.float64, torch.int64],
    "is_transposed": [False, True],
    "requires_grad": [False, True],
    "y_is_x": [False, True],
    "n": [0, 1, 2, 1.0, True, 0.0, -0.0],
    "items": [[], [1], [2], [1, 2]],
    "table": [{}, {"a": 1}, {"a": 1, "b": 0}, {"b": 0, "a": 1}, {"a": 2, "b": 0}],
    "box": [Box, Crate],
    "kind": ["k", 3, None],
    "has_extra": [False, True],
    "mode": ["plain", "other"],
    "grad": [True, False],
    "default_dtype": [torch.float32, torch.float64],
}
"""What a world is made of."""

World = dict[str, Any]
worlds = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in FACTS.items()})


@st.composite
def neighbours(draw: st.DrawFn) -> list[World]:
    """A world, some others that each differ from the one before in one fact, and it again."""
    sequence = [draw(worlds)]
    for name in draw(st.lists(st.sampled_from(list(FACTS)), min_size=1, max_size=6)):
        sequence.append(sequence[-1] | {name: draw(st.sampled_from(FACTS[name]))})
    return [*sequence, sequence[0]]


def look_at_everything(x, y, n, items, table, box):
    total = (x * n).sum() + torch.ones(()) + len(items) * y.sum()
    for item in items:
        total = total + item
    seen = [x.shape, x.stride(), str(x.dtype), x.requires_grad, x is y, x.dim(), y.shape]
    seen += [n, type(n).__name__, n == 0, list(table), table.get("a"), len(items), MODE]
    seen += [type(box).__name__, hasattr(box, "extra"), box.kind, torch.is_grad_enabled()]
    return total, seen


def call(function: Any, world: World) -> Observation:
    """One call in a world."""
    global MODE
    MODE, arguments = world["mode"], arguments_of(world)
    torch.set_default_dtype(world["default_dtype"])
    try:
        with torch.set_grad_enabled(world["grad"]):
            return observe(function, arguments, None)
    finally:
        torch.set_default_dtype(torch.float32)


def arguments_of(world: World) -> list[Any]:
    x = tensor_of(world)
    box = world["box"]()
    box.kind = world["kind"]
    if world["has_extra"]:
        box.extra = 1
    y = x if world["y_is_x"] else torch.ones(3)
    return [x, y, world["n"], list(world["items"]), dict(world["table"]), box]


def tensor_of(world: World) -> torch.Tensor:
    size, dtype = world["size"], world["dtype"]
    value = torch.arange(math.prod(size)).reshape(size).to(dtype)
    if world["is_transposed"] and value.dim() == 2:
        value = value.t().contiguous().t()
    return value.requires_grad_(world["requires_grad"] and dtype.is_floating_point)


@given(neighbours())
def test_calls_in_changing_worlds_match_python(sequence: list[World]) -> None:
    with config.patch(suppress_errors=False, recompile_limit=20), stages.collect() as log:
        compiled = minitorch2.compile(look_at_everything, backend="eager")
        for world in sequence:
            assert_same_observation(call(compiled, world), call(look_at_everything, world))
        captured = log.counts["graphs"]
        assert captured >= 1
        call(compiled, sequence[0])
        assert log.counts["graphs"] == captured, "the same world was captured twice"
