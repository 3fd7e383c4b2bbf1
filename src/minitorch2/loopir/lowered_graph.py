"""The result of lowering: inputs, buffers in order, outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import sympy

from minitorch2.loopir.buffers import (
    Buffer,
    BufferView,
    ConstantBuffer,
    InputBuffer,
    RealizeDecision,
)
from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.print_lowered import print_graph

OutputValue: TypeAlias = BufferView | int | float | bool | sympy.Expr | None


@dataclass
class LoweredGraph:
    """The result of lowering: buffers in the order in which they can be computed.

    `inputs` has one entry per placeholder: a buffer, or the expression of a number input. `outputs`
    are the results of the graph, in order; `constants` are the buffers of its attributes; `hints`
    are the values of symbolic sizes in the example inputs.
    """

    inputs: list[InputBuffer | Expr | float | None]
    buffers: list[Buffer]
    outputs: list[OutputValue]
    constants: dict[str, ConstantBuffer] = field(default_factory=dict)
    decisions: list[RealizeDecision] = field(default_factory=list)
    hints: dict[sympy.Symbol, int] = field(default_factory=dict)

    @property
    def output_names(self) -> frozenset[str]:
        """The buffers that the caller gets."""
        return frozenset(o.name for o in self.outputs if isinstance(o, BufferView))

    @property
    def donated(self) -> dict[str, Buffer]:
        """The arguments whose memory the graph may use for itself."""
        return {b.name: b for b in self.inputs if isinstance(b, InputBuffer) and b.donated}

    @property
    def rewritten(self) -> dict[str, InputBuffer]:
        """The buffers that the caller will copy into arguments of the same layout, with these."""
        pairs = ((b, self.outputs[b.becomes]) for b in self.inputs
                 if isinstance(b, InputBuffer) and b.becomes is not None)  # fmt: skip
        return {
            output.name: argument
            for argument, output in pairs
            if isinstance(output, BufferView) and output.layout == argument.layout
        }

    def by_name(self) -> dict[str, Buffer]:
        """Return all buffers of the graph."""
        inputs = [value for value in self.inputs if isinstance(value, Buffer)]
        return {b.name: b for b in (*inputs, *self.constants.values(), *self.buffers)}

    def print(self) -> str:
        """Return the graph as text whose loop bodies are Python."""
        return print_graph(self.inputs, self.buffers, self.outputs)
