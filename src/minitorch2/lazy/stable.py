"""Steps that are promised to be the same: they run without the program that recorded them.

    call ::= recorded         the function runs in a region, as one step or as the begin of one
          |  repeated         the step of the calls before is promised again; no Python runs

The user promises that a function calls the same operators for arguments of the same form, so its
graph need not be built (LazyTensor paper, section 7). A call is repeated if two calls were the same
step: of the same operators and numbers, on their arguments and on the same other tensors.

Inside a region the step goes on behind the call: what follows is recorded and runs with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Final, Generic, ParamSpec, TypeVar

import torch

from minitorch2.lazy.barrier import mark_step
from minitorch2.lazy.event import arguments_of
from minitorch2.lazy.marks import is_marked
from minitorch2.lazy.region import is_deferring, lazily
from minitorch2.lazy.repeat import (
    KEPT,
    TENSOR,
    Call,
    Input,
    NotStableError,
    Output,
    form_of_tensor,
    gradient_of,
    gradients_of,
    repeat,
)
from minitorch2.lazy.step import COUNTS, Step, current
from minitorch2.lazy.trie import Place
from minitorch2.lazy.value import LazyTensor, Meta, Ref, Value
from minitorch2.native.torch_internals.modes import DisableTorchFunction

P = ParamSpec("P")
R = TypeVar("R")


class Stable(Generic[P, R]):
    """A function whose calls are promised to be the same step for arguments of the same forms.

    Attributes:
        obstacle: why the last call was recorded; empty if it was repeated.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.obstacle = ""
        self._function = function
        self._known: dict[Any, Call] = {}
        self._agreed: dict[Any, Call] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        mark_step(cause="a stable function")
        given = (args, tuple(kwargs.items()))
        tensors = [*_tensors_of(given)]
        self.obstacle = ""
        try:
            form = (_form_of(given), _settings())
            agreed = self._agreed.get(form)
            if agreed is not None:
                made = iter(repeat(agreed, tensors))
                if not is_deferring():
                    mark_step(wait=True, cause="end of a stable function")
                return _with_tensors(agreed.result, made)  # type: ignore[no-any-return]
        except NotStableError as error:
            self.obstacle = str(error)
            form = None
        return self._record(form, tensors, args, kwargs)

    def _record(self, form: Any, tensors: list[torch.Tensor], args: Any, kwargs: Any) -> R:
        """Run the function as one step, and compare the step with that of the call before."""
        counts = COUNTS.barriers.total(), COUNTS.fallbacks.total(), COUNTS.now
        known = self._known.get(form)
        before = () if known is None else gradients_of(known, tensors)
        with nullcontext() if is_deferring() else lazily(eager_first=False):
            result = self._function(*args, **kwargs)
            if form is None:
                return result
            try:
                if counts != (COUNTS.barriers.total(), COUNTS.fallbacks.total(), COUNTS.now):
                    raise NotStableError("a barrier, a number, or an operator that ran at once")
                self._compare(form, _call_of(current(), tensors, before, result))
            except NotStableError as error:
                self._known.pop(form, None)
                self.obstacle = str(error)
        return result

    def _compare(self, form: Any, call: Call) -> None:
        before, self._known[form] = self._known.get(form), call
        if before is None:
            self.obstacle = "the first such call"
        elif _is_as(call, before):
            self._agreed[form] = call
            self.obstacle = "the second such call"
        else:
            self.obstacle = "other operators, numbers or tensors than in the call before"


def stable(function: Callable[P, R]) -> Stable[P, R]:
    """Return a function that is recorded until two calls agree, and then repeated without Python.

    Args:
        function: calls the same operators, with the same numbers, for arguments of the same form.
            It returns new tensors without history, alone or in tuples and lists. It may leave
            gradients at its arguments and at parameters.

    Raises what the function raises. A call that cannot be repeated, since it looks at data for
    instance, is recorded each time; `Stable.obstacle` says why. Inside `lazily` the step goes on
    behind the call.
    """
    return Stable(function)


# What was recorded --------------------------------------------------------------------------------


def _is_as(call: Call, other: Call) -> bool:
    """Return whether two calls were the same step of the same tensors."""
    return (
        call.form.place is other.form.place
        and call.numbers == other.numbers
        and len(call.inputs) == len(other.inputs)
        and all(
            a.tensor is b.tensor and a.position == b.position and a.gradient == b.gradient
            for a, b in zip(call.inputs, other.inputs, strict=True)
        )
        and [o.numbers for o in call.outputs] == [o.numbers for o in other.outputs]
        and _form_of(call.result) == _form_of(other.result)
    )


def _call_of(
    step: Step,
    tensors: Sequence[torch.Tensor],
    before: tuple[torch.Tensor | None, ...],
    result: Any,
) -> Call:
    """Return the call that has been recorded as the whole step.

    Args:
        step: the step.
        tensors: the arguments.
        before: the gradients of its inputs before the call; empty if nobody has looked.
        result: what the function has returned.
    """
    if step.at_once:
        raise NotStableError("operators that no step had before")
    if any(place.func is None and place.event[5] is not None for place in step.place.path):
        raise NotStableError("tensors that share memory")
    outputs = [_output(step, tensor) for tensor in _tensors_of(result)]
    written = _written(step.place.path)
    inputs = []
    owners = [_owner(step, value, tensors) for value in step.inputs]
    if len(before) < len(owners):  # nobody has looked: all but new ones may have been there
        before = tuple(_unless_new(step, gradient_of(tensor)) for _, tensor in owners)
    for index, (value, (position, tensor)) in enumerate(zip(step.inputs, owners, strict=True)):
        gradient = _gradient(step, gradient_of(tensor), before[index], outputs)
        other = tensor if position is None else None
        form = None if other is None else form_of_tensor(other)
        number = _number_of(value)
        is_written = index in written
        inputs.append(Input(number, position, other, form, value.fake, is_written, gradient))
    _check_held(step, outputs)
    return Call(
        step.form, len(step.values), tuple(step.numbers), tuple(inputs), before, tuple(outputs),
        _without_tensors(result),
    )  # fmt: skip


