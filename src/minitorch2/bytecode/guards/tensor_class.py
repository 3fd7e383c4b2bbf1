"""The class of tensors: a program may replace its methods after a function has been captured.

Only behind a change of the class's version, all attributes are compared with those that PyTorch has
made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from torch import nn

from minitorch2.bytecode.guards.class_version import is_special
from minitorch2.bytecode.guards.guard import Check, Guard
from minitorch2.bytecode.guards.values import keep
from minitorch2.errors import UnsupportedError
from minitorch2.native.cpython.class_versions import NEVER, SeenClass, unseen, version_of
from minitorch2.native.cpython.guard_machine import Op

Replaced: TypeAlias = tuple[tuple[type, str, object], ...]
"""Classes, names of attributes and their values; a class stands for its missing attribute."""

_CLASSES: Final[tuple[type, type]] = (nn.Parameter, type(nn.Parameter))
"""Changes of `torch.Tensor` change the version of the first, those of its metaclass the second."""


def _attributes() -> dict[tuple[type, str], object]:
    order = [base for cls in _CLASSES for base in type.mro(cls) if base not in (object, type)]
    return {(cls, name): value for cls in order for name, value in vars(cls).items()}


_MADE: Final = _attributes()
_NAMES: Final = {name for _, name in _MADE}


def _compare() -> Replaced:
    now = _attributes()
    places = [place for place in {**_MADE, **now} if _MADE.get(place) is not now.get(place)]
    return tuple(
        (cls, name, now.get((cls, name), cls))
        for cls, name in places
        if name in _NAMES or is_special(name, now[cls, name])
    )


_SEEN: Final = [SeenClass(keep(cls).get, unseen()) for cls in _CLASSES]
"""The classes with the versions at which they were seen to be PyTorch's own, if they were."""


def replaced_attributes() -> Replaced:
    """Return what a program has made of the attributes that PyTorch gives `torch.Tensor`.

    New attributes are among them if their names are special. Guards ask.
    """
    if all(cls.is_unchanged() for cls in _SEEN):
        return ()
    versions = [version_of(cls) for cls in _CLASSES]
    replaced = _compare()
    for cls, version in zip(_SEEN, versions, strict=True):
        cls.seen.value = NEVER if replaced or not version else version
    return replaced


def replaced_names() -> frozenset[str]:
    """Return the names of `replaced_attributes`."""
    return frozenset(name for _, name, _ in replaced_attributes())


_READ_BY_COMPILERS: Final = {
    "shape", "size", "stride", "dim", "ndim", "ndimension", "numel", "nelement", "dtype", "device",
    "layout", "requires_grad", "element_size", "itemsize", "nbytes", "storage_offset", "data_ptr",
    "storage", "untyped_storage", "is_contiguous", "is_sparse", "is_nested", "is_floating_point",
    "is_complex", "is_conj", "is_neg", "_is_view", "_base", "_version", "as_strided", "detach",
    "__torch_function__", "__torch_dispatch__",
}  # fmt: skip


def forbid_disguised_tensors() -> None:
    """Raise UnsupportedError while a program has replaced an attribute that compilers read."""
    for name in sorted(replaced_names() & _READ_BY_COMPILERS):
        raise UnsupportedError(
            f"the program has replaced Tensor.{name}, which says to compilers how a tensor lies",
            code="tensor-attribute",
            fix="put PyTorch's own attribute back before the function is compiled",
        )


@dataclass(frozen=True)
class TensorClass(Guard):
    """The attributes of `torch.Tensor` that are not PyTorch's own are these."""

    KIND = "TENSOR_CLASS"
    replaced: Replaced

    def checks(self) -> Iterable[Check]:
        for cls in [None] if self.replaced else _SEEN:
            yield Check("class of tensors", Op.STATE, self.replaced, replaced_attributes, cls)
