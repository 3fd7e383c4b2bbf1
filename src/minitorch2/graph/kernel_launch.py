"""Launches of the user's own Triton kernels, as functions that a node of a graph calls.

    node ::= KernelLaunch(kernel, names, constants, choices)(*grids, *arguments)

The node passes numbers first, three for each grid, and then the arguments that are not constants.
It writes to the tensors that `written_pointers` finds in the kernel's source, and returns None.
PyTorch 2 paper, section 4.4: user-defined kernels are nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from minitorch2.graph.dispatch_mode import DispatchMode
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.written_pointers import written_pointers
from minitorch2.native.torch_internals.modes import innermost_dispatch_mode

GRID_RANK: Final = 3
"""A grid of Triton has at most three numbers."""


@dataclass(eq=False)
class KernelLaunch:
    """Launch a Triton kernel.

    Attributes:
        kernel: the object that `triton.jit`, `triton.autotune` or `triton.heuristics` made.
        names: of the parameters that the node passes values for, in the order of the values.
        constants: the other arguments by name: compile-time constants, and Triton's own options.
        choices: for each grid, the constants that a configuration of the autotuner must have chosen
            for it to be the grid of a launch; one empty mapping if there is no autotuner.
    """

    kernel: Any
    names: tuple[str, ...]
    constants: Mapping[str, Any]
    choices: tuple[Mapping[str, Any], ...]

    @property
    def __name__(self) -> str:
        return str(plain_function(self.kernel).__name__)

    def __call__(self, *values: Any) -> None:
        """Launch the kernel; with tensors without data, only tell the mode that watches."""
        grids, arguments = self._split(values)
        if any(isinstance(value, FakeTensor) for value in arguments):
            mode = innermost_dispatch_mode()
            if isinstance(mode, DispatchMode):
                mode.on_launch(self, values)
            return
        named = dict(zip(self.names, arguments, strict=True))

        def grid(chosen: Mapping[str, Any]) -> tuple[int, ...]:
            return next(
                grid
                for grid, choice in zip(grids, self.choices, strict=True)
                if all(chosen[name] == value for name, value in choice.items())
            )

        self.kernel[grid](**named, **self.constants)

    def _split(self, values: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
        end = GRID_RANK * len(self.choices)
        grids = [values[i : i + GRID_RANK] for i in range(0, end, GRID_RANK)]
        return grids, values[end:]

    def written(self) -> Iterator[int]:
        """Yield the positions, among the values that the node passes, of written tensors."""
        names = written_pointers(plain_function(self.kernel))
        start = GRID_RANK * len(self.choices)
        for position, name in enumerate(self.names):
            if name in names:
                yield start + position


def plain_function(kernel: Any) -> Any:
    """Return the Python function below `triton.jit` and the decorators around it."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def is_triton_kernel(value: object) -> bool:
    """Return whether a value can be launched as ``value[grid](...)``.

    Triton is not imported for the answer, since many programs do without it.
    """
    names = ((base.__module__, base.__name__) for base in type(value).__mro__)
    return ("triton.runtime.jit", "KernelInterface") in names
