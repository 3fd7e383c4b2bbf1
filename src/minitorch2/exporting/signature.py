"""The signature of an exported program: plain values that say how its graph is called.

    Signature ::= inputs: (Input, ...), outputs: (Output, ...), symbols: {name: Symbol},
                  conditions: (Condition, ...), the structures of arguments and results
    Input     ::= a placeholder of the graph: a parameter, buffer or constant by its path, or an
                  argument by its name, with the tensor's form or the value that it must have
    Output    ::= an output of the graph: the new content of an input, or a result of the user's
    Symbol    ::= the range of a size that varies, and where it is read

Nothing here needs more than torch, so that packages load without a compiler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch

InputKind: TypeAlias = Literal["parameter", "buffer", "constant", "user"]
OutputKind: TypeAlias = Literal["mutation", "result", "value"]


@dataclass(frozen=True)
class TensorForm:
    """The form of a tensor.

    Attributes:
        shape: each size as a number, or as the name of a symbol.
        stride: of the example, each as a number or as an expression of symbols.
    """

    dtype: torch.dtype
    device: torch.device
    shape: tuple[int | str, ...]
    stride: tuple[int | str, ...]

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        device = "" if self.device.type == "cpu" else f" on {self.device}"
        return f"{kind}[{', '.join(map(str, self.shape))}]{device}"


@dataclass(frozen=True)
class Input:
    """One input of the program.

    Attributes:
        name: the placeholder's, if the graph reads it; else empty.
        target: the path of a parameter or buffer, or the user's own words: ``x['mask']``.
        form: of a tensor.
        value: that an argument which is no tensor must have.
        persistent: False for a buffer that is not in the module's state dict.
    """

    kind: InputKind
    name: str
    target: str
    form: TensorForm | None = None
    value: Any = None
    persistent: bool = True

    def __str__(self) -> str:
        form = self.form or f"always {self.value!r}"
        return f"{self.kind} {self.target}: {form}"


@dataclass(frozen=True)
class Output:
    """One output of the graph, or a result that the graph does not compute.

    Attributes:
        target: of a mutation: the index of the input that holds this value afterwards.
        value: of the kind ``value``: a result that is the same in each call.
    """

    kind: OutputKind
    target: int = -1
    value: Any = None


@dataclass(frozen=True)
class Symbol:
    """A size that varies.

    Attributes:
        source: the input that has it, and the dimension.
        hint: its value in the example.
        low: the least size that is served.
        high: the greatest one.
        shown: its name in messages: that of the user's `Dim`, or where it is read.
    """

    source: tuple[int, int]
    hint: int
    low: int = 2
    high: float = math.inf
    shown: str = ""

    def __str__(self) -> str:
        high = "" if self.high == math.inf else f" .. {int(self.high)}"
        return f"{self.shown}: {self.low}{high or ' or more'}"


@dataclass(frozen=True)
class Condition:
    """A condition on sizes that a call has to meet.

    Attributes:
        text: a Python expression of symbols.
        shown: the same in the user's words.
        line: the user's line that needs it.
    """

    text: str
    shown: str
    line: str = ""


@dataclass(frozen=True)
class Signature:
    """The meaning of the inputs and outputs of an exported program's graph.

    Attributes:
        arguments: the structure of ``(args, kwargs)``.
        results: the structure of what the program returns.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    symbols: Mapping[str, Symbol]
    conditions: tuple[Condition, ...]
    arguments: Any = field(repr=False)
    results: Any = field(repr=False)

    def of_kind(self, *kinds: InputKind) -> list[Input]:
        """Return the inputs of some kinds, in order."""
        return [each for each in self.inputs if each.kind in kinds]

    @property
    def parameters(self) -> list[str]:
        """The paths of the parameters."""
        return [each.target for each in self.of_kind("parameter")]

    @property
    def buffers(self) -> list[str]:
        """The paths of the buffers."""
        return [each.target for each in self.of_kind("buffer")]

    @property
    def user_inputs(self) -> list[str]:
        """The arguments, in the user's words, in the order of their leaves."""
        return [each.target for each in self.of_kind("user")]

    @property
    def mutated(self) -> list[str]:
        """The inputs that a call writes to."""
        return [self.inputs[o.target].target for o in self.outputs if o.kind == "mutation"]

    def __str__(self) -> str:
        results = [each for each in self.outputs if each.kind != "mutation"]
        parts = [
            *map(str, self.inputs),
            *(f"writes to {name}" for name in self.mutated),
            f"results: {len(results)}",
            *(f"size {symbol}" for symbol in self.symbols.values()),
            *(f"needs {condition.shown}" for condition in self.conditions),
        ]
        return "\n".join(parts)
