"""Context managers of PyTorch whose effect no graph can express.

Examples are hooks on saved tensors and profilers. The graph breaks
where one is entered and where it is left, both done by Python. The body is captured under it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import torch

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE

OUTSIDE_CONTEXTS: Final[tuple[type, ...]] = (
    torch.autograd.graph.saved_tensors_hooks,
    torch.autograd.graph.save_on_cpu,
    torch.autograd.profiler.profile,
    torch.profiler.profile,
)
"""Classes of contexts that change what operators or autograd do."""


class OutsideContextVariable(VariableTracker):
    """A context manager outside of graphs, made here (then with `args`) or from outside."""

    knows_methods_by_name = True

    def __init__(
        self, cls: type, args: Arguments = (), kwargs: Keywords | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.cls, self.args, self.kwargs = cls, args, kwargs or {}

    def python_type(self) -> type:
        return self.cls

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("__enter__", "__exit__", "__call__", "_recreate_cm"):
            return GetAttrVariable(self, name)
        return super().get_attribute(evaluator, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        name = self.cls.__qualname__
        return unsupported("torch-context", f"{name} acts on more than a graph can express")

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return self.call_method(evaluator, "__call__", args, kwargs)

    def rebuild(self, residual: Residual) -> str:
        parts = residual.arguments(self.args, self.kwargs)
        return residual.bind(f"{residual.reference(self.cls)}({parts})", "context")


def _constructor(cls: type, kind: type[OutsideContextVariable]) -> None:
    @constructs(cls)
    def make(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        return kind(cls, args, kwargs)


for _cls in OUTSIDE_CONTEXTS:
    _constructor(_cls, OutsideContextVariable)


class NoContextVariable(OutsideContextVariable):
    """A context that leaves the meaning of its body alone: a profiler's name, which is dropped."""

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in ("__enter__", "_recreate_cm"):
            return self
        if name == "__exit__":
            return NONE
        if name == "__call__":
            return args[0]
        return super().call_method(evaluator, name, args, kwargs)

    def reconstruct(self, residual: Residual) -> str:
        """Return a null context: the rest of the block does nothing behind a break, either."""
        return residual.bind(f"{residual.reference(contextlib.nullcontext)}()", "context")


_constructor(torch.autograd.profiler.record_function, NoContextVariable)
