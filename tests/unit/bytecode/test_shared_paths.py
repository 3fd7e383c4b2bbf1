"""Paths that begin alike are followed once; what is loaded is the same."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import torch

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.guards.sources import (
    AttributeSource,
    ItemSource,
    LocalSource,
    Source,
    TypeSource,
)
from minitorch2.bytecode.residual.shared_paths import share_paths


def load(sources: list[Source], a: object) -> tuple[list[str], list[object]]:
    numbers = itertools.count()
    assignments, expressions = share_paths(sources, lambda base: f"{base}_{next(numbers)}")
    scope = {"a": a}
    exec("\n".join(assignments), scope)
    return assignments, [eval(expression, scope) for expression in expressions]


def test_each_branch_is_one_assignment_in_order() -> None:
    x = AttributeSource(LocalSource("a"), "x")
    layer = ItemSource(ItemSource(x, "layers"), 0)
    sources = [ItemSource(layer, "w"), ItemSource(layer, "b"), TypeSource(x), LocalSource("a")]
    value = SimpleNamespace(x={"layers": [{"w": 1, "b": 2}]})
    assignments, loaded = load(sources, value)
    assert assignments == ["x_0 = a.x", "layers_0_1 = x_0['layers'][0]"]
    assert loaded == [1, 2, dict, value]


def test_a_value_and_a_part_of_it() -> None:
    x = AttributeSource(LocalSource("a"), "x")
    value = SimpleNamespace(x=SimpleNamespace(y=5))
    assert load([x, AttributeSource(x, "y"), x], value)[1] == [value.x, 5, value.x]


def test_residual_code_loads_parameters_in_one_step_each() -> None:
    layers = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(4)])
    compiled = minitorch2.compile(layers, backend="eager")
    x = torch.ones(2, 3)
    with stages.collect() as log:
        torch.testing.assert_close(compiled(x), layers(x))
    (residual,) = log.texts("residual.py")
    assert residual.count("._modules") == 1 and residual.count("._parameters") == 4
