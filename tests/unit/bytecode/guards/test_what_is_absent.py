"""An attribute that was not there, or a hook that nobody had set, may come later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn.modules import module as modules

import minitorch2
from minitorch2 import stages

X = torch.ones(3)


class Base:
    """Has nothing."""


class Derived(Base):
    """Asks its base."""

    def run(self, x: Any) -> Any:
        return super().run(x) if hasattr(super(), "run") else x + 1


class Layer(nn.Module):
    """Doubles."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def scale(x: Any) -> Any:
    """A function without attributes."""
    return x * getattr(scale, "extra", 3)


LAYER, OBJECT = Layer(), Derived()


@contextmanager
def hooked(register: Callable[..., Any], hook: Callable[..., Any]) -> Iterator[None]:
    with register(hook):
        yield


LATER: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "function": (scale, lambda: mock.patch.object(scale, "extra", 5, create=True)),
    "class": (
        lambda x: x * getattr(Derived, "extra", 3),
        lambda: mock.patch.object(Base, "extra", 5, create=True),
    ),
    "super": (
        lambda x: OBJECT.run(x),
        lambda: mock.patch.object(Base, "run", lambda self, x: x * 7, create=True),
    ),
    "hook of all modules": (
        LAYER,
        lambda: hooked(modules.register_module_forward_hook, lambda m, args, out: out + 9),
    ),
    "hook of all modules before": (
        LAYER,
        lambda: hooked(modules.register_module_forward_pre_hook, lambda m, args: (args[0] + 9,)),
    ),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LATER)
def test_what_was_absent_may_come_and_go(name: str, dynamic: bool) -> None:
    function, later = LATER[name]
    fast = minitorch2.compile(function, backend="eager", fullgraph=True, dynamic=dynamic)
    with stages.collect() as log:
        for _ in range(2):
            assert torch.equal(fast(X), function(X))
            with later():
                assert torch.equal(fast(X), function(X))
    assert log.counts["graphs"] <= 3


def test_one_more_hook_of_all_modules_is_noticed() -> None:
    fast = minitorch2.compile(LAYER, backend="eager")
    with hooked(modules.register_module_forward_hook, lambda m, args, out: out + 1):
        assert torch.equal(fast(X), X * 2 + 1)
        with hooked(modules.register_module_forward_hook, lambda m, args, out: out * 5):
            assert torch.equal(fast(X), (X * 2 + 1) * 5)
        assert torch.equal(fast(X), X * 2 + 1)
    assert torch.equal(fast(X), X * 2)
