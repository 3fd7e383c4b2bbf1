"""Dispatch modes that see every operator that PyTorch runs, without importing its compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from minitorch2.native.torch_internals.modes import TorchDispatchMode, fake_mode_of_pytorch
from minitorch2.native.torch_internals.operators import OpOverload


class Launch(Protocol):
    """The launch of a user's kernel, which is not an operator of PyTorch (`kernel_launch.py`)."""

    def __call__(self, *values: Any) -> None:
        """Launch the kernel."""
        ...

    def written(self) -> Iterator[int]:
        """Return the positions, among the values passed, of tensors that the kernel writes to."""
        ...


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The base of this project's dispatch modes.

    PyTorch wraps ``__torch_dispatch__`` in a guard of its own compiler, whose import on first use
    takes about a second: more than most functions take to be compiled here. A mode can say no.
    """

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Hand an operator to `see`, unless PyTorch's own fake tensors ask for sizes with it."""
        if fake_mode_of_pytorch():
            return func(*args, **kwargs or {})
        return self.see(func, types, args, dict(kwargs or {}))

    def see(self, func: OpOverload, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the result of an operator."""
        return func(*args, **kwargs)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def on_launch(self, launch: Launch, values: Sequence[Any]) -> None:
        """See a kernel that is launched with tensors without data."""
