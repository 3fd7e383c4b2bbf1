"""The plan of a compiled program: all that running it needs besides its compiled graphs.

    ProgramPlan ::= what is done around the graphs: Epilogue, [FunctionPlan, Repetition]
    FunctionPlan ::= what the autograd function of a trained program keeps and passes on
    Repetition  ::= what is needed to run the program again, for second derivatives

Plans are plain values: numbers, dtypes, operators and tuples of them. So a plan can be written down
and read again by another process, which has the same graph and need not trace it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.utils._pytree import TreeSpec

from minitorch2.autograd.epilogue import Epilogue
from minitorch2.autograd.joint import Place, TracedProgram
from minitorch2.autograd.partition import Partition, SavedInput, SavedOutput
from minitorch2.graph.effects import is_random
from minitorch2.graph.node import nodes_in


@dataclass(frozen=True)
class Layout:
    """What the backward graph was compiled for: a tangent of this size, stride, dtype and place.

    ``size`` and ``stride`` are None where sizes are symbolic: then the tangent must be contiguous.
    """

    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tangent: torch.Tensor) -> Layout:
        """The layout of an example."""
        size, stride = (
            tuple(numbers) if all(isinstance(n, int) for n in numbers) else None
            for numbers in (tangent.shape, tangent.stride())
        )
        return Layout(size, stride, tangent.dtype, tangent.device)


@dataclass(frozen=True)
class FunctionPlan:
    """All that a compiled autograd function does besides computing.

    ``outputs`` is the number of the program's own outputs; later ones of the forward graph are
    saved.
    ``saved`` says where each value for backward comes from, and ``numbers`` which of these are
    sizes and not tensors; ``tangents`` which outputs have gradients; ``reads`` on which of these
    each input's gradient depends.
    """

    inputs: int
    outputs: int
    saved: tuple[SavedInput | SavedOutput, ...]
    numbers: tuple[int, ...]
    tangents: tuple[int, ...]
    tangent_layouts: tuple[Layout, ...]
    reads: tuple[frozenset[int], ...]

    @staticmethod
    def of(program: TracedProgram, parts: Partition) -> FunctionPlan:
        """The plan of a partitioned program."""
        placeholders = program.module.graph.placeholders
        saved = parts.backward.graph.placeholders[: len(parts.saved)]
        return FunctionPlan(
            program.inputs,
            program.forward_outputs,
            parts.saved,
            tuple(i for i, n in enumerate(saved) if not isinstance(n.meta["val"], torch.Tensor)),
            program.tangent_outputs,
            tuple(Layout.of(node.meta["val"]) for node in placeholders[program.inputs :]),
            program.tangents_read(),
        )

    @cached_property
    def without_gradient(self) -> tuple[int, ...]:
        """The outputs that have none."""
        return tuple(i for i in range(self.outputs) if i not in self.tangents)

    @cached_property
    def some_may_be_unused(self) -> bool:
        """Whether a caller may ask for gradients of a part of the outputs."""
        return len(self.tangents) > 1 or bool(self.without_gradient)

    @cached_property
    def sizes_vary(self) -> bool:
        """Whether the sizes of tangents are known at the call only."""
        return any(layout.size is None for layout in self.tangent_layouts)

    def places(self) -> list[int]:
        """Where each saved value is in ``(*inputs, *outputs)``."""
        return [p.index + (isinstance(p, SavedOutput) and self.inputs) for p in self.saved]


@dataclass(frozen=True)
class Repetition:
    """How the captured graph is run again to differentiate it.

    ``tensors`` are the positions of tensors among the ``inputs``; ``places`` is where a run has the
    outputs that have gradients; ``written`` inputs are written to, and of these nothing depends on
    the values of ``unread`` ones; ``draws`` says whether it draws random numbers.
    """

    inputs: int
    tensors: tuple[int, ...]
    places: tuple[Place, ...]
    written: frozenset[int]
    unread: frozenset[int]
    draws: bool

    @staticmethod
    def of(program: TracedProgram) -> Repetition:
        """How a traced program is repeated."""
        examples = [node.meta["val"] for node in program.module.graph.placeholders]
        written = frozenset(mutation.input_index for mutation in program.epilogue.mutations)
        return Repetition(
            program.inputs,
            tensor_positions(examples[: program.inputs]),
            tuple(program.places[index] for index in program.tangent_outputs),
            written,
            written - _indices_read(program),
            any(is_random(node) for node in program.module.graph.nodes),
        )


@dataclass(frozen=True)
class ProgramPlan:
    """What is done around the compiled graphs of a program.

    ``outputs`` is the number of outputs that the epilogue reads. ``tensors`` are the positions of
    tensors among the inputs, ``repeats`` which of them are one tensor: for each, where it comes
    first. ``structure`` is that of the results; None if they are a flat sequence. ``function`` and
    ``repetition`` are there if results are differentiable; ``detached`` says that inputs require
    gradients, and no result has any. ``spent`` are the outputs whose history is used up, with the
    error that their derivative raises.
    """

    outputs: int
    epilogue: Epilogue
    tensors: tuple[int, ...]
    repeats: tuple[int, ...]
    structure: TreeSpec | None
    detached: bool
    spent: tuple[tuple[int, str], ...] = ()
    function: FunctionPlan | None = None
    repetition: Repetition | None = None

    @property
    def checks_repeats(self) -> bool:
        """Whether each call must repeat tensors as the first one did."""
        is_plain = self.repeats == (*range(len(self.repeats)),)
        return bool(self.epilogue.mutations) or not is_plain


def tensor_positions(values: Sequence[Any]) -> tuple[int, ...]:
    """Which of some values are tensors."""
    return tuple(i for i, value in enumerate(values) if isinstance(value, torch.Tensor))


def _indices_read(program: TracedProgram) -> frozenset[int]:
    """The inputs on whose values differentiable outputs or gradients depend: running statistics
    that are only written are not among them.
    """
    graph = program.module.graph
    values = graph.output_node.args[0]
    read = {values[index] for index in program.tangent_outputs}
    read.update(nodes_in(values[program.forward_outputs :]))
    for node in reversed(graph.nodes):
        if node in read:
            read.update(node.all_input_nodes)
    inputs = graph.placeholders[: program.inputs]
    return frozenset(i for i, node in enumerate(inputs) if node in read)
