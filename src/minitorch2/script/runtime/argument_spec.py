"""The properties of inputs that a plan is made for: those of tensors without sizes, and the mode.

Each tensor has a dtype, a rank and a device, requires a gradient or not, and may be missing. The
elements of tuples count, too. The grad mode is the other property (TorchScript overview,
"Specialization").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from minitorch2.graph.symbols.admission import function_of
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.types import OptionalType, TensorType, TupleType, Type

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class TensorSpec:
    """The properties of a tensor that plans depend on; all are None where there is none."""

    dtype: torch.dtype | None
    rank: int | None
    device: torch.device | None
    requires_grad: bool | None

    @property
    def type(self) -> TensorType:
        """Return the type of tensors like this."""
        assert self.rank is not None
        return TensorType(self.dtype, self.device, self.requires_grad, (None,) * self.rank)


@dataclass(frozen=True)
class ArgumentSpec:
    """The key of a plan.

    Attributes:
        grad_enabled: the grad mode.
        tensors: each tensor among the inputs, and in tuples of them, in order.
    """

    grad_enabled: bool
    tensors: tuple[TensorSpec, ...]

    @classmethod
    def of_key(cls, key: Key) -> ArgumentSpec:
        """Return the spec that a function of `key_function` gave as a flat tuple."""
        parts = [TensorSpec(*key[k : k + 4]) for k in range(1, len(key), 4)]
        return cls(key[0], tuple(parts))

    @property
    def needs_gradient(self) -> bool:
        """Tell whether a gradient may be asked for."""
        return self.grad_enabled and any(tensor.requires_grad for tensor in self.tensors)


def key_function(graph: Graph) -> Callable[..., Key]:
    """Return a function of a graph's inputs that gives the key of their plan, as a flat tuple."""
    names = [f"x{k}" for k in range(len(graph.inputs))]
    parts = ["grad()"]
    for name, value in zip(names, graph.inputs, strict=True):
        for place, kind in tensors_in(name, value.type):
            facts = [f"{place}.{fact}" for fact in ("dtype", "dim()", "device", "requires_grad")]
            is_certain = isinstance(kind, TensorType)
            parts += (
                facts if is_certain else [f"{f} if {place} is not None else None" for f in facts]
            )
    return function_of(names, f"({', '.join(parts)},)", {"grad": torch.is_grad_enabled})


def tensors_in(place: str, kind: Type) -> Iterator[tuple[str, Type]]:
    """Yield where the tensors of an input are, as Python text, and their types."""
    if isinstance(kind, TensorType) or (
        isinstance(kind, OptionalType) and isinstance(kind.element, TensorType)
    ):
        yield place, kind
    elif isinstance(kind, TupleType):
        for position, element in enumerate(kind.elements):
            yield from tensors_in(f"{place}[{position}]", element)


def specialize_inputs(graph: Graph, spec: ArgumentSpec) -> None:
    """Give the inputs of a graph, which is the plan's own, the types of a spec."""
    tensors = iter(spec.tensors)
    for value in graph.inputs:
        found = [next(tensors) for _ in tensors_in("x", value.type)]
        if isinstance(value.type, TensorType):
            value.type = found[0].type
