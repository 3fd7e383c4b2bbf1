"""Run one operation on fake tensors and see what it does besides giving a value.

An operation is *impure* if dropping it, though nobody reads its result, would change the program:
it writes to a tensor, draws random numbers, or changes PyTorch's state. Which operators do so is
read from the schemas of the aten operators that really run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.dispatch_mode import DispatchMode, Launch
from minitorch2.graph.fake_tensor import FakeTensor, run_fake, same_storage

ENTER_AUTOCAST: Callable[..., Any] = torch.amp.autocast_mode._enter_autocast
EXIT_AUTOCAST: Callable[..., Any] = torch.amp.autocast_mode._exit_autocast

STATE_CHANGES = {torch._C._set_grad_enabled, ENTER_AUTOCAST, EXIT_AUTOCAST}
"""Functions that change a state of PyTorch that later operators read."""


class _Watch(DispatchMode):
    """Runs operators on fake tensors and notes writes and random draws."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_random = False
        self.writes_tensors = False
        self.hides_parameter = False

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.is_random |= torch.Tag.nondeterministic_seeded in func.tags
        if func._schema.is_mutable:
            self.writes_tensors = True
            _refuse_partial_overlap(func, args)
        self.hides_parameter |= any(_is_real_parameter(value) for value in args)
        return run_fake(func, args, kwargs or {})

    def on_launch(self, launch: Launch, values: Sequence[Any]) -> None:
        """Note the writes of a kernel. It may write to a tensor all of whose elements are known."""
        self.writes_tensors = True
        for index in launch.written():
            values[index].known = None


def _refuse_partial_overlap(func: torch._ops.OpOverload, args: Sequence[Any]) -> None:
    """Leave it to Python to write to memory that another operand is partly in: PyTorch refuses to.

    An error within the graph would come after all that the program does before it; so errors that
    can be foreseen are kept out of graphs.
    """
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    for written in (a for a, p in zip(args, func._schema.arguments, strict=False) if _writes(a, p)):
        if any(_overlap_partly(written, other) for other in tensors):
            cause = f"{func._schema.name} writes to memory that another operand is partly in"
            raise UnsupportedError(cause, code="overlap", fix="clone one of the tensors")


def _writes(argument: object, parameter: torch.Argument) -> bool:
    alias = parameter.alias_info
    return isinstance(argument, torch.Tensor) and alias is not None and alias.is_write


def _overlap_partly(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two dense tensors share some memory, but are not views of the same elements."""
    if left is right or not same_storage(left, right):
        return False
    a, b = _dense_span(left), _dense_span(right)
    if a is None or b is None or (a == b and left.stride() == right.stride()):
        return False
    return a.start < b.stop and b.start < a.stop


def _dense_span(tensor: torch.Tensor) -> range | None:
    """The elements of its storage, if it is all of those between its first and its last."""
    sizes = [n for n in tensor.shape if isinstance(n, int)]
    first = int(tensor.storage_offset())
    reach = sum((n - 1) * s for n, s in zip(sizes, tensor.stride(), strict=False))
    dense = len(sizes) == tensor.ndim and tensor.numel() == reach + 1
    return range(first, first + reach + 1) if dense else None


@dataclass
class FakeCall:
    """One operation with fake arguments; `is_impure` and `writes_tensors` are known after `run`."""

    op: str
    target: str | Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_impure: bool = False
    writes_tensors: bool = False

    def run(self) -> Any:
        """The operation's fake value."""
        with _Watch() as watch:
            if isinstance(self.target, str):
                value = getattr(self.args[0], self.target)(*self.args[1:], **self.kwargs)
            else:
                value = self.target(*self.args, **self.kwargs)
        if watch.hides_parameter and torch.is_grad_enabled():
            raise UnsupportedError(
                f"{describe_target(self.op, self.target)} uses a parameter that it is not given",
                code="hidden-parameter",
                fix="give it the parameter as an argument, so that its gradient is computed",
            )
        self.writes_tensors = watch.writes_tensors
        state = self.target in STATE_CHANGES
        self.is_impure = watch.is_random or watch.writes_tensors or state
        return value


def _is_real_parameter(value: object) -> bool:
    """A tensor that an operation reads though it is no argument of it, and that needs gradients."""
    is_real = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
    return is_real and value.requires_grad  # type: ignore[attr-defined]


def describe_target(op: str, target: str | Callable[..., Any]) -> str:
    """A target as the user would write it: ``x.view`` or ``torch.cat``."""
    if isinstance(target, str):
        return f"Tensor.{target}"
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}".lstrip(".")
