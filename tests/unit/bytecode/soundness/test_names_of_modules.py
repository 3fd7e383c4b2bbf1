"""A program may call its modules, and the modules of its classes and functions, anything."""

import types
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages

ODD = (None, 5, b"torch.nn", ["list"], torch.Tensor, types.ModuleType("m"), "", "a b", "'\\\udcff")


class Scaled:
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def times(self, x: Any) -> Any:
        return self.factor * x


def check(function: Any, *args: Any) -> None:
    with stages.collect() as log:
        found = minitorch2.compile(function, fullgraph=True)(*args)
    torch.testing.assert_close(found, function(*args))
    assert log.counts["graphs"] == 1


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_the_module_of_a_class_or_function(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def sine(x: Any) -> Any:
        return x.sin()

    sine.__module__ = name
    monkeypatch.setattr(Scaled, "__module__", name)
    check(lambda x: sine(Scaled(x).times(x)), torch.randn(3))
    check(lambda scaled, x: scaled.times(x), Scaled(torch.randn(3)), torch.randn(3))


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_the_name_of_a_module(name: Any) -> None:
    scope: dict[str, Any] = {"torch": torch, "__name__": name}
    exec("def f(x):\n    return torch.sin(x) + len([x])", scope)
    check(scope["f"], torch.randn(3))
    module: Any = types.ModuleType("m")
    module.__name__, module.factor, module.f = name, torch.randn(3), scope["f"]
    check(lambda x: module.f(x) * module.factor, torch.randn(3))
    check(lambda m, x: x * m.factor, module, torch.randn(3))


def test_a_module_without_a_name() -> None:
    module: Any = types.ModuleType("m")
    module.factor = torch.randn(3)
    del module.__name__

    def f(x: torch.Tensor) -> Any:
        try:
            return module.missing
        except AttributeError as error:
            return str(error), x * module.factor

    found = minitorch2.compile(f, fullgraph=True)(torch.ones(3))
    assert found[0] == f(torch.ones(3))[0]
    torch.testing.assert_close(found[1], module.factor)
