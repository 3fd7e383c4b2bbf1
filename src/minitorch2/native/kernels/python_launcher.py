"""Launchers in Python: for kernels that Numba or CPython runs, not the launcher in machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch


@dataclass(frozen=True, eq=False)
class PythonLauncher:
    """`launcher(n, tensor or address..., size...)`: does the iterations 0 <= i < n of a kernel.

    Args:
        name: the kernel's name.
        arguments: how many arguments a call has, `n` included.
        run: does it, given `n` and the arguments as words. It answers None, or the index that is
            out of range and the size of its dimension.

    Raises, when called, IndexError for an index that the kernel finds out of range.
    """

    name: str
    arguments: int
    run: Callable[[int, list[int]], tuple[int, int] | None]

    def __call__(self, n: int, *arguments: torch.Tensor | int) -> None:
        """Run the kernel."""
        words = [a if isinstance(a, int) else a.data_ptr() for a in arguments]
        error = self.run(n, words)
        if error is not None:
            index, size = error
            raise IndexError(f"index {index} is out of bounds for a dimension of size {size}")


def launch_in_turn(name: str, launchers: Sequence[PythonLauncher]) -> Callable[..., None]:
    """Make one launch of several kernels, in order; it takes the arguments of each in turn."""

    def launch(*arguments: Any) -> None:
        rest = iter(arguments)
        for launcher in launchers:
            launcher(*islice(rest, launcher.arguments))

    launch.__name__ = name
    return launch
