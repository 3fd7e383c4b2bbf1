"""The plan of a compiled program: all that running it needs besides its compiled graphs.

    ProgramPlan ::= what is done around the graphs: Epilogue, [FunctionPlan, Repetition]
    FunctionPlan ::= what the autograd function of a trained program keeps and passes on
    Repetition  ::= what is needed to run the program again, for second derivatives

Plans are plain values: numbers, dtypes, operators and tuples of them. So a plan can be written down
and read again by another process, which has the same graph and need not trace it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from minitorch2.autograd.epilogue import Epilogue
from minitorch2.autograd.joint import Place, TracedProgram
from minitorch2.autograd.partition import Partition, SavedInput, SavedOutput
from minitorch2.graph.effects import is_random
from minitorch2.graph.node import nodes_in
from minitorch2.native.torch_internals.pytree import TreeSpec


@dataclass(frozen=True)
class Layout:
    """The size, stride, dtype and device of a tangent for which the backward graph was compiled.

    A ``stride`` of None means a contiguous tangent. Symbolic sizes are None, and so are strides.
    """

    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tangent: torch.Tensor) -> Layout:
        """Return the layout of an example."""
        size, stride = (
            tuple(numbers) if all(isinstance(n, int) for n in numbers) else None
            for numbers in (tangent.shape, tangent.stride())
        )
        is_dense = size is not None and tangent.is_contiguous()
        return Layout(size, None if is_dense else stride, tangent.dtype, tangent.device)


@dataclass(frozen=True)
class FunctionPlan:
    """The plan of a compiled autograd function: everything but the computing itself.

    ``outputs`` is the number of the program's own outputs; later ones of the forward graph are
    saved. ``saved`` tells the source of each value for backward, and ``numbers`` lists those that
    are sizes and not tensors. ``tangents`` are the outputs that have gradients. ``reads`` holds for
    each input the tangents on which its gradient depends. ``unused`` are the inputs that require
    gradients but of which no output is a differentiable function. ``parts`` are those of a backward
    graph that is cut (`distributed.cut_backward.Part`).
    """

    inputs: int
    outputs: int
    saved: tuple[SavedInput | SavedOutput, ...]
    numbers: tuple[int, ...]
    tangents: tuple[int, ...]
    tangent_layouts: tuple[Layout, ...]
    reads: tuple[frozenset[int], ...]
    unused: tuple[int, ...]
    parts: tuple[Any, ...] = ()

    @staticmethod
    def of(program: TracedProgram, parts: Partition, requiring: Set[int]) -> FunctionPlan:
        """Return the plan of a partitioned program; ``requiring`` are the inputs that require
        gradients.
        """
        placeholders = program.module.graph.placeholders
        saved = parts.backward.graph.placeholders[: len(parts.saved)]
        gradients = program.module.graph.output_node.args[0][program.forward_outputs :]
        rewritten = {mutation.input_index for mutation in program.epilogue.mutations}
        return FunctionPlan(
            program.inputs,
            program.forward_outputs,
            parts.saved,
            tuple(i for i, n in enumerate(saved) if not isinstance(n.meta["val"], torch.Tensor)),
            program.tangent_outputs,
            tuple(Layout.of(node.meta["val"]) for node in placeholders[program.inputs :]),
            program.tangents_read(),
            tuple(i for i in sorted(requiring - rewritten) if gradients[i] is None),
        )

    @cached_property
    def without_gradient(self) -> tuple[int, ...]:
        """The outputs that have no gradient."""
        return tuple(i for i in range(self.outputs) if i not in self.tangents)

    @cached_property
    def some_may_be_unused(self) -> bool:
        """True if a caller may ask for gradients of only a part of the outputs."""
        return len(self.tangents) > 1 or bool(self.without_gradient)

    @cached_property
    def may_be_unread(self) -> tuple[int, ...]:
        """The inputs that some of the outputs with gradients do not depend on, but others do."""
        return tuple(i for i, read in enumerate(self.reads) if 0 < len(read) < len(self.tangents))

    @cached_property
    def sizes_vary(self) -> bool:
        """True if the sizes of tangents are known at the call only."""
        return any(layout.size is None for layout in self.tangent_layouts)

    def places(self) -> list[int]:
        """Return the position of each saved value in ``(*inputs, *outputs)``."""
        return [p.index + (isinstance(p, SavedOutput) and self.inputs) for p in self.saved]


@dataclass(frozen=True)
class Repetition:
    """The plan for running the captured graph again to differentiate it.

    ``tensors`` are the positions of tensors among the ``inputs``. ``places`` are the places of the
    differentiable outputs in such a run. ``written`` inputs are written to; nothing depends on the
    values of the ``unread`` ones among these. ``draws`` tells whether the graph draws random
    numbers.
    """

    inputs: int
    tensors: tuple[int, ...]
    places: tuple[Place, ...]
    written: frozenset[int]
    unread: frozenset[int]
    draws: bool

    @staticmethod
    def of(program: TracedProgram) -> Repetition:
        """Return the plan for repeating a traced program."""
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
    """The plan of the runtime's work around the compiled graphs of a program.

    ``outputs`` is the number of outputs that the epilogue reads. ``tensors`` are the positions of
    tensors among the inputs, and ``repeats`` holds for each the position where the same tensor
    comes first. ``structure`` is the structure of the results; None if they are a flat sequence.
    ``function`` and ``repetition`` exist if results are differentiable. ``detached`` says that
    inputs require gradients but the results have none. ``spent`` are the outputs whose history is
    used up, with the error that their derivative raises.
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
        """True if each call must pass the same tensor for the same inputs as the first call."""
        is_plain = self.repeats == (*range(len(self.repeats)),)
        return bool(self.epilogue.mutations) or not is_plain


def tensor_positions(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the tensors among some values."""
    return tuple(i for i, value in enumerate(values) if isinstance(value, torch.Tensor))


def _indices_read(program: TracedProgram) -> frozenset[int]:
    """Return the inputs on whose values differentiable outputs or gradients depend.

    Running statistics that are only written are not among them.
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
