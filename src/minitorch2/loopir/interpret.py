"""Run a lowered graph with NumPy: slow, simple, and the reference for every code generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy
import torch

from minitorch2.errors import LoweringError
from minitorch2.graph.node import map_items
from minitorch2.graph.symbols import solve_for
from minitorch2.graph.symbols.conditions import holds, is_condition
from minitorch2.loopir.buffers import (
    Buffer,
    BufferView,
    ComputedBuffer,
    ExternKernel,
    HostCall,
    InputBuffer,
)
from minitorch2.loopir.expressions import Expr, index_symbols
from minitorch2.loopir.handlers.interpreter import (
    InterpretingHandler,
    Memory,
    evaluate,
    fixed_numbers,
)
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.ops import use_handler


def interpret(lowered: LoweredGraph, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a lowered graph for real inputs; results are new tensors.

    Raises:
        LoweringError: an input's size or strides are not those that the graph was lowered for.
        IndexError: a loop body reads or writes outside of a buffer.
    """
    return GraphInterpreter(lowered, inputs).run()


class GraphInterpreter:
    """`memory` of every buffer by name; `environment` gives the size symbols their values."""

    def __init__(self, lowered: LoweredGraph, inputs: Sequence[Any]) -> None:
        self.lowered = lowered
        self.memory: dict[str, Memory] = {}
        self.environment: dict[sympy.Basic, Any] = {}
        for expected, value in zip(lowered.inputs, inputs, strict=True):
            self._bind(expected, value)
        for expected, value in zip(lowered.inputs, inputs, strict=True):
            if isinstance(expected, InputBuffer):
                self._check(expected, value)

    def run(self) -> list[Any]:
        """Compute every buffer in order, then gather the outputs."""
        for name, constant in self.lowered.constants.items():
            self.memory[name] = Memory.of(constant.value)
        with np.errstate(all="ignore"):
            for buffer in self.lowered.buffers:
                self._compute(buffer)
        return [self._output(output) for output in self.lowered.outputs]

    def _bind(self, expected: Any, value: Any) -> None:
        if isinstance(expected, InputBuffer):
            self.memory[expected.name] = Memory.of(value)
            layout = expected.fixed_layout()
            pairs = [*zip(layout.size, value.shape), *zip(layout.stride, value.stride())]
            for size, number in pairs:
                solution = solve_for(size) if isinstance(size, sympy.Basic) else None
                if solution is not None:
                    symbol, factor, offset = solution
                    self.environment.setdefault(symbol, (number - offset) // factor)
        elif isinstance(expected, sympy.Symbol):
            self.environment.setdefault(expected, value)

    def _check(self, expected: InputBuffer, value: torch.Tensor) -> None:
        layout = fixed_numbers(expected.fixed_layout(), self.environment)
        strides_differ = any(
            n > 1 and s != t
            for n, s, t in zip(value.shape, layout.stride, value.stride(), strict=True)
        )
        if layout.size != tuple(value.shape) or (value.numel() and strides_differ):
            raise LoweringError(
                f"input {expected.name} has size {tuple(value.shape)} and strides "
                f"{value.stride()}, lowered for {layout.size} and {layout.stride}"
            )

    def _number(self, expr: Expr) -> int:
        return int(evaluate(expr, self.environment))

    def _compute(self, buffer: Buffer) -> None:
        if isinstance(buffer, ComputedBuffer):
            self._run_loops(buffer)
        elif isinstance(buffer, ExternKernel):
            self._call(buffer)

    def _allocate(self, buffer: Buffer) -> None:
        count = self._number(buffer.fixed_layout().storage_size())
        self.memory[buffer.name] = Memory.allocate(count, buffer.dtype)

    def _run_loops(self, buffer: ComputedBuffer) -> None:
        if buffer.base is None:
            self._allocate(buffer)
        else:
            self.memory[buffer.name] = self.memory[buffer.base]
        loops = buffer.loops
        ranges = (*loops.ranges, *loops.reduction_ranges)
        shape = tuple(map(self._number, ranges))
        symbols = index_symbols("i", len(ranges))
        axes = {
            symbol: np.arange(extent).reshape([-1 if k == axis else 1 for k in range(len(shape))])
            for axis, (symbol, extent) in enumerate(zip(symbols, shape, strict=True))
        }
        handler = InterpretingHandler(
            self.memory, {**self.environment, **axes}, shape, len(loops.reduction_ranges)
        )
        with use_handler(handler):
            buffer.run(symbols[: len(loops.ranges)], symbols[len(loops.ranges) :])

    def _call(self, kernel: ExternKernel) -> None:
        args, kwargs = self._argument(kernel.args), self._argument(kernel.kwargs)
        if kernel.out_variant is not None:
            kwargs["out"] = self._empty(kernel)
        result = (kernel.out_variant or kernel.target)(*args, **kwargs)
        if isinstance(kernel, HostCall):
            self.environment |= dict.fromkeys(kernel.symbols, result)
            return
        if not kernel.outputs:
            self._keep(kernel, result)
        for output in kernel.outputs:
            value = result
            for step in output.position:
                value = value[step]
            self._keep(output, value)

    def _keep(self, buffer: Buffer, value: torch.Tensor) -> None:
        """Copy a call's result into the layout that the graph expects, and read off its symbols.

        Some operators' meta kernels promise another size for results that only their own
        derivatives read. These results are kept unchanged.
        """
        self.environment |= {symbol: value.size(dim) for symbol, dim in buffer.symbols.items()}
        expected = self._empty(buffer)
        same = expected.shape == value.shape
        self.memory[buffer.name] = Memory.of(expected.copy_(value) if same else value)

    def _empty(self, buffer: Buffer) -> torch.Tensor:
        layout = fixed_numbers(buffer.fixed_layout(), self.environment)
        return torch.empty_strided(layout.size, layout.stride, dtype=layout.dtype)

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, BufferView):
            return self._tensor(argument)
        if isinstance(argument, sympy.Expr):
            return evaluate(argument, self.environment)
        if is_condition(argument):
            return holds(argument, self.environment)
        return map_items(argument, self._argument)

    def _tensor(self, view: BufferView) -> torch.Tensor:
        layout = fixed_numbers(view.layout, self.environment)
        return self.memory[view.name].view(layout.size, layout.stride, layout.offset)

    def _output(self, output: Any) -> Any:
        return self._argument(output)
