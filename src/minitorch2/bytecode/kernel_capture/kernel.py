"""The user's own Triton kernels: `kernel[grid](...)` is one node of the graph.

Nothing of the kernel or of Triton is evaluated but the grid, and the functions of
`triton.heuristics`, which the grid may ask for. A kernel under `triton.autotune` has a grid for
each of its configurations; Triton measures them at the first launch, as without a compiler.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.known import ConstantObjectVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, literal
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable, dict_of_names
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.kernel_launch import GRID_RANK, KernelLaunch, plain_function

Named = dict[str, VariableTracker]


class TritonObjectVariable(ConstantObjectVariable):
    """An object of Triton's language, such as ``tl.float32``: a constant of a launch."""


class TritonKernelVariable(TritonObjectVariable):
    """A kernel: the outcome of `triton.jit`, `triton.autotune` or `triton.heuristics`."""

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name == "__getitem__":
            return LauncherVariable(self, args[0])
        if name == "run":
            named = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
            return _Launch(evaluator, self, kwargs["grid"], args, named).record()
        return super().call_method(evaluator, name, args, kwargs)


class LauncherVariable(VariableTracker):
    """A kernel with its grid, ``kernel[grid]``."""

    def __init__(self, kernel: TritonKernelVariable, grid: VariableTracker) -> None:
        super().__init__()
        self.kernel = kernel
        self.grid = grid

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return _Launch(evaluator, self.kernel, self.grid, args, kwargs).record()


@handles(torch.library.wrap_triton)
def wrap_triton(evaluator: Evaluator, kernel: VariableTracker) -> VariableTracker:
    """Give the kernel itself: it is a node of the graph with or without the wrapper."""
    return kernel


class _Launch:
    """One launch while it is captured."""

    def __init__(
        self,
        evaluator: Evaluator,
        kernel: TritonKernelVariable,
        grid: VariableTracker,
        args: Arguments,
        kwargs: Keywords,
    ) -> None:
        self.evaluator = evaluator
        self.kernel = kernel
        self.grid = grid
        self.parameters = inspect.signature(plain_function(kernel.value)).parameters
        self.given: Named = {**dict(zip(self.parameters, args, strict=False)), **kwargs}

    def record(self) -> VariableTracker:
        """Put the launch into the graph. The compiled kernel that Triton returns is not known."""
        constants, passed = self._split()
        choices = [*self._choices()]
        grids = [number for choice in choices for number in self._grid(choice)]
        launch = KernelLaunch(self.kernel.value, tuple(passed), constants, tuple(choices))
        inputs = [*grids, *passed.values()]
        self.evaluator.capture.call_in_graph(self.evaluator, "call_function", launch, inputs)
        return VariableTracker(guards=self.kernel.guards)

    def _split(self) -> tuple[dict[str, Any], Named]:
        """Return the arguments that are constants, and those that the node passes."""
        constants: dict[str, Any] = {}
        passed: Named = {}
        for name, value in self.given.items():
            if value.is_constant() or self._is_compile_time(name):
                constants[name] = value.as_constant()
            elif isinstance(value, TensorVariable | SymbolicNumberVariable):
                passed[name] = value
            else:
                unsupported("not-a-graph-argument", f"{value} as the argument {name!r} of a kernel")
        return constants, passed

    def _is_compile_time(self, name: str) -> bool:
        parameter = self.parameters.get(name)
        return parameter is not None and "constexpr" in str(parameter.annotation)

    def _choices(self) -> Iterator[dict[str, Any]]:
        """Yield the constants that each configuration of the autotuner chooses."""
        configurations = [
            config
            for kernel in _layers(self.kernel.value)
            for config in getattr(kernel, "configs", ())
        ]
        yield from (dict(config.kwargs) for config in configurations)
        if not configurations:
            yield {}

    def _grid(self, choice: Mapping[str, Any]) -> list[VariableTracker]:
        """Return the three numbers of the grid under a configuration."""
        grid = self.grid
        if not isinstance(grid, SequenceVariable):
            grid = grid.call(self.evaluator, [self._meta(choice)], {})
        numbers = grid.items(self.evaluator)
        return [*numbers, *[ConstantVariable(1)] * (GRID_RANK - len(numbers))]

    def _meta(self, choice: Mapping[str, Any]) -> DictVariable:
        """Return all arguments by name, which Triton passes to a grid that is a function."""
        defaults = {
            name: literal(parameter.default)
            for name, parameter in self.parameters.items()
            if parameter.default is not parameter.empty
        }
        chosen = {name: literal(value) for name, value in choice.items()}
        meta = defaults | self.given | chosen
        for kernel, source in self._heuristics():
            for name, function in getattr(kernel, "values", {}).items():
                place = ItemSource(AttributeSource(source, "values"), name)
                rule = self.evaluator.capture.wrap(function, place)
                meta[name] = rule.call(self.evaluator, [dict_of_names(meta)], {})
        return dict_of_names(meta)

    def _heuristics(self) -> Iterator[tuple[Any, Any]]:
        """Yield the layers of the kernel, each with its source."""
        source = self.kernel.source
        for kernel in _layers(self.kernel.value):
            assert source is not None
            yield kernel, source
            source = AttributeSource(source, "fn")


def _layers(kernel: Any) -> Iterator[Any]:
    """Yield a kernel's decorators, from the outermost one to the function of `triton.jit`."""
    while hasattr(kernel, "fn"):
        yield kernel
        kernel = kernel.fn
