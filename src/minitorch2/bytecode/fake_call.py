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
from torch.utils._python_dispatch import TorchDispatchMode

from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import FakeTensor, run_fake

ENTER_AUTOCAST: Callable[..., Any] = torch.amp.autocast_mode._enter_autocast
EXIT_AUTOCAST: Callable[..., Any] = torch.amp.autocast_mode._exit_autocast

STATE_CHANGES = {torch._C._set_grad_enabled, ENTER_AUTOCAST, EXIT_AUTOCAST}
"""Functions that change a state of PyTorch that later operators read."""


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
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
        self.writes_tensors |= func._schema.is_mutable
        self.hides_parameter |= any(_is_real_parameter(value) for value in args)
        return run_fake(func, args, kwargs or {})


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
