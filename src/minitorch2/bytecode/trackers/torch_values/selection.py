"""The builtins `min` and `max` of tensors with one element.

Python compares two tensors and takes one of the objects; a graph takes the values of one::

    max(a, b)    -->    torch.where(b > a, b, a)

That is the same as long as the program cannot tell the result from the object that was taken: by
writing to either, or by having both afterwards. If it can, the frame is captured again, and the
graph breaks at the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.graph.fake_tensor import storage_key
from minitorch2.graph.history import ends_of_history


class SelectionEscapesError(Exception):
    """The program can tell a selected tensor from the one that Python would have taken."""


@dataclass
class Selection:
    """A tensor that a graph has selected by its value.

    Attributes:
        result: the tensor with the values of one of two.
        storages: the memory of the two, and of the result.
    """

    result: TensorVariable
    storages: frozenset[int]

    def is_seen(self, capture: Capture, residual: Residual) -> bool:
        """Return whether the program can tell the result from the tensor that was taken.

        It can if it writes to one of the three, or has the result and one of the two.
        """
        nodes = [*residual.outputs] if residual.is_named(self.result) else []
        fakes = [node.meta["val"] for node in nodes if node is not self.result.node]
        shown = {storage_key(fake) for fake in fakes if isinstance(fake, torch.Tensor)}
        return not self.storages.isdisjoint(shown | capture.written)


def select(
    evaluator: Evaluator, condition: VariableTracker, a: VariableTracker, b: VariableTracker
) -> TensorVariable | None:
    """``a if condition else b`` for tensors of one element; None if the choice must be known."""
    if not isinstance(condition, TensorVariable) or not evaluator.capture.frame.selects:
        return None
    if not isinstance(a, TensorVariable) or not isinstance(b, TensorVariable):
        return None
    capture = evaluator.capture
    inputs = {storage_key(entry.tracker.fake) for entry in capture.inputs
              if isinstance(entry.tracker, TensorVariable)}  # fmt: skip
    storages = frozenset(storage_key(each.fake) for each in (a, b))
    if not _are_alike(a, b) or not storages.isdisjoint(inputs):
        return None
    where = [condition, a, b]
    result = capture.call_in_graph(evaluator, "call_function", torch.where, where)
    assert isinstance(result, TensorVariable)
    storages |= {storage_key(result.fake)}
    capture.selections.append(Selection(result, storages))
    return result


def _are_alike(a: TensorVariable, b: TensorVariable) -> bool:
    """Return whether a selected tensor has the form, and the gradients, of either."""
    forms = {(t.cls, t.fake.dtype, t.fake.device, t.fake.ndim, t.leaf_grad) for t in (a, b)}
    leaves = [{id(leaf) for leaf in ends_of_history([each.fake])} for each in (a, b)]
    return len(forms) == 1 and a.fake.ndim == 0 and a.leaf_grad is None and leaves[0] == leaves[1]


def better(
    evaluator: Evaluator,
    symbol: str,
    candidates: Sequence[VariableTracker],
    ranks: Sequence[VariableTracker],
) -> tuple[VariableTracker, VariableTracker]:
    """Return the better candidate and its rank: the first, unless the second is better."""
    found = operations.compare(evaluator, symbol, ranks[1], ranks[0])
    chosen = select(evaluator, found, candidates[1], candidates[0])
    if chosen is not None:
        if ranks[0] is candidates[0] and ranks[1] is candidates[1]:
            return chosen, chosen
        rank = select(evaluator, found, ranks[1], ranks[0])
        if rank is not None:
            return chosen, rank
    place = int(operations.truth(evaluator, found))
    return candidates[place], ranks[place]


def check_selections(capture: Capture, residual: Residual) -> None:
    """Check that the program cannot tell a selected tensor from the one that it is a copy of.

    Raises:
        SelectionEscapesError: it can.
    """
    if any(each.is_seen(capture, residual) for each in capture.selections):
        raise SelectionEscapesError
