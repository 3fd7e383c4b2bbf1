"""`torch.cond` and `while_loop` in a region: Python's own `if` and `while` run them.

    cond(p, f, g, operands)  -->  (f if p else g)(*operands)         p is looked at: a barrier
    while_loop(p, f, x)      -->  while p(*x): x = f(*x)             a barrier for each round

PyTorch runs both through `torch.compile`, which cannot trace a program that defers. The functions
run in the region, so their operators are deferred, and gradients reach what they close over.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch

from minitorch2.lazy.step import LOCK
from minitorch2.native.torch_internals.functions import higher_order_operators


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """Return what the function that the condition chooses gives for the operands."""
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> Any:
    """Run a function on what it has returned as long as a condition holds; return the last."""
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        carried = tuple(body_fn(*carried))
    return carried


def _modules_with(name: str, *others: Any) -> list[Any]:
    """Return the modules whose attribute of this name is PyTorch's function."""
    package = higher_order_operators
    return [*others, package, sys.modules[f"{package.__name__}.{name}"]]


_FUNCTIONS: Final = (
    (cond, torch.cond, _modules_with("cond", torch)),
    (while_loop, higher_order_operators.while_loop, _modules_with("while_loop")),
)
_threads: list[int] = []
"""The threads that are in a region, once for each region."""


@contextmanager
def control_flow_in_python() -> Iterator[None]:
    """Run the control flow of this thread in Python; other threads call PyTorch's functions."""
    thread = threading.get_ident()
    with LOCK:
        if not _threads:
            _replace(_in_regions)
        _threads.append(thread)
    try:
        yield
    finally:
        with LOCK:
            _threads.remove(thread)
            if not _threads:
                _replace(lambda here, original: original)


def _replace(chosen: Callable[[Any, Any], Any]) -> None:
    for here, original, modules in _FUNCTIONS:
        function = chosen(here, original)
        for module in modules:
            setattr(module, here.__name__, function)


def _in_regions(here: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is one in the regions of this thread, and elsewhere the other."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        is_here = threading.get_ident() in _threads
        return (here if is_here else original)(*args, **kwargs)

    return call
