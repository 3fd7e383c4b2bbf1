"""Dispatch modes that see every operator that PyTorch runs, without importing its compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from minitorch2.native.torch_internals.modes import TorchDispatchMode


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

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def on_launch(self, launch: Launch, values: Sequence[Any]) -> None:
        """See a kernel that is launched with tensors without data."""
