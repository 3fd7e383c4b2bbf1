"""Calls inside of function transforms and of autograd: what a program without gradients refuses.

An exported graph is the forward computation alone: it knows neither `detach`, nor `torch.no_grad`,
nor the backward of a `torch.autograd.Function`. Its derivative is not that of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch
from torch.autograd import forward_ad

from minitorch2.errors import ExportError
from minitorch2.exporting.signature import Input
from minitorch2.native.torch_internals.gradients import (
    are_transforms_active,
    forward_level,
    is_batched,
)
from minitorch2.native.torch_internals.modes import (
    count_dispatch_modes,
    innermost_dispatch_mode,
)


def refuse_derivatives(values: Iterable[tuple[Input, Any]]) -> None:
    """Check that no tensor of a call is differentiated, backward or forward.

    Raises:
        ExportError: the gradient, or the tangent, of the results would silently be zero or wrong.
    """
    for each, value in values:
        if isinstance(value, torch.Tensor) and _is_differentiated(value):
            raise ExportError(
                f"{_WORDS.get(each.kind, each.kind)} {each.target} is differentiated, and an "
                "exported program computes without gradients",
                code="export-call",
                fix="differentiate the model, or export its derivative as "
                "minitorch2.export(torch.func.grad(f), ...); where no gradient is meant, pass "
                f"{each.target}.detach()",
            )


_WORDS: Final = {"user": "argument"}


def _is_differentiated(tensor: torch.Tensor) -> bool:
    """Return whether autograd or forward mode follows a tensor, inside of `torch.vmap` as well."""
    backward, forward = torch.is_grad_enabled(), forward_level() >= 0
    return any(
        (backward and layer.requires_grad) or (forward and _has_tangent(layer))
        for layer in _layers(tensor)
    )


def _has_tangent(layer: torch.Tensor) -> bool:
    """Return whether a tensor is a dual number; a batch of them tells by the layer below."""
    if is_batched(layer):
        return False
    return forward_ad.unpack_dual(layer).tangent is not None  # type: ignore[no-untyped-call]


def _layers(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor, and those that it wraps for the transforms that are active."""
    yield tensor
    while are_transforms_active():
        inner = torch.func.debug_unwrap(tensor, recurse=False)
        if inner is tensor:
            break
        yield inner
        tensor = inner


def refuse_transforms() -> None:
    """Check that nothing but PyTorch itself sees the calls of operators.

    Raises:
        ExportError: a transform or a mode is active, which machine code would pass by.
    """
    active = "a transform of torch.func" if are_transforms_active() else None
    if count_dispatch_modes():
        active = type(innermost_dispatch_mode()).__name__
    if active is not None:
        raise ExportError(
            f"a package is called inside of {active}, which cannot see what machine code computes",
            code="export-call",
            fix="call it outside; or load the file of `program.save`, whose operators can be seen "
            "(all but derivatives)",
        )
