"""Whatever changes between two calls, the compiled program does what eager does then.

Each example is a small world (`state_world`) and a random sequence of changes to it
(`state_changes`): globals, functions, monkeypatches, attributes, parameters, hooks, modes, dtypes,
devices. After each change the programs run compiled and as they are, in the same world.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config
from tests.property.state_changes import CHANGES, FLAGS
from tests.property.state_world import World, world

RAISED = (
    RuntimeError, TypeError, AttributeError, NameError, IndexError, ValueError, KeyError
)  # fmt: skip


def outcome(program: Callable[..., Any], w: World) -> Any:
    """The result and the gradients of a call, or the class of the exception."""
    w.model.zero_grad()
    x = w.x.detach().requires_grad_(w.x.requires_grad)
    vars(x).update(vars(w.x))
    torch.manual_seed(0)
    try:
        with contextlib.ExitStack() as stack, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for enter in w.during.values():
                stack.enter_context(enter())
            result = program(w.model, x)
    except RAISED as error:
        return type(error).__name__
    if result.requires_grad:
        try:
            result.abs().sum().backward()
        except RuntimeError as error:
            return f"{type(error).__name__} in backward"
    gradients = [None if p.grad is None else p.grad.clone() for p in w.model.parameters()]
    return result.detach(), result.stride(), result.requires_grad, x.grad, gradients


def assert_same_outcome(given_: Any, wanted: Any, history: list[str]) -> None:
    text = " -> ".join(history)
    raised, raises = (x if isinstance(x, str) else None for x in (given_, wanted))
    assert raised == raises, f"compiled code raised {raised}, eager raises {raises}, after {text}"
    if raised is None:
        torch.testing.assert_close(
            given_, wanted, equal_nan=True, msg=lambda message: f"after {text}: {message}"
        )


def applied(name: str, number: int, w: World) -> bool:
    """Change the world; whether PyTorch allows the change here."""
    try:
        CHANGES.get(name, lambda w, n: None)(w, number)
    except RAISED:
        return False
    return True


PATIENT = settings(
    max_examples=max(settings().max_examples // 10, 1),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # the history is text enough
    suppress_health_check=[HealthCheck.too_slow],
)
DYNAMIC = st.sampled_from((False, None, True))
BACKENDS = st.sampled_from(("eager", "eager", "aot_eager"))


def histories(changes: Iterable[str]) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Sequences of changes, each with a number."""
    return st.lists(st.tuples(st.sampled_from(sorted(changes)), st.integers(0, 3)), max_size=7)


def check(changes: list[tuple[str, int]], dynamic: bool | None, backend: str) -> None:
    """Compare calls after each change."""
    with world() as w, config.patch(recompile_limit=64, suppress_errors=False):
        programs = {
            each: minitorch2.compile(each, backend=backend, dynamic=dynamic)
            for each in (w.module.program, w.module.made)
        }
        history: list[str] = [f"{backend} dynamic={dynamic}"]
        for name, number in [("nothing", 0), *changes, ("nothing", 0)]:
            if applied(name, number, w):
                history.append(f"{name} ({number})")
                for program, fast in programs.items():
                    assert_same_outcome(outcome(fast, w), outcome(program, w), history)


@PATIENT
@given(histories(CHANGES), DYNAMIC, BACKENDS)
def test_after_any_change_calls_are_eagers(
    changes: list[tuple[str, int]], dynamic: bool | None, backend: str
) -> None:
    check(changes, dynamic, backend)


@PATIENT
@given(histories(FLAGS), DYNAMIC, BACKENDS)
def test_after_changes_of_pytorch_calls_are_eagers(
    changes: list[tuple[str, int]], dynamic: bool | None, backend: str
) -> None:
    """Flags, modes, and functions of PyTorch that somebody replaces."""
    check(changes, dynamic, backend)
