"""The epilogue of a compiled graph: the runtime writes back mutations and makes aliases again.

The compiled graph is functional. A program must keep PyTorch's own semantics of views and mutation
(paper, section 4.1). So one of these small values describes each of the caller's results, and
:class:`Epilogue` turns the graph's outputs into the program's results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import torch

from minitorch2.autograd.functionalize import ViewStep
from minitorch2.native.torch_internals.gradients import call_in_grad_mode
from minitorch2.native.torch_internals.pytree import tree_leaves, tree_map


@dataclass(frozen=True)
class Computed:
    """The graph's output number ``index``."""

    index: int


@dataclass(frozen=True)
class _ViewResult:
    """``cut`` says that the view was taken under ``no_grad``: it may require grad nevertheless."""

    index: int
    views: tuple[ViewStep, ...]
    detached: bool
    cut: bool = False


@dataclass(frozen=True)
class InputView(_ViewResult):
    """A view of input ``index``; without steps, the input itself."""


@dataclass(frozen=True)
class OutputView(_ViewResult):
    """A view of the graph's output ``index``, which other results view too."""


@dataclass(frozen=True)
class OutputNumber:
    """In the arguments of a view: the size that is the graph's output ``index``."""

    index: int


@dataclass(frozen=True)
class Constant:
    """A value known at compile time: a number, None, or a tensor that the program holds."""

    value: Any


Result: TypeAlias = Computed | InputView | OutputView | Constant


@dataclass(frozen=True)
class Mutation:
    """A view of input ``input_index`` must hold the graph's output ``output_index`` afterwards.

    ``differentiable``: the write is part of the caller's autograd history.
    """

    input_index: int
    output_index: int
    differentiable: bool
    views: tuple[ViewStep, ...] = ()


@dataclass(frozen=True)
class Epilogue:
    """The program's mutations, in order, and its results."""

    mutations: tuple[Mutation, ...]
    results: tuple[Result, ...]

    def is_trivial(self, number_of_outputs: int) -> bool:
        """Return whether the graph's outputs are the program's results unchanged."""
        plain = tuple(Computed(index) for index in range(number_of_outputs))
        return not self.mutations and self.results == plain

    @cached_property
    def _whole_writes(self) -> list[tuple[int, int]]:
        """(input, output) of the writes to all of an input, without history."""
        whole = (m for m in self.mutations if not (m.views or m.differentiable))
        return [(m.input_index, m.output_index) for m in whole]

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Return the program's results. Runs in the caller's grad mode."""
        computed_there = [inputs[i] for i, o in self._whole_writes if inputs[i] is outputs[o]]
        torch.autograd.graph.increment_version(_counting_writes(computed_there))
        left = len(self.mutations) - len(computed_there)
        if left and not (left > 1 and self._copy_at_once(inputs, outputs)):
            self._copy_in_turn(inputs, outputs)
        return [_make(result, inputs, outputs) for result in self.results]

    def write(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Perform the writes without autograd history, before the program is done."""
        call_in_grad_mode(False, self._copy_in_turn, inputs, outputs, differentiable=False)

    def _copy_at_once(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
        """Copy all values with one launch for each dtype, if the values are new.

        Then no copy reads memory that another copy writes.
        """
        if len(self._whole_writes) < len(self.mutations):
            return False
        pairs = [(inputs[i], outputs[o]) for i, o in self._whole_writes]
        pairs = [(target, value) for target, value in pairs if target is not value]
        given = set(map(id, inputs))
        if any(value._base is not None or id(value) in given for _, value in pairs):
            return False
        groups: dict[torch.dtype, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for target, value in pairs:
            groups.setdefault(target.dtype, []).append((target, value))
        for group in groups.values():
            call_in_grad_mode(False, torch._foreach_copy_, *zip(*group, strict=True))
        return True

    def _copy_in_turn(
        self, inputs: Sequence[Any], outputs: Sequence[Any], differentiable: bool = True
    ) -> None:
        for mutation in self.mutations:
            target = _seen(inputs[mutation.input_index], mutation.views, outputs)
            value = outputs[mutation.output_index]
            if value is not target and (differentiable or not mutation.differentiable):
                mode = mutation.differentiable and torch.is_grad_enabled()
                call_in_grad_mode(mode, target.copy_, value)


def _counting_writes(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors that have a version counter, which inference tensors have not."""
    if not torch.is_inference_mode_enabled():
        return tensors
    return [tensor for tensor in tensors if not tensor.is_inference()]


def _filled(step: ViewStep, outputs: Sequence[Any]) -> ViewStep:
    """Return the view with the sizes that the graph has computed."""
    if not any(isinstance(leaf, OutputNumber) for leaf in tree_leaves((step.args, step.kwargs))):
        return step

    def number(leaf: Any) -> Any:
        return outputs[leaf.index] if isinstance(leaf, OutputNumber) else leaf

    return ViewStep(step.func, tree_map(number, step.args), tree_map(number, step.kwargs))


def _seen(tensor: torch.Tensor, views: Sequence[ViewStep], outputs: Sequence[Any]) -> torch.Tensor:
    for step in views:
        tensor = _filled(step, outputs).apply(tensor)
    return tensor


def _make(result: Result, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    if isinstance(result, Computed):
        return outputs[result.index]
    if isinstance(result, Constant):
        return result.value
    base = (outputs if isinstance(result, OutputView) else inputs)[result.index]
    seen = partial(call_in_grad_mode, False, _seen) if result.cut else _seen
    tensor = seen(base, result.views, outputs)
    # A view taken under no_grad, or detached, must not bring the base's history with it.
    return (
        tensor.detach()
        if result.detached and tensor.requires_grad and tensor is not base
        else tensor
    )
