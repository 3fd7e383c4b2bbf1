"""The tensor that a traced function sees: data, and the value of the graph that stands for it.

Operators reach the recorder below autograd, and so do questions about sizes and strides. The
methods here answer what PyTorch would read from memory, or from the tensor's own fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol

import torch

from minitorch2.errors import TraceError
from minitorch2.native.torch_internals.dispatch import DisableTorchDispatch, make_wrapper_tensor
from minitorch2.native.torch_internals.modes import disable_all_modes, no_torch_function
from minitorch2.native.torch_internals.operators import OpOverload
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.python_constants import PythonConstants


class Recording(Protocol):
    """A recorder, as a traced tensor sees it; `recorder.py` has the class.

    Attributes:
        constants: what scripted functions that the traced one calls have read of Python objects.
    """

    constants: PythonConstants

    def record(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator on the data, and put it into the graph."""

    def call(self, function: Any, arguments: Sequence[Any], run: Callable[..., Any]) -> Any:
        """Record the call of a scripted function."""

    def observe_flag(self, tensor: TracedTensor, name: str) -> bool:
        """Return a tensor's flag, and let the graph check it."""

    def observe_data(self, tensor: TracedTensor) -> torch.Tensor:
        """Return a copy of the data, and let the graph check them."""

    def refuse(self, cause: str, fix: str) -> TraceError:
        """Return the error of a function that cannot be traced."""


RECORDING: Final[ContextVar[Recording | None]] = ContextVar("RECORDING", default=None)
"""The recorder of this thread; None where nothing is traced."""


def recording() -> Recording:
    """Return the recorder of this thread.

    Raises:
        TraceError: the trace has ended.
    """
    recorder = RECORDING.get()
    if recorder is None:
        raise TraceError(
            "a tensor of a trace is used after the trace has ended",
            code="trace-ended",
            fix="return the tensor from the traced function",
        )
    return recorder


class TracedTensor(torch.Tensor):
    """A tensor of a trace.

    Attributes:
        data_now: the data in this trace, with its autograd history.
        value: what stands for the tensor in the graph.
        source: the tensor's name in messages.
        rank_varies: sizes of the inputs decide how many dimensions it has.
    """

    data_now: torch.Tensor
    value: Value
    source: str
    rank_varies: bool

    __torch_function__ = no_torch_function  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls, data: torch.Tensor, value: Value, source: str = "", rank_varies: bool = False
    ) -> TracedTensor:
        """Wrap data, and the value that stands for it."""
        with DisableTorchDispatch():
            size, stride = data.size(), data.stride()
        traced: TracedTensor = make_wrapper_tensor(
            cls,
            size,
            strides=stride,
            dtype=data.dtype,
            device=data.device,
            dispatch_sizes_strides_policy="sizes",
        )
        traced.data_now, traced.value, traced.source = data, value, source
        traced.rank_varies = rank_varies
        return traced

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return recording().record(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"TracedTensor({list(self.data_now.shape)}, {self.dtype})"

    # What PyTorch would read from the tensor's own fields ------------------------------------

    @property
    def data(self) -> torch.Tensor:
        """The same values without history."""
        return self.detach()

    @data.setter
    def data(self, new: torch.Tensor) -> None:
        raise recording().refuse("`.data` is assigned to a tensor", "copy with `copy_` instead")

    @property
    def requires_grad(self) -> bool:
        """True if gradients of the tensor are computed: checked at each call."""
        return bool(recording().observe_flag(self, "requires_grad"))

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    @property
    def is_leaf(self) -> bool:  # type: ignore[override]
        """True if no operator with gradients made the tensor."""
        return self.data_now.is_leaf

    @property
    def grad_fn(self) -> Any:  # type: ignore[override]
        """The node of the data's autograd graph that made the tensor."""
        return self.data_now.grad_fn

    @property
    def grad(self) -> None:  # type: ignore[override]
        """None: a trace has no backward pass."""
        return

    def requires_grad_(self, requires_grad: bool = True) -> TracedTensor:
        """Let autograd record operators of the tensor, in each call."""
        operator = torch.ops.aten.requires_grad_.default
        recording().record(operator, (self, requires_grad), {})
        return self

    def backward(self, *_: Any, **__: Any) -> None:
        """Refuse: a trace holds a forward pass, and autograd works around it."""
        raise recording().refuse(
            "`backward` is called", "call it on the result of the traced function"
        )

    def register_hook(self, hook: Any) -> Any:
        """Refuse: a hook is Python, which a graph cannot call."""
        raise recording().refuse("a hook is registered", "register it on the result")

    # What PyTorch would read from memory -----------------------------------------------------

    def tolist(self) -> Any:
        """Return the elements as nested lists of numbers, which the trace then relies on."""
        data = recording().observe_data(self)
        with disable_all_modes():
            return data.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Return a copy of the data as an array; the trace then relies on the data."""
        data = recording().observe_data(self)
        with disable_all_modes():
            return data.clone().numpy(force=force)

    def __array__(self, dtype: Any = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def data_ptr(self) -> int:
        """Refuse: another call has other memory."""
        raise recording().refuse("the address of a tensor is read", "compare tensors with `is`")

    def untyped_storage(self) -> torch.UntypedStorage:
        """Refuse: another call has other memory."""
        raise recording().refuse("the memory of a tensor is read", "use the tensor's operators")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        memo[id(self)] = self.detach().clone()
        return memo[id(self)]
