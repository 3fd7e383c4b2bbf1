"""A step of a stable function is promised again: no operator is called, and no Python runs.

    repetition ::= input* numbers*          of the call before, on other tensors of the same forms
    promised   ::= the results of the call, and the gradients that it leaves

The step is then where the function would have left it. Later operators are recorded behind it, so
an optimizer may be part of the step, with numbers that change from call to call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch

from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.lazy.record import is_plain
from minitorch2.lazy.step import COUNTS, LOCK, Step, begin, current, memory_of
from minitorch2.lazy.trie import Form, Numbers
from minitorch2.lazy.value import LazyTensor, Meta, Value, View, ref_of
from minitorch2.native.torch_internals.modes import DisableTorchFunction


class NotStableError(Exception):
    """A call that cannot be repeated; the text says why."""


class Output(NamedTuple):
    """A new value that is returned, or left as a gradient.

    Attributes:
        numbers: of the value in whose memory it lies, of views, and of the value itself.
        views: the operators that make one of the other.
        fakes: the metadata of these values, as far as they are known.
        meta: the form of the tensor.
    """

    numbers: tuple[int, ...]
    views: tuple[View, ...]
    fakes: tuple[FakeTensor | None, ...]
    meta: Meta


KEPT: Final = object()
"""The gradient of an input whose `grad` is the same tensor behind the call as before it."""


class Input(NamedTuple):
    """A tensor that has entered the step.

    Attributes:
        number: of the value.
        position: the argument that it is, or None.
        tensor: the other tensor that it is, or None.
        form: the form of this tensor.
        fake: the metadata of the value, if they are known.
        is_written: whether the step writes its memory.
        gradient: its `grad` behind the call: `KEPT`, None, or the position among the outputs.
    """

    number: int
    position: int | None
    tensor: torch.Tensor | None
    form: Any
    fake: FakeTensor | None
    is_written: bool
    gradient: Any

    def of(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the tensor of a call with these arguments that enters."""
        tensor = self.tensor if self.position is None else tensors[self.position]
        assert tensor is not None
        return tensor


class Call(NamedTuple):
    """A call that was one step, or began one.

    Attributes:
        form: where the step was behind it.
        made: how many values it had.
        numbers: the numbers of its events.
        inputs: what entered, in order.
        before: the gradients of inputs before the call; empty if nobody has looked.
        outputs: the values that are returned, in order, then those that are left as gradients.
        result: what was returned, with `TENSOR` for each tensor.
    """

    form: Form
    made: int
    numbers: tuple[Numbers, ...]
    inputs: tuple[Input, ...]
    before: tuple[torch.Tensor | None, ...]
    outputs: tuple[Output, ...]
    result: Any


TENSOR: Final = object()


def gradients_of(call: Call, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients that the inputs of a call with these arguments have now."""
    return tuple(gradient_of(given.of(tensors)) for given in call.inputs)


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient that autograd has left at a tensor."""
    with DisableTorchFunction():
        return tensor.grad if tensor.is_leaf else None


def repeat(call: Call, tensors: Sequence[torch.Tensor]) -> list[LazyTensor]:
    """Begin a step as a call did, on these arguments; return promises of the returned values.

    Raises:
        NotStableError: a tensor has another form or gradient than it had, or shares memory with
            another one. Nothing has changed then.
    """
    with LOCK, DisableTorchFunction():
        given = [one.of(tensors) for one in call.inputs]
        _check(call, given, tensors)
        begin()
        step = current()
        step.in_region = True
        step.form, step.place = call.form, call.form.place
        step.numbers, step.values = [*call.numbers], [None] * call.made
        for one, tensor in zip(call.inputs, given, strict=True):
            _enter(step, one, tensor)
        promised: dict[int, Value] = {}
        made = [_promise(step, output, promised) for output in call.outputs]
        for one, tensor in zip(call.inputs, given, strict=True):
            if one.gradient is not KEPT:
                tensor.grad = None if one.gradient is None else made[one.gradient]
        COUNTS.repeated += 1
    return made


def _check(call: Call, given: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    for one, tensor in zip(call.inputs, given, strict=True):
        if one.position is None and form_of_tensor(tensor) != one.form:
            raise NotStableError("another form of a tensor that is no argument")
    gradients = gradients_of(call, tensors)
    if any(now is not then for now, then in zip(gradients, call.before, strict=True)):
        raise NotStableError("a tensor has another gradient than before the earlier call")
    if len({memory_of(_data_of(tensor)) for tensor in given}) < len(given):
        raise NotStableError("tensors that share memory")


def _data_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.value.shown() if type(tensor) is LazyTensor else tensor


def form_of_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what two tensors must have in common to lead to the same operators.

    Raises:
        NotStableError: it is neither a lazy tensor nor an ordinary one.
    """
    if type(tensor) is not LazyTensor and not is_plain(tensor):
        raise NotStableError(f"a value of type {type(tensor).__name__}")
    size, stride = tuple(tensor.size()), tensor.stride()
    return type(tensor), size, stride, tensor.dtype, tensor.device, tensor.requires_grad


def _enter(step: Step, one: Input, tensor: torch.Tensor) -> None:
    """Let a tensor enter where another one has entered in the call before."""
    data = _data_of(tensor)
    is_own = type(tensor) is LazyTensor and tensor.value.view is None
    value = tensor.value if type(tensor) is LazyTensor and is_own else Value(data)
    if type(tensor) is not LazyTensor:
        step.plain[id(tensor)] = value
    step.memories[memory_of(data)] = len(step.inputs)
    step.inputs.append(value)
    value.step, value.ref, value.fake = step, ref_of(one.number), one.fake
    step.values[one.number] = value
    if one.is_written:
        step.writes = True
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def _promise(step: Step, output: Output, promised: dict[int, Value]) -> LazyTensor:
    """Return a promise of an output; outputs in one memory share its value."""
    value: Value | None = None
    for depth, number in enumerate(output.numbers):
        known = promised.get(number)
        if known is None:
            view = None if value is None else output.views[depth - 1]._replace(base=value)
            known = promised[number] = Value(view=view, fake=output.fakes[depth])
            known.step, known.ref = step, ref_of(number)
            step.values[number] = known
        value = known
    assert value is not None
    return LazyTensor(value, output.meta, output.meta.offset)
