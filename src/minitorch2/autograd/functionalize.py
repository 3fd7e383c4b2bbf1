"""Functionalization: programs that write to tensors, in a form without writes.

A storage is modelled by the value that it holds now; a tensor by its storage and the view
operations that lead from the storage's base tensor to it. Then

- reading a tensor whose storage was written since replays its views on the present value;
- writing a tensor makes a new value for the storage: each view has an inverse that puts the
  written part back into its base.

Laws (``v`` is a view operation, ``put_v`` its inverse)::

    v(put_v(base, part)) == part            what was written is read
    put_v(base, v(base)) == base            writing what is there changes nothing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.extensions import note_extension
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals.operators import OpOverload as Operator

aten = torch.ops.aten


class Emitter(Protocol):
    """The recorder of functional operators on nodes."""

    def emit(self, func: Operator, *args: Any, **kwargs: Any) -> Node:
        """Return the node that holds the result."""
        ...


@dataclass(frozen=True)
class ViewStep:
    """One view operation with its arguments after the tensor."""

    func: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def apply(self, tensor: torch.Tensor) -> torch.Tensor:
        """Run the view on a real tensor."""
        result: torch.Tensor = self.func(tensor, *self.args, **self.kwargs)
        return result

    def with_gradient(self) -> ViewStep:
        """Return the step of a differentiable view, which autograd may have made of a `detach`."""
        is_detached = self.func is torch.ops.aten.detach.default
        return replace(self, func=torch.ops.aten.alias.default) if is_detached else self


@dataclass(eq=False)
class Storage:
    """One memory. ``value`` is what its base tensor holds now; ``version`` counts the writes.

    ``origin`` is the base tensor's first value, which is laid out as the base tensor is. If all
    writes were to one view of it, that is ``written``, with the value that it holds.
    """

    value: Node
    version: int = 0
    input_index: int | None = None
    written: tuple[tuple[ViewStep, ...], Node] | None = None
    origin: Node = field(init=False)

    def __post_init__(self) -> None:
        self.origin = self.value

    @property
    def is_written(self) -> bool:
        """True if anything was written since the storage came into being."""
        return self.version > 0


@dataclass(eq=False)
class TensorState:
    """A tensor as a view of a storage; ``node`` held its value at ``version``."""

    storage: Storage
    node: Node
    views: tuple[ViewStep, ...] = ()
    version: int = 0

    def child(self, step: ViewStep, node: Node) -> TensorState:
        """Return the state of a view of this tensor."""
        views = _with_resolved_parts((*self.views, step))
        return TensorState(self.storage, node, views, self.storage.version)

    def read(self, emitter: Emitter) -> Node:
        """Return the node of the tensor's present value."""
        if self.version != self.storage.version:
            self.node = self.view(emitter)
            self.version = self.storage.version
        return self.node

    def view(self, emitter: Emitter) -> Node:
        """Return the node of the tensor's present value as a view of the storage's."""
        return replay(emitter, self.storage.value, self.views)[-1]

    def write(self, emitter: Emitter, value: Node) -> None:
        """Let the tensor hold ``value`` (of the tensor's own shape and dtype)."""
        bases = replay(emitter, self.storage.value, self.views[:-1]) if self.views else []
        same = self.storage.written is not None and self.storage.written[0] == self.views
        self.storage.written = (self.views, value) if same or not self.storage.version else None
        self.node = value
        for base, step in zip(reversed(bases), reversed(self.views), strict=True):
            value = _put_back(emitter, base, step, value)
        self.storage.value = value
        self.storage.version += 1
        self.version = self.storage.version


def replay(emitter: Emitter, base: Node, steps: tuple[ViewStep, ...]) -> list[Node]:
    """Return the base and the value after each step."""
    values = [base]
    for step in steps:
        values.append(_view(emitter, values[-1], step))
    return values


def _view(emitter: Emitter, base: Node, step: ViewStep) -> Node:
    func = COMPUTED_VIEWS.get(step.func, step.func)
    try:
        return emitter.emit(func, base, *step.args, **step.kwargs)
    except RuntimeError:
        # The present value may be laid out otherwise than the tensor that was first viewed.
        dense = emitter.emit(aten.clone.default, base, memory_format=torch.contiguous_format)
        return emitter.emit(func, dense, *step.args, **step.kwargs)


COMPUTED_VIEWS: Final[dict[Operator, Operator]] = {
    aten._conj.default: aten._conj_physical.default,
    aten._neg_view.default: aten.neg.default,
}
"""Views that share memory but not values, and what computes their values in the graph: a value of
a graph is never a tensor with a pending conjugation."""

ELEMENTS_CHANGE: Final = (aten.view_as_real.default, aten.view_as_complex.default, aten.view.dtype)
"""Views whose elements are others than those of their base."""


def _with_resolved_parts(views: tuple[ViewStep, ...]) -> tuple[ViewStep, ...]:
    """Replace parts of a conjugated view by views of memory.

    ``z.conj().real`` is ``z.real``, and ``z.conj().imag`` is ``-z.imag``.
    """
    if [step.func for step in views[-2:]] != [aten.view_as_real.default, aten.select.int]:
        return views
    start = len(views) - 2
    while start and views[start - 1].func not in ELEMENTS_CHANGE:
        start -= 1
    kept = [step for step in views[start:] if step.func is not aten._conj.default]
    is_negated = views[-1].args[1] == 1 and (len(views) - start - len(kept)) % 2
    negation = (ViewStep(aten._neg_view.default, (), {}),) if is_negated else ()
    return (*views[:start], *kept, *negation)


