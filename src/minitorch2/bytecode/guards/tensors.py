"""Guards on tensors: the eight checks of the slides' TENSOR_MATCH."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.bytecode.guards.guard import Check, SourceGuard
from minitorch2.graph.wrapper_tensors import taken_apart
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.modes import DisableTorchFunction
from minitorch2.native.torch_internals.tensor_metadata import TensorMetadata


@dataclass(frozen=True)
class TensorMatch(SourceGuard):
    """A tensor like the one seen while capturing (slides: TENSOR_MATCH, eight checks).

    The machine compares all but the class in place, as `tensor_layout` says. Static sizes imply the
    number of dimensions, and the dispatch keys the type of device.
    """

    KIND = "TENSOR_MATCH"
    metadata: TensorMetadata

    def checks(self) -> Iterable[Check]:
        m = self.metadata
        yield Check("class", Op.CLASS, m.cls)
        yield Check("dtype", Op.WORDS, m.dtype, "dtype")
        yield Check("device", Op.WORDS, m.device, "device")
        yield Check("requires_grad", Op.WORDS, m.requires_grad, "requires_grad")
        if None in m.sizes:
            yield Check("ndim", Op.WORDS, len(m.sizes), "ndim")
            for d, n in enumerate(m.sizes):
                if n is not None:
                    yield Check(f"size of dimension {d}", Op.WORDS, n, d)
        else:
            yield Check("sizes", Op.WORDS, m.sizes, "shape")
        if m.strides is not None:
            yield Check("strides", Op.WORDS, m.strides, "stride")
        yield Check("dispatch keys", Op.WORDS, m.dispatch_keys, "dispatch_keys")


@dataclass(frozen=True, eq=False)
class WrapperMatch(SourceGuard):
    """A tensor of a class with ``__tensor_flatten__`` that is made as the one seen.

    Attributes:
        names: the names of the inner tensors, which have guards of their own.
        context: the other half of the result of ``__tensor_flatten__``.
        metadata: the metadata of the tensor itself. A size of None may vary.
    """

    KIND = "TENSOR_SUBCLASS"
    names: tuple[str, ...]
    context: object
    metadata: TensorMetadata

    def checks(self) -> Iterable[Check]:
        m = self.metadata
        known = self.names, self.context, m.dtype, m.requires_grad, m.sizes, m.strides
        return (Check("making", Op.PYTHON, known, (made_of, m.sizes, m.strides)),)


def made_of(
    tensor: torch.Tensor, sizes: tuple[int | None, ...], strides: tuple[int | None, ...] | None
) -> tuple[Any, ...]:
    """Return the values that `WrapperMatch` compares, read past the class's overrides.

    A size or stride is None in the result where `sizes` or `strides` says that it may vary.
    """
    parts, context = taken_apart(tensor)
    with DisableTorchFunction():
        shape: tuple[int | None, ...] = tuple(tensor.shape)
        if len(shape) == len(sizes):
            shape = tuple(n if known is not None else None for n, known in zip(shape, sizes))
        strided = None if strides is None else tuple(tensor.stride())
        return tuple(parts), context, tensor.dtype, tensor.requires_grad, shape, strided
