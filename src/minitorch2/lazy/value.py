"""The values of a lazy program: data that is there, promises of a step, and views of either.

    value ::= data (a real tensor)
           |  promise (step, %i)              the i-th value of a step that has not run yet
           |  view (value, operator, ...)     memory of another value, seen otherwise

A write changes no value: the promise of the memory is kept by the step, which runs in the order of
the program. A view holds its base, so memory lives as long as in eager mode.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import torch

from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.native.torch_internals import modes
from minitorch2.native.torch_internals.dispatch import make_wrapper_tensor
from minitorch2.native.torch_internals.functions import PRINT_OPTIONS
from minitorch2.native.torch_internals.operators import OpOverload

Operator = OpOverload


class Ref:
    """The value of a number in a step; one object a number, so that comparison is by identity."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"%{self.index}"


_REFS: list[Ref] = []


def ref_of(index: int) -> Ref:
    """Return the reference to the value of this number."""
    try:
        return _REFS[index]
    except IndexError:
        _REFS.extend(map(Ref, range(len(_REFS), index + 1)))
        return _REFS[index]


class View(NamedTuple):
    """The operator that makes a value from its base, and the position among several results."""

    base: Value
    func: Operator
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    position: int | None

    def of(self, base: Any) -> Any:
        """Return the view of a real or fake tensor."""
        result = self.func(base, *self.args, **self.kwargs)
        return result if self.position is None else result[self.position]


class Value:
    """The data, or the promise of data, that a lazy tensor stands for.

    Attributes:
        data: the real tensor; None while it is only promised.
        view: how it is made, if it is a view.
        step: the step that promises it, or that it is an input of.
        ref: its number in that step.
        fake: its metadata for operators that are not known yet; made when it is needed.
        error: the error of the step that should have computed it.
    """

    __slots__ = ("__weakref__", "data", "error", "fake", "ref", "step", "view")

    def __init__(
        self,
        data: torch.Tensor | None = None,
        view: View | None = None,
        fake: FakeTensor | None = None,
    ) -> None:
        self.data = data
        self.view = view
        self.fake = fake
        self.step: object = None
        self.ref: Ref | None = None
        self.error: BaseException | None = None

    def shown(self) -> torch.Tensor:
        """Return the data of a value that is not pending; a view's is made of its base's.

        Raises:
            BaseException: the step that should have computed it has failed.
        """
        if self.error is not None:
            raise self.error
        if self.data is None:
            assert self.view is not None
            with torch.no_grad():
                self.data = self.view.of(self.view.base.shown())
        return self.data

    @property
    def root(self) -> Value:
        """The value whose memory this one shows."""
        value = self
        while value.view is not None:
            value = value.view.base
        return value


class Meta(NamedTuple):
    """The form of an operator's result. ``offset`` counts from the start of a view's base."""

    size: Sequence[int]
    stride: Sequence[int]
    offset: int
    dtype: torch.dtype
    device: torch.device
    fake: FakeTensor | None


Metas: TypeAlias = "tuple[Meta | None, ...]"
"""The forms of an operator's new results; a gradient that is not asked for is None."""


