"""Guards on tensors: the eight checks of the slides' TENSOR_MATCH."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.bytecode.guards.guard import Check, Name, SourceGuard, Test
from minitorch2.graph.wrapper_tensors import taken_apart
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.dispatch import dispatch_keys
from minitorch2.native.torch_internals.modes import DisableTorchFunction
from minitorch2.native.torch_internals.tensor_layout import tensor_layout
from minitorch2.native.torch_internals.tensor_metadata import TensorMetadata


@dataclass(frozen=True)
class TensorMatch(SourceGuard):
    """A tensor like the one seen while capturing (slides: TENSOR_MATCH, eight checks).

    The machine compares all but the class in place, as `tensor_layout` says; the dispatch keys tell
    the type of device. Python asks the tensor, the cheapest checks first. Static sizes imply the
    number of dimensions, and the dispatch keys of a CPU tensor its device.
    """

    KIND = "TENSOR_MATCH"
    metadata: TensorMetadata

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        m = self.metadata
        kind = f"{name(type)}({path})"
        yield Check("class", f"{kind} is {name(m.cls)}", kind, str(m.cls))
        yield Check("dtype", f"{path}.dtype is {name(m.dtype)}", f"{path}.dtype", str(m.dtype))
        yield _device_check(path, m.device, name)
        yield _requires_grad_check(path, m.requires_grad)
        yield from _size_checks(path, m, name)
        keys = f"{name(dispatch_keys)}({path}).raw_repr()"
        expected = f"{keys} == {m.dispatch_keys}"
        yield Check("dispatch keys", expected, keys, str(m.dispatch_keys))

    def tests(self) -> Sequence[Test] | None:
        layout = tensor_layout()
        table = None if layout is None else layout.table(self.metadata)
        if table is None:
            return None
        return Test(Op.CLASS, self.metadata.cls), Test(Op.WORDS, table)


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

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        m = self.metadata
        expected = self.names, self.context, m.dtype, m.requires_grad, m.sizes, m.strides
        asked = f"{name(made_of)}({path})"
        condition = f"{name(is_made_like)}({asked}, {name(expected)})"
        yield Check("making", condition, asked, str(expected))


def made_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the values that `WrapperMatch` compares, read past the class's overrides."""
    parts, context = taken_apart(tensor)
    with DisableTorchFunction():
        metadata = tensor.dtype, tensor.requires_grad, tuple(tensor.shape), tuple(tensor.stride())
    return tuple(parts), context, *metadata


def is_made_like(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether two results of `made_of` agree; a size or stride of None may vary."""
    *kind, sizes, strides = found
    *wanted, known_sizes, known_strides = expected
    return (
        kind == wanted
        and len(sizes) == len(known_sizes)
        and all(b in (None, a) for a, b in zip(sizes, known_sizes, strict=True))
        and known_strides in (None, strides)
    )


def _device_check(path: str, device: torch.device, name: Name) -> Check:
    fast = f"{path}.is_cpu" if device.type == "cpu" else f"{path}.device == {name(device)}"
    return Check("device", fast, f"{path}.device", str(device))


def _requires_grad_check(path: str, expected: bool) -> Check:
    condition = f"{path}.requires_grad" if expected else f"not {path}.requires_grad"
    return Check("requires_grad", condition, f"{path}.requires_grad", str(expected))


def _size_checks(path: str, m: TensorMetadata, name: Name) -> Iterator[Check]:
    if None in m.sizes:
        yield Check("ndim", f"{path}.ndim == {len(m.sizes)}", f"{path}.ndim", str(len(m.sizes)))
        for d, n in enumerate(m.sizes):
            if n is not None:
                size = f"{path}.shape[{d}]"
                yield Check(f"size of dimension {d}", f"{size} == {n}", size, str(n))
    else:
        yield Check("sizes", f"{path}.shape == {name(m.sizes)}", f"{path}.shape", str(m.sizes))
    if m.strides is not None:
        actual = f"{path}.stride()"
        yield Check("strides", f"{actual} == {name(m.strides)}", actual, str(m.strides))