def _owner(
    step: Step, value: Value, tensors: Sequence[torch.Tensor]
) -> tuple[int | None, torch.Tensor]:
    """Return the argument that an input is, by position, and the tensor; None for no argument."""
    for position, tensor in enumerate(tensors):
        known = tensor.value if type(tensor) is LazyTensor else step.plain.get(id(tensor))
        if known is value:
            return position, tensor
    data = value.data
    if data is None or step.plain.get(id(data)) is not value:
        raise NotStableError("data that is neither an argument nor an ordinary tensor")
    return None, data


def _unless_new(step: Step, gradient: torch.Tensor | None) -> torch.Tensor | None:
    """Return a gradient that was there before the step; None for a new one."""
    if type(gradient) is not LazyTensor:
        return gradient
    root = gradient.value.root
    return None if root.step is step and root.data is None else gradient


def _gradient(
    step: Step, now: torch.Tensor | None, then: torch.Tensor | None, outputs: list[Output]
) -> Any:
    """Return what becomes of an input's gradient; a new one becomes an output."""
    if now is then:
        return KEPT
    if now is None:
        return None
    outputs.append(_output(step, now))
    return len(outputs) - 1


def _written(path: Sequence[Place]) -> tuple[int, ...]:
    """Return the positions of the inputs whose memory is written, by themselves or by views."""
    roots: list[int] = []
    inputs, found = [], set()
    for place in path:
        if place.func is None:
            inputs.append(len(roots))
            roots.append(len(roots))
            continue
        plan = place.event[0]
        args, kwargs = arguments_of(place.event)
        found |= {roots[ref.index] for ref in plan.written_by(args, kwargs) if type(ref) is Ref}
        for _ in place.results or ():
            roots.append(roots[args[0].index] if plan.is_view else len(roots))
    return tuple(k for k, number in enumerate(inputs) if number in found)


def _check_held(step: Step, outputs: Sequence[Output]) -> None:
    """Refuse values that are held and neither returned nor left as gradients."""
    if len({output.numbers for output in outputs}) < len(outputs):
        raise NotStableError("a result that is returned twice")
    known = {number for output in outputs for number in output.numbers}
    for number, held in enumerate(step.held()):
        is_new = held is not None and (held.data is None or held.view is not None)
        if is_new and number not in known:
            raise NotStableError("a value that is held and not returned")


def _output(step: Step, tensor: torch.Tensor) -> Output:
    value = tensor.value if type(tensor) is LazyTensor else None
    if value is None or value.root.data is not None or value.root.step is not step:
        raise NotStableError("a result that is no new value: an argument, or a view of one")
    if tensor.requires_grad:
        raise NotStableError("a result with history")
    if is_marked(tensor):
        raise NotStableError("a result that is still to be conjugated or negated")
    size, stride, offset = tensor.size(), tensor.stride(), int(tensor.storage_offset())
    meta = Meta(size, stride, offset, tensor.dtype, tensor.device, None)
    numbers, views, fakes = [_number_of(value)], [], [value.fake]
    while value.view is not None:
        views.append(value.view._replace(base=_NO_VALUE))
        value = value.view.base
        numbers.append(_number_of(value))
        fakes.append(value.fake)
    return Output(tuple(numbers[::-1]), tuple(views[::-1]), tuple(fakes[::-1]), meta)


def _number_of(value: Value) -> int:
    assert value.ref is not None
    return value.ref.index


_NO_VALUE: Final = Value()


# The forms of calls -------------------------------------------------------------------------------

_PLAIN: Final = (int, float, complex, bool, str, type(None))


def _settings() -> tuple[Any, ...]:
    """Return what decides, beside its arguments, which operators PyTorch calls."""
    casts = [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")]
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return torch.get_default_dtype(), *modes, *casts, torch.get_autocast_dtype("cpu")


def _form_of(value: Any) -> Any:
    """Return what two values must have in common to lead to the same operators.

    Raises:
        NotStableError: a value of a type that is not known.
    """
    if isinstance(value, torch.Tensor):
        with DisableTorchFunction():
            return form_of_tensor(value)
    if type(value) is tuple or type(value) is list:
        return type(value), *map(_form_of, value)
    if type(value) in _PLAIN or value is TENSOR:
        return type(value), repr(value)
    raise NotStableError(f"a value of type {type(value).__name__}")


def _tensors_of(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif type(value) is tuple or type(value) is list:
        for item in value:
            yield from _tensors_of(item)


def _without_tensors(value: Any) -> Any:
    if type(value) is tuple or type(value) is list:
        return type(value)(map(_without_tensors, value))
    return TENSOR if isinstance(value, torch.Tensor) else value


def _with_tensors(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if type(value) is tuple or type(value) is list:
        return type(value)(_with_tensors(item, tensors) for item in value)
    return next(tensors) if value is TENSOR else value