class LazyTensor(torch.Tensor):
    """A tensor whose operators are recorded. It has the real device, sizes and strides.

    Attributes:
        value: what it stands for.
        observe: gives the real tensor (set by `barrier.py`).
    """

    __slots__ = ("value",)
    value: Value
    observe: ClassVar[Callable[..., torch.Tensor]]

    __torch_function__ = modes.no_torch_function  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, value: Value, meta: Meta, offset: int) -> LazyTensor:
        size, stride, _, dtype, device, _ = meta
        tensor: LazyTensor = make_wrapper_tensor(
            cls, size, stride, offset, None, dtype, torch.strided, device
        )
        tensor.value = value
        return tensor

    @classmethod
    def of(cls, data: torch.Tensor) -> LazyTensor:
        """Return a lazy tensor that has this data."""
        size, stride, offset = data.size(), data.stride(), data.storage_offset()
        meta = Meta(size, stride, 0, data.dtype, data.device, None)
        return cls(Value(data), meta, int(offset))

    @staticmethod
    def __torch_dispatch__(  # type: ignore[override]
        func: Operator,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        raise NotImplementedError  # `defer.py` puts its function here: a call less per operator

    # Answers that PyTorch reads from memory, without an operator --------------------------------

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        title = "Parameter containing:\n" if isinstance(self, torch.nn.Parameter) else ""
        with _data_of(self, "repr") as data:
            try:
                node = self.grad_fn.name().rpartition("::")[2] if self.grad_fn else None
            except RuntimeError:  # a write has taken the history of this view
                node = "Invalid"
            if node is None:
                return title + repr(data.requires_grad_(self.requires_grad))
            return _with_suffix(repr(data), f"grad_fn=<{node}>")

    @property
    def data(self) -> torch.Tensor:
        """The same values without history; an assignment gives the tensor other memory."""
        return _DATA.__get__(self)  # type: ignore[no-any-return]

    @data.setter
    def data(self, new: torch.Tensor) -> None:
        given = new if type(new) is LazyTensor else new.detach()  # a region may have to write it
        given = given if type(given) is LazyTensor else LazyTensor.of(given)
        self.value = given.value
        follow(self, given)

    def __format__(self, spec: str) -> str:
        return self.item().__format__(spec) if self.dim() == 0 else object.__format__(self, spec)

    def tolist(self) -> Any:
        """Return the elements as nested lists of numbers."""
        with _data_of(self, "tolist") as data:
            return data.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Return the data as an array that shares its memory, as `torch.Tensor.numpy` does."""
        with _data_of(self, "numpy", exposes=True) as data:
            return data.requires_grad_(self.requires_grad).numpy(force=force)

    def __array__(self, dtype: Any = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        with _data_of(self, "dlpack", exposes=True) as data:
            return data.requires_grad_(self.requires_grad).__dlpack__(**options)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        with _data_of(self, "data_ptr", exposes=True) as data:
            return data.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """Return the memory of the data."""
        with _data_of(self, "untyped_storage", exposes=True) as data:
            return data.untyped_storage()

    def as_subclass(self, cls: Any) -> Any:
        """Return the data as a tensor of a subclass, which is not deferred."""
        with _data_of(self, "as_subclass", exposes=True) as data:
            return data.requires_grad_(self.requires_grad).as_subclass(cls)

    def __deepcopy__(self, memo: dict[int, Any]) -> LazyTensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment."
            )
        with _data_of(self, "deepcopy") as data:
            # A parameter's copy has memory of its own; other copies share it as the originals do.
            is_parameter = isinstance(self, torch.nn.Parameter)
            copied = LazyTensor.of(data.clone() if is_parameter else copy.deepcopy(data, memo))
        memo[id(self)] = copied.requires_grad_(self.requires_grad)
        copied._is_param = getattr(self, "_is_param", False)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        with _data_of(self, "pickle") as data:
            return data.requires_grad_(self.requires_grad).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]


def follow(tensor: LazyTensor, form: LazyTensor) -> None:
    """Give a lazy tensor the sizes, strides and dtype of another one, as ``tensor.data = form``."""
    _DATA.__set__(tensor, form)


_DATA: Final[Any] = torch.Tensor.data


@contextmanager
def _data_of(tensor: LazyTensor, cause: str, *, exposes: bool = False) -> Iterator[torch.Tensor]:
    """Give the real tensor, apart from autograd; inside the block nothing is deferred."""
    with undeferred():
        yield LazyTensor.observe(tensor, cause, exposes=exposes).detach()


@contextmanager
def undeferred() -> Iterator[None]:
    """Let operators run, inside regions as well."""
    with modes.disable_all_modes(), modes.DisableTorchFunction():
        yield


def _with_suffix(text: str, suffix: str) -> str:
    """Return a tensor's text with one more part, on a new line where PyTorch would begin one."""
    body = text.removesuffix(")")
    last = len(body) - body.rfind("\n") + 1
    width = PRINT_OPTIONS.linewidth
    between = ",\n" + " " * len("tensor(") if last + len(suffix) + 2 > width else ", "
    return f"{body}{between}{suffix})"
