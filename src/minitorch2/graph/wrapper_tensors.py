"""Tensors made of other tensors: ``__torch_dispatch__`` with ``__tensor_flatten__``.

    Wrapped ::= cls, (name: None for a plain inner tensor, or Wrapped)..., context, size, stride
    context ::= what the class's own `__tensor_flatten__` gives, with the parts that are no tensors

A wrapper class defines operators on its tensors by operators on the inner ones, below autograd. So
under tracing only plain tensors are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.native.torch_internals.modes import DisableTorchFunctionSubclass
from minitorch2.native.torch_internals.nested import NestedTensor


def is_wrapper(value: object) -> bool:
    """Return whether a value is a tensor made of other tensors, by the protocol of its class."""
    return isinstance(value, torch.Tensor) and is_wrapper_class(type(value))


def is_wrapper_class(cls: type) -> bool:
    """Return whether a class has the protocol that takes its tensors apart."""
    if not hasattr(cls, "__tensor_unflatten__"):
        return False
    has_dispatch = cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__  # type: ignore[attr-defined]
    return has_dispatch and hasattr(cls, "__tensor_flatten__")


class GradientRule(NamedTuple):
    """The functions of contexts by which gradients of a class are converted."""

    of_gradient: Callable[[Any], Any]
    shared: Callable[[Any], Any]


GRADIENTS: Final[dict[type, GradientRule]] = {}
"""For classes that convert their gradients: the context of a tensor's gradient, given its own, and
the part of a context that a tensor shares with its gradient."""


def ragged_dimension(tensor: Any, name: str) -> int | None:
    """Return the dimension of a part that varies with the lengths of rows; None if none does."""
    if tensor.layout is not torch.jagged or name in ("_offsets", "_lengths"):
        return None
    return int(tensor._ragged_idx) - 1 if name == "_values" else 0


def layout_of(tensor: torch.Tensor) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return size and strides; a jagged tensor has none besides those of its parts."""
    if tensor.layout is torch.jagged:
        return (), ()
    with DisableTorchFunctionSubclass():
        return tuple(tensor.size()), tuple(tensor.stride())


@dataclass(frozen=True)
class WithObjects:
    """The context of a tensor that is also made of objects, such as a mesh of devices."""

    context: Any
    objects: Mapping[str, object]


def taken_apart(tensor: Any) -> tuple[dict[str, Any], Any]:
    """Return the inner tensors by name (None: not made yet), and the context of flattening."""
    with DisableTorchFunctionSubclass():
        names, context = tensor.__tensor_flatten__()
        found = {name: getattr(tensor, name, None) for name in names}
    objects = {n: v for n, v in found.items() if v is not None and not torch.is_tensor(v)}
    parts = {n: v for n, v in found.items() if n not in objects}
    return parts, WithObjects(context, objects) if objects else context


def put_together(
    cls: Any, parts: Mapping[str, Any], context: Any, size: Any, stride: Any
) -> torch.Tensor:
    """Return the tensor that a class makes of inner tensors, and of what `taken_apart` gave."""
    if isinstance(context, WithObjects):
        parts, context = {**parts, **context.objects}, context.context
    with DisableTorchFunctionSubclass():
        made: torch.Tensor = cls.__tensor_unflatten__(parts, context, size, stride)
    return made


