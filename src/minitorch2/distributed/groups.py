"""The facts of process groups that graphs hold: a name, a size, this process's number.

Capture reads them off the group, and guards that the next call is given the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from minitorch2.bytecode.building.guarding import identity_guards
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable
from minitorch2.native.torch_internals.collectives import name_of_group, size_of_group


def name_of(group: Any, tag: str = "") -> str:
    """Return the name of a group, given as such, as ranks, or as a mesh and a dimension."""
    return str(name_of_group(group, tag))


def size_of(group: Any, tag: str = "") -> int:
    """Return the number of processes of a group."""
    return int(size_of_group(name_of_group(group, tag)))


def rank_of(group: Any) -> int:
    """Return the number of this process in a group; -1 if it is not in it."""
    return dist.get_rank(group)


def rank_in(group: Any, rank: int) -> int:
    """Return the number in a group of a process of the job."""
    return dist.get_group_rank(group, rank)


_FIX = "call torch.distributed.init_process_group before, and pass a group made outside"


def read_while_capturing(function: Callable[..., Any]) -> None:
    """Let capture call a function of a group, whose result is a constant of the graph."""

    @models(function)
    def call(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
        values = [known_outside(evaluator, arg) for arg in args]
        if values[0] is None:
            unsupported("constant-result-argument", "a collective has no process group", _FIX)
        return ConstantVariable(function(*values))


for _function in (name_of, size_of, rank_of, rank_in):
    read_while_capturing(_function)


def known_outside(evaluator: Evaluator, tracker: VariableTracker) -> Any:
    """Return a constant, or an object from outside; a guard says that it is the same again."""
    if tracker.is_constant():
        return tracker.as_constant()
    if isinstance(tracker, SequenceVariable):
        return tuple(known_outside(evaluator, item) for item in tracker.items(evaluator))
    value = getattr(tracker, "value", None)
    if value is None:
        unsupported(
            "constant-result-argument",
            f"a collective is given {tracker}",
            _FIX,
        )
    if tracker.source is not None:
        identity_guards(evaluator.capture, value, tracker.source)
    return value
