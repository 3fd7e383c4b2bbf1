"""`torch.cond`, `while_loop`, `map` and `scan` in a region: Python's own `if` and loops run them.

    cond(p, f, g, operands)  -->  (f if p else g)(*operands)         p is looked at: a barrier
    while_loop(p, f, x)      -->  while p(*x): x = f(*x)             a barrier for each round
    map(f, xs, *args)        -->  stack([f(x, *args) for x in xs])   no barrier
    scan(f, c, xs)           -->  for x in xs: c, y = f(c, x)        none; c and a stack of each y

PyTorch runs them through `torch.compile`, which cannot trace a program that defers. The functions
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
from minitorch2.native.torch_internals.pytree import tree_flatten, tree_unflatten


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


def map_rows(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Return the stack of what a function gives for each row of the tensors in `xs`.

    Raises:
        RuntimeError: the tensors have no rows, or not equally many.
    """
    leaves, form = tree_flatten(xs)
    counts = {len(leaf) for leaf in leaves}
    if 0 in counts:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if len(counts) != 1:
        shapes = [leaf.shape for leaf in leaves]
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}."
        )
    rows = (tree_unflatten(parts, form) for parts in zip(*leaves, strict=True))
    return _stacked([f(row, *args) for row in rows])


def scan(
    combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Hand a value from slice to slice of the tensors in `xs`; return it, and what was made.

    Args:
        combine_fn: maps the value and a slice to the next value and a result.
        init: the value before the first slice.
        xs: tensors that have equally many slices.
        dim: the dimension of slices, and of the stack of results.
        reverse: whether the last slice comes first; the results are in the order of the slices.
    """
    leaves, form = tree_flatten(xs)
    slices = [*zip(*(leaf.unbind(dim) for leaf in leaves), strict=True)]
    carried, made = init, []
    for parts in slices[::-1] if reverse else slices:
        carried, result = combine_fn(carried, tree_unflatten(parts, form))
        made.append(result)
    return carried, _stacked(made[::-1] if reverse else made, dim)


def _stacked(results: Sequence[Any], dim: int = 0) -> Any:
    """Return results of one structure as one, in which each tensor is a stack."""
    rounds = [tree_flatten(result)[0] for result in results]
    stacks = [
        None if leaves[0] is None else torch.stack(leaves).movedim(0, dim)
        for leaves in zip(*rounds, strict=True)
    ]
    return tree_unflatten(stacks, tree_flatten(results[0])[1])


def _modules_with(name: str, *others: Any) -> list[Any]:
    """Return the modules whose attribute of this name is PyTorch's function."""
    package = higher_order_operators
    return [*others, package, sys.modules[f"{package.__name__}.{name}"]]


_FUNCTIONS: Final = (
    (cond, torch.cond, _modules_with("cond", torch)),
    (while_loop, higher_order_operators.while_loop, _modules_with("while_loop")),
    (map_rows, higher_order_operators.map, _modules_with("map")),
    (scan, higher_order_operators.scan, _modules_with("scan")),
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
            setattr(module, original.__name__, function)


def _in_regions(here: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is one in the regions of this thread, and elsewhere the other."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        is_here = threading.get_ident() in _threads
        return (here if is_here else original)(*args, **kwargs)

    return call