@dataclass(frozen=True, eq=False)
class Wrapped:
    """The structure of a tensor that is made of plain ones.

    Attributes:
        cls: its class.
        inner: for each inner tensor its name and its own structure; None for a plain one.
        context: the context that ``__tensor_flatten__`` returns.
        size: its size.
        stride: its strides.
    """

    cls: type
    inner: tuple[tuple[str, Wrapped | None], ...]
    context: Any
    size: tuple[Any, ...]
    stride: tuple[Any, ...]

    @staticmethod
    def of(tensor: torch.Tensor) -> Wrapped | None:
        """Return the structure of a tensor; None for a plain one."""
        if not is_wrapper(tensor):
            return None
        parts, context = taken_apart(tensor)
        inner = tuple((name, Wrapped.of(part)) for name, part in parts.items())
        size, stride = layout_of(tensor)
        return Wrapped(type(tensor), inner, context, size, stride)

    def made_of(self, parts: Iterator[torch.Tensor]) -> torch.Tensor:
        """Build the tensor of the plain ones in `parts`."""
        inner = {
            name: next(parts) if structure is None else structure.made_of(parts)
            for name, structure in self.inner
        }
        return put_together(self.cls, inner, self.context, torch.Size(self.size), self.stride)

    def with_sizes(self, numbers: Sequence[int]) -> Wrapped:
        """Return the same structure with another outer size and stride, given in one sequence."""
        rank = len(self.size)
        size, stride = tuple(numbers[:rank]), tuple(numbers[rank:])
        return Wrapped(self.cls, self.inner, self.context, size, stride)

    def _split(self) -> tuple[Any, Mapping[str, object]]:
        own = self.context
        return (own.context, own.objects) if isinstance(own, WithObjects) else (own, {})

    def _shared(self) -> Any:
        """Return what a tensor is made of besides tensors, and its gradient as well."""
        context, objects = self._split()
        if self.cls in GRADIENTS:
            return GRADIENTS[self.cls].shared(context), objects
        return {**context, "requires_grad": None} if isinstance(context, dict) else context, objects

    @cached_property
    def of_gradient(self) -> Wrapped:
        """The structure that a gradient is converted to."""
        if self.cls not in GRADIENTS:
            return self
        context, objects = self._split()
        context = GRADIENTS[self.cls].of_gradient(context)
        return replace(self, context=WithObjects(context, objects) if objects else context)

    def like(self, gradient: Any) -> Any:
        """Return a gradient as its class converts it to this structure, if it does."""
        if type(gradient) not in GRADIENTS or self.fits(Wrapped.of(gradient)):
            return gradient
        return gradient.__coerce_same_metadata_as_tangent__(self._split()[0])

    def carries_gradients(self, parts: Sequence[torch.Tensor]) -> list[bool]:
        """Return for each of the plain tensors whether gradients flow to it.

        PyTorch keeps the length of the longest row as the size of a part without elements.
        """
        named = zip(parts, self.names(), strict=True)
        is_ragged = self.cls is NestedTensor
        return [p.is_floating_point() and not (is_ragged and n != "_values") for p, n in named]

    def names(self) -> Iterator[str]:
        """Yield a name for each of the plain tensors."""
        for name, inner in self.inner:
            if inner is None:
                yield name
            else:
                yield from (f"{name}_{part}" for part in inner.names())

    def fits(self, other: Wrapped | None) -> bool:
        """Return whether another tensor has the same structure and context, whatever its size."""
        if other is None or self.cls is not other.cls:
            return False
        if self.cls is NestedTensor:  # it may know the length of its longest row, or not
            return bool(self.context["ragged_idx"] == other.context["ragged_idx"])
        if len(self.inner) != len(other.inner) or self._shared() != other._shared():
            return False
        return all(
            mine == theirs and (a is None) == (b is None) and (a is None or a.fits(b))
            for (mine, a), (theirs, b) in zip(self.inner, other.inner, strict=True)
        )


def plain_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the plain tensors in a tensor; for a plain one, the tensor itself."""
    if not is_wrapper(tensor):
        yield tensor
        return
    for part in taken_apart(tensor)[0].values():
        yield from plain_parts(part)


class Layout(Protocol):
    """Sizes and strides, which may be symbols."""

    @property
    def sizes(self) -> Sequence[Any]:
        """The size of each dimension."""

    @property
    def strides(self) -> Sequence[Any]:
        """The stride of each dimension."""


def with_parts(
    tensor: Any, make: Callable[[str, torch.Tensor], torch.Tensor], layout: Layout | None = None
) -> torch.Tensor:
    """Return a tensor made as `tensor` is, of other inner tensors.

    Args:
        make: gives the inner tensor of a name in the place of another one.
        layout: sizes and strides of the whole, if they are others.
    """
    parts, context = taken_apart(tensor)
    inner: Mapping[str, torch.Tensor] = {name: make(name, part) for name, part in parts.items()}
    with DisableTorchFunctionSubclass():
        size = tensor.size() if layout is None else torch.Size(layout.sizes)
        stride = tensor.stride() if layout is None else tuple(layout.strides)
    made = put_together(type(tensor), inner, context, size, stride)
    if type(made) is not type(tensor):
        cause = f"{type(tensor).__name__}.__tensor_unflatten__ gives a {type(made).__name__}"
        raise UnsupportedError(cause, code="tensor-subclass")
    return made
