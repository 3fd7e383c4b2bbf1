"""Branches and loops that data decides about, as PyTorch's documentation describes them.

Capture has rules for the first three, which record their functions as graphs
(``trackers/torch_values/higher_order_rules.py``). If that is impossible, they run as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from minitorch2.native.torch_internals.pytree import tree_flatten, tree_map, tree_unflatten

Results: TypeAlias = tuple[list[torch.Tensor], Any]
"""Tensors, and the structure whose leaves they are."""


def branch(
    condition: torch.Tensor, when_true: Callable[[], Results], when_false: Callable[[], Results]
) -> tuple[list[torch.Tensor], Any, Any]:
    """Run the function that the condition chooses; return tensors, and both structures."""
    leaves, structure = (when_true if condition else when_false)()
    return leaves, structure, structure


def loop(
    goes_on: Callable[..., Any], step: Callable[..., Results], carried: list[torch.Tensor]
) -> tuple[list[torch.Tensor], Any]:
    """Run a step as long as a condition holds; the structure is None if no step ran."""
    structure = None
    while goes_on(*carried):
        carried, structure = step(*carried)
    return carried, structure


def scan_steps(
    step: Callable[..., Results], slices: list[torch.Tensor], carried: list[torch.Tensor]
) -> Results:
    """Run a step for each slice along the first dimension; stack results that are not carried."""
    results, count = [], len(carried)
    for here in zip(*slices, strict=True):
        found, structure = step(here, carried)
        carried = found[:count]
        results.append(found[count:])
    return [*carried, *map(torch.stack, zip(*results, strict=True))], structure


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """``torch.cond``: a condition that is not a tensor makes no branch of the graph"""
    if not isinstance(pred, torch.Tensor):
        return (true_fn if pred else false_fn)(*operands)

    def when_true() -> Results:
        return _flat(true_fn(*operands), torch.preserve_format)

    def when_false() -> Results:
        return _flat(false_fn(*operands), torch.preserve_format)

    leaves, structure, other = branch(pred, when_true, when_false)
    if structure != other:
        raise TypeError("torch.cond: the branches give results of other structures")
    return tree_unflatten(leaves, structure)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> Any:
    """``torch._higher_order_ops.while_loop``: integers are carried as tensors"""
    leaves, structure = tree_flatten(tuple(carried_inputs))
    first = [torch.tensor(x) if type(x) is int else x.contiguous() for x in leaves]

    def goes_on(*leaves: torch.Tensor) -> Any:
        return cond_fn(*tree_unflatten(leaves, structure)).clone()

    def step(*leaves: torch.Tensor) -> Results:
        carried = body_fn(*tree_unflatten(leaves, structure))
        return _flat(tuple(carried), torch.contiguous_format)

    results, after = loop(goes_on, step, first)
    if after is not None and after != structure:
        raise TypeError("while_loop: body_fn gives a structure other than what is carried")
    last = [y.item() if type(x) is int else y for x, y in zip(leaves, results, strict=True)]
    return tree_unflatten(last, structure)


def scan(
    combine_fn: Callable[[Any, Any], Any],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> Any:
    """``torch._higher_order_ops.scan``: results along the first dimension, whatever `dim` is"""
    carried, structure = tree_flatten(init)
    slices, form = tree_flatten(xs)
    slices = [x.movedim(dim, 0) for x in slices]
    if reverse:
        slices = [x.flip(0) for x in slices]

    def step(slices: Sequence[torch.Tensor], carried: Sequence[torch.Tensor]) -> Results:
        before, here = (tree_unflatten(carried, structure), tree_unflatten(slices, form))
        carry, result = combine_fn(before, here)
        return _flat((carry, result), torch.contiguous_format)

    leaves, after = scan_steps(
        step, [x.contiguous() for x in slices], [x.contiguous() for x in carried]
    )
    carry, results = tree_unflatten(leaves, after)
    if reverse:
        results = tree_map(lambda y: y.flip(0), results)
    return carry, results


def map_slices(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """``torch._higher_order_ops.map``: a scan that carries nothing"""
    return scan(lambda carry, x: (carry, f(x, *args)), (), xs)[1]


def _flat(results: Any, memory_format: torch.memory_format) -> Results:
    """Return results in memory of their own."""
    leaves, structure = tree_flatten(results)
    own = [x.clone(memory_format=memory_format) if torch.is_tensor(x) else x for x in leaves]
    return own, structure
