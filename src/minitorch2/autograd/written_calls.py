"""Recording calls that write to their arguments and have no functional form of their own.

    before: target(x, out)                                  an operator or a kernel of the user's
    after:  out_after = FunctionalCall(target, ...)(x, out)
            what is read of `out` from here on is `out_after`

PyTorch 2 paper, section 4.2: functionalization leaves a graph without writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import FakeTensor, fake_like, same_storage
from minitorch2.graph.functional_call import FunctionalCall
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals.pytree import tree_flatten


class Recorder(Protocol):
    """The recorder of calls on the present values of tensors; written tensors get new values."""

    def read(self, tensor: torch.Tensor) -> Node:
        """Return the node of a tensor's present value."""
        ...

    def record_call(
        self, target: Callable[..., Any], inputs: Sequence[Any], results: Sequence[Any]
    ) -> tuple[FakeTensor, ...]:
        """Record a call with results in memory of their own."""
        ...

    def assign(self, target: Any, value: FakeTensor) -> None:
        """Let a tensor hold another value."""
        ...


def record_written_call(
    recorder: Recorder,
    target: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    written: Iterable[Any],
    results: Sequence[FakeTensor],
) -> list[FakeTensor]:
    """Record a call that writes to some of its arguments.

    Args:
        written: the tensors among the arguments, or in lists among them, that the call writes to.
        results: what the call returns, as tensors without data.

    Returns:
        The results, as tensors that the recorder knows.

    Raises:
        UnsupportedError: an argument that is written shares its memory with another one.
    """
    leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
    values: list[Any] = []
    places = [_place(leaf, values) for leaf in leaves]
    targets = {_place(tensor, values): tensor for tensor in written}
    _refuse_overlap(target, targets.values(), values)
    call = FunctionalCall(target, spec, tuple(places), tuple(targets))
    inputs = [recorder.read(v) if isinstance(v, torch.Tensor) else v for v in values]
    after = [fake_like(tensor) for tensor in targets.values()]
    made = recorder.record_call(call, inputs, [*results, *after])
    for tensor, value in zip(targets.values(), made[len(results) :], strict=True):
        recorder.assign(tensor, value)
    return list(made[: len(results)])


def _place(leaf: Any, values: list[Any]) -> int:
    """Return the position of a value among those that the node passes; a new one goes last."""
    for position, value in enumerate(values):
        if value is leaf and isinstance(leaf, torch.Tensor):
            return position
    values.append(leaf)
    return len(values) - 1


def _refuse_overlap(target: object, written: Iterable[Any], values: Sequence[Any]) -> None:
    others = [value for value in values if isinstance(value, FakeTensor)]
    for tensor in written:
        if any(other is not tensor and same_storage(other, tensor) for other in others):
            name = getattr(target, "__name__", target)
            raise UnsupportedError(
                f"{name} writes to memory that two of its arguments share",
                code="overlap",
                fix="pass one tensor, or clone one of the two",
            )