Inverse = Callable[..., Node]
INVERSES: Final[dict[Operator, Inverse]] = {}


def inverse_of(*funcs: Operator) -> Callable[[Inverse], Inverse]:
    """Register ``put(emitter, base, part, *view_args, **view_kwargs) -> new base`` for view
    operators.
    """

    def register(function: Inverse) -> Inverse:
        note_extension(function)
        INVERSES.update(dict.fromkeys(funcs, function))
        return function

    return register


def _put_back(emitter: Emitter, base: Node, step: ViewStep, part: Node) -> Node:
    inverse = INVERSES.get(step.func)
    if inverse is None:
        raise UnsupportedError(f"a write through {step.func} cannot be told without a write")
    return inverse(emitter, base, part, *step.args, **step.kwargs)


def _size(node: Node) -> list[Any]:
    return list(node.meta["val"].shape)


@inverse_of(aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.view_as.default)
def _put_alias(emitter: Emitter, base: Node, part: Node, *args: Any) -> Node:
    return part


@inverse_of(
    aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.dim,
    aten.squeeze.default, aten.squeeze.dims, aten._reshape_alias.default,
)  # fmt: skip
def _put_view(emitter: Emitter, base: Node, part: Node, *args: Any) -> Node:
    return emitter.emit(aten.reshape.default, part, _size(base))


@inverse_of(aten.permute.default)
def _put_permute(emitter: Emitter, base: Node, part: Node, dims: list[int]) -> Node:
    rank = len(dims)
    inverse = sorted(range(rank), key=lambda i: dims[i] % rank)
    return emitter.emit(aten.permute.default, part, inverse)


@inverse_of(aten.t.default, aten.transpose.int)
def _put_transpose(emitter: Emitter, base: Node, part: Node, *dims: int) -> Node:
    if len(_size(part)) < 2:
        return part
    return emitter.emit(aten.transpose.int, part, *(dims or (0, 1)))


@inverse_of(aten.select.int)
def _put_select(emitter: Emitter, base: Node, part: Node, dim: int, index: Any) -> Node:
    return emitter.emit(aten.select_scatter.default, base, part, dim, index)


@inverse_of(aten.slice.Tensor)
def _put_slice(emitter: Emitter, base: Node, part: Node, *args: Any) -> Node:
    if _size(part) == _size(base):
        return part
    return emitter.emit(aten.slice_scatter.default, base, part, *args)


@inverse_of(aten.diagonal.default)
def _put_diagonal(emitter: Emitter, base: Node, part: Node, *args: Any) -> Node:
    return emitter.emit(aten.diagonal_scatter.default, base, part, *args)


@inverse_of(aten.as_strided.default)
def _put_as_strided(emitter: Emitter, base: Node, part: Node, *args: Any) -> Node:
    value = base.meta["val"]
    size, stride, *offset = args
    if list(size) == list(value.shape) and list(stride) == list(value.stride()):
        return part
    if overlaps_itself(size, stride):
        raise UnsupportedError("the program writes to windows that overlap")
    return emitter.emit(aten.as_strided_scatter.default, base, part, size, stride, *offset)


def overlaps_itself(size: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Return whether elements may share memory: a stride is less than the extent of the smaller."""
    covered = 1
    for step, count in sorted(zip(stride, size, strict=True)):
        if count != 1 and step < covered:
            return True
        covered += step * (count - 1)
    return False


@inverse_of(aten.unfold.default)
def _put_unfold(
    emitter: Emitter, base: Node, part: Node, dimension: int, size: int, step: int
) -> Node:
    # Windows that do not overlap are slices of the dimension, cut into pieces.
    if step < size:
        raise UnsupportedError("the program writes to windows that overlap")
    for index in range(part.meta["val"].shape[-1]):
        column = emitter.emit(aten.select.int, part, -1, index)
        whole = _size(column)[dimension]
        end = index + (whole - 1) * step + 1
        base = emitter.emit(aten.slice_scatter.default, base, column, dimension, index, end, step)
    return base


@inverse_of(aten.view_as_real.default)
def _put_real_pairs(emitter: Emitter, base: Node, part: Node) -> Node:
    return emitter.emit(aten.view_as_complex.default, part)


@inverse_of(aten.view_as_complex.default)
def _put_complex(emitter: Emitter, base: Node, part: Node) -> Node:
    return emitter.emit(aten.view_as_real.default, part)


@inverse_of(aten._conj.default, aten._neg_view.default)
def _put_involution(emitter: Emitter, base: Node, part: Node) -> Node:
    wide = part.meta["val"].is_complex()
    return emitter.emit(aten._conj_physical.default if wide else aten.neg.default, part)


@inverse_of(aten.view.dtype)
def _put_dtype(emitter: Emitter, base: Node, part: Node, dtype: torch.dtype) -> Node:
    return emitter.emit(aten.view.dtype, part, base.meta["val"].dtype)


@inverse_of(aten.expand.default)
def _put_expand(emitter: Emitter, base: Node, part: Node, *args: Any, **kwargs: Any) -> Node:
    # Eager refuses to write where one memory cell stands for several elements.
    if part.meta["val"].numel() != base.meta["val"].numel():
        raise UnsupportedError("the program writes to an expanded tensor")
    return emitter.emit(aten.reshape.default, part, _size(base))


@dataclass
class Constants:
    """Real tensors that a traced program reads, by identity, with the names they get.

    `alive` keeps them: the next tensor could get the identity of a temporary that was freed.
    """

    nodes: dict[int, Node] = field(default_factory=dict)
    tensors: dict[str, object] = field(default_factory=dict)
    alive: list[object] = field(default_factory=list)
