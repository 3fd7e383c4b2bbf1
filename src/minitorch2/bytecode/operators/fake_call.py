"""Run one operation on fake tensors and note its effects besides its value.

An operation is *impure* if the program would change without it though its result is not read: it
writes to a tensor, draws random numbers, or changes PyTorch's state. The schemas of the aten
operators that really run tell which operators do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from minitorch2.bytecode.guards.settings import OF_OPERATORS
from minitorch2.bytecode.operators.gradient_hook import remove_hook
from minitorch2.errors import UnsupportedError
from minitorch2.graph.dispatch_mode import DispatchMode, Launch
from minitorch2.graph.effects import draws
from minitorch2.graph.fake_tensor import FakeTensor, run_fake, same_storage
from minitorch2.graph.raising import operator_raises
from minitorch2.graph.symbols import expr_of
from minitorch2.graph.value_checks import VALUE_CHECKS
from minitorch2.graph.wrapper_tensors import is_wrapper
from minitorch2.native.torch_internals.global_state import enter_autocast, exit_autocast
from minitorch2.native.torch_internals.gradients import write_grad_mode
from minitorch2.native.torch_internals.operators import OpOverload
from minitorch2.native.torch_internals.pytree import tree_leaves

ENTER_AUTOCAST: Callable[..., Any] = enter_autocast
EXIT_AUTOCAST: Callable[..., Any] = exit_autocast

STATE_CHANGES = {
    write_grad_mode,
    ENTER_AUTOCAST,
    EXIT_AUTOCAST,
    forward_ad.enter_dual_level,
    forward_ad.exit_dual_level,
    remove_hook,
    *OF_OPERATORS,
}
"""Functions that change a state of PyTorch that later operators read."""


class _Watch(DispatchMode):
    """Runs operators on fake tensors and notes writes, random draws, and possible errors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.has_effects = False
        self.writes_tensors = False
        self.written: list[Any] = []
        self.may_raise = False
        self.hides_parameter = False

    def see(self, func: OpOverload, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if any(map(_has_dispatch, types)):
            self.writes_tensors |= func._schema.is_mutable
            return NotImplemented  # a class of the user's mixes with plain tensors itself
        self.has_effects |= draws(func, args, kwargs)
        self.has_effects |= func.namespace == "_c10d_functional"  # other ranks wait for it
        self.may_raise |= operator_raises(func, args, kwargs)
        if func._schema.is_mutable:
            self.writes_tensors = True
            self.written += tree_leaves([value for _, value in _written(func, args, kwargs)])
            _refuse_overlap(func, args, kwargs)
        self.hides_parameter |= any(_is_real_parameter(value) for value in args)
        result = run_fake(func, args, kwargs)
        for fake in self.written if func._schema.is_mutable else ():
            if isinstance(fake, FakeTensor):  # whose memory may be another one now
                fake.note_write()
        return result

    def on_launch(self, launch: Launch, values: Sequence[Any]) -> None:
        """Note the writes of a kernel. It may write to a tensor all of whose elements are known."""
        self.writes_tensors = True
        for index in launch.written():
            values[index].note_write()


def _has_dispatch(cls: type) -> bool:
    """Return whether a class is the user's and defines ``__torch_dispatch__``."""
    own = cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__  # type: ignore[attr-defined]
    return own and not issubclass(cls, FakeTensor)


def _refuse_overlap(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse to capture a write to memory of another operand, if PyTorch refuses the write, too.

    Python then makes the call. An error within the graph would come after all that the program does
    before it, so errors that can be foreseen are kept out of graphs. The argument ``out=`` does not
    count as an operand, unless elements are taken one by one.
    """
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    for parameter, argument in _written(func, args, kwargs):
        if not isinstance(argument, torch.Tensor):
            continue
        is_result = parameter.is_out and torch.Tag.pointwise not in func.tags
        shared = [other for other in tensors if same_storage(argument, other)]
        partly = any(_overlap_partly(argument, other) for other in shared)
        if partly or _overlaps_itself(argument) or (is_result and len(shared) > 1):
            cause = f"{func._schema.name} writes to memory that another operand is in"
            raise UnsupportedError(cause, code="overlap", fix="clone one of the tensors")


def _written(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[torch.Argument, Any]]:
    """Yield the parameters of a call that it writes to, and their arguments."""
    for place, parameter in enumerate(func._schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            yield parameter, args[place] if place < len(args) else kwargs.get(parameter.name)


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Return whether elements share their memory, as those of an expanded tensor do."""
    return any(
        expr_of(step) == 0 and expr_of(n) not in (0, 1)
        for step, n in zip(tensor.stride(), tensor.shape, strict=True)
    )


def _overlap_partly(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two dense tensors share a part of their memory, but not the same elements."""
    if left is right:
        return False
    a, b = _dense_span(left), _dense_span(right)
    if a is None or b is None or (a == b and left.stride() == right.stride()):
        return False
    return a.start < b.stop and b.start < a.stop


def _dense_span(tensor: torch.Tensor) -> range | None:
    """Return the tensor's range of its storage if it fills the range; None otherwise."""
    sizes = [n for n in tensor.shape if isinstance(n, int)]
    first = int(tensor.storage_offset())
    reach = sum((n - 1) * s for n, s in zip(sizes, tensor.stride(), strict=False))
    dense = len(sizes) == tensor.ndim and tensor.numel() == reach + 1
    return range(first, first + reach + 1) if dense else None


@dataclass
class FakeCall:
    """One operation with fake arguments; `run` sets the attributes.

    Attributes:
        is_impure: dropping it would change the program.
        writes_tensors: it writes to a tensor.
        written: the tensors that operators of PyTorch's have written to.
        may_raise: the values of its arguments may make it raise.
    """

    op: str
    target: str | Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_impure: bool = False
    writes_tensors: bool = False
    written: Sequence[Any] = ()
    may_raise: bool = False

    def run(self) -> Any:
        """Run the operation and return its fake value."""
        with _Watch() as watch:
            if isinstance(self.target, str):
                value = getattr(self.args[0], self.target)(*self.args[1:], **self.kwargs)
            else:
                value = self.target(*self.args, **self.kwargs)
        if watch.hides_parameter and torch.is_grad_enabled():
            raise UnsupportedError(
                f"{describe_target(self.op, self.target)} uses a parameter that it is not given",
                code="hidden-parameter",
                fix="give it the parameter as an argument, so that its gradient is computed",
            )
        self.writes_tensors, self.written = watch.writes_tensors, watch.written
        self.may_raise = watch.may_raise or self.target in VALUE_CHECKS
        state = self.target in STATE_CHANGES
        self.is_impure = watch.has_effects or watch.writes_tensors or state
        return value


def refuse_write_to_inference(
    written: Iterable[torch.Tensor], inputs: Iterable[tuple[Any, Any]]
) -> None:
    """Leave it to Python to raise where a tensor of inference mode is written to outside of it.

    Args:
        written: the fakes that an operation writes to.
        inputs: the inputs of the graph, and their fakes.
    """
    if torch.is_inference_mode_enabled():
        return
    refused = [
        fake for real, fake in inputs if isinstance(real, torch.Tensor) and real.is_inference()
    ]
    for value in written if refused else ():
        if any(same_storage(value, fake) for fake in refused):
            cause = "a write to a tensor that was made in inference mode"
            raise UnsupportedError(cause, code="operator-error", fix="write to a clone of it")


def _is_real_parameter(value: object) -> bool:
    """Return whether a value is a real tensor that needs gradients, such as a parameter."""
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        return False
    # PyTorch's derivatives make zeros without memory themselves.
    return value.requires_grad and not is_wrapper(value) and not value._is_zerotensor()


def describe_target(op: str, target: str | Callable[..., Any]) -> str:
    """Return a target as the user would write it: ``x.view`` or ``torch.cat``."""
    if isinstance(target, str):
        return f"Tensor.{target}"
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}".lstrip(".")
