"""Steps that are promised to be the same: they run without the program that recorded them.

    call ::= recorded         the function runs in a region, as one step
          |  repeated         the step of the calls before runs on these arguments; no Python runs

The user promises that a function calls the same operators for arguments of the same form, so its
graph need not be built (LazyTensor paper, section 7). A call is repeated if two calls were the same
step: of the same operators and numbers, on their arguments and on the same other tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

import torch

from minitorch2.lazy.barrier import mark_step, results_of
from minitorch2.lazy.event import arguments_of
from minitorch2.lazy.record import is_plain
from minitorch2.lazy.region import lazily
from minitorch2.lazy.step import COUNTS, LOCK, Step, current, memory_of
from minitorch2.lazy.trie import Numbers, Place
from minitorch2.lazy.value import LazyTensor, Ref, Value, View, undeferred

P = ParamSpec("P")
R = TypeVar("R")


class NotStableError(Exception):
    """A call that cannot be repeated; the text says why."""


class _Output(NamedTuple):
    """A returned value: the number of the value whose memory it shows, and those of views of it.

    Attributes:
        numbers: of the value in whose memory it lies, of views, and of the value itself.
        views: the operators that make one of the other.
    """

    numbers: tuple[int, ...]
    views: tuple[View, ...]


class _Call(NamedTuple):
    """A call that was one step.

    Attributes:
        place: where the step ended.
        numbers: the numbers of its events.
        arguments: for each input, the position of the argument that it is, or None.
        tensors: for each input, the other tensor that it is, or None.
        forms: the forms of these tensors.
        written: the inputs whose memory the step writes.
        outputs: the values that are returned, in order.
        result: what was returned, with `_TENSOR` for each tensor.
    """

    place: Place
    numbers: tuple[Numbers, ...]
    arguments: tuple[int | None, ...]
    tensors: tuple[torch.Tensor | None, ...]
    forms: tuple[Any, ...]
    written: tuple[int, ...]
    outputs: tuple[_Output, ...]
    result: Any

    def is_as(self, other: _Call) -> bool:
        """Return whether two calls were the same step of the same tensors."""
        return (
            self.place is other.place
            and self[1:3] == other[1:3]
            and all(a is b for a, b in zip(self.tensors, other.tensors, strict=True))
            and [o.numbers for o in self.outputs] == [o.numbers for o in other.outputs]
            and _form_of(self.result) == _form_of(other.result)
        )


class Stable(Generic[P, R]):
    """A function whose calls are promised to be one step each, the same for the same forms.

    Attributes:
        obstacle: why the last call was recorded; empty if it was repeated.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.obstacle = ""
        self._function = function
        self._known: dict[Any, _Call] = {}
        self._agreed: dict[Any, _Call] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        mark_step(cause="a stable function")
        given = (args, tuple(kwargs.items()))
        tensors = [*_tensors_of(given)]
        self.obstacle = ""
        try:
            form = (_form_of(given), _settings())
            agreed = self._agreed.get(form)
            if agreed is not None:
                return _repeat(agreed, _data_for(agreed, tensors))  # type: ignore[no-any-return]
        except NotStableError as error:
            self.obstacle = str(error)
            form = None
        return self._record(form, tensors, args, kwargs)

    def _record(self, form: Any, tensors: list[torch.Tensor], args: Any, kwargs: Any) -> R:
        """Run the function as one step, and compare the step with that of the call before."""
        before = COUNTS.barriers.total(), COUNTS.fallbacks.total(), COUNTS.now
        with lazily(eager_first=False):
            result = self._function(*args, **kwargs)
            if form is None:
                return result
            try:
                if before != (COUNTS.barriers.total(), COUNTS.fallbacks.total(), COUNTS.now):
                    raise NotStableError("a barrier, a number, or an operator that ran at once")
                self._compare(form, _call_of(current(), tensors, result))
            except NotStableError as error:
                self._known.pop(form, None)
                self.obstacle = str(error)
        return result

    def _compare(self, form: Any, call: _Call) -> None:
        before, self._known[form] = self._known.get(form), call
        if before is None:
            self.obstacle = "the first such call"
        elif before.is_as(call):
            self._agreed[form] = call
            self.obstacle = "the second such call"
        else:
            self.obstacle = "other operators, numbers or tensors than in the call before"


def stable(function: Callable[P, R]) -> Stable[P, R]:
    """Return a function that is recorded until two calls agree, and then repeated without Python.

    Args:
        function: calls the same operators, with the same numbers, for arguments of the same form.
            It returns new tensors without history, alone or in tuples and lists.

    Raises what the function raises. A call that cannot be repeated, since it leaves gradients for
    instance, is recorded each time; `Stable.obstacle` says why.
    """
    return Stable(function)


# What was recorded --------------------------------------------------------------------------------


def _call_of(step: Step, tensors: Sequence[torch.Tensor], result: Any) -> _Call:
    if step.at_once:
        raise NotStableError("operators that no step had before")
    values = [t.value if type(t) is LazyTensor else step.plain.get(id(t)) for t in tensors]
    arguments, others = [], []
    for value in step.inputs:
        position = next((k for k, known in enumerate(values) if known is value), None)
        data = None if position is not None else value.data
        if data is not None and step.plain.get(id(data)) is not value:
            raise NotStableError("data that is neither an argument nor an ordinary tensor")
        arguments.append(position)
        others.append(data)
    if any(place.func is None and place.event[5] is not None for place in step.place.path):
        raise NotStableError("tensors that share memory")
    forms = tuple(None if t is None else _form_of(t) for t in others)
    return _Call(
        step.place, tuple(step.numbers), tuple(arguments), tuple(others), forms,
        _written(step.place.path), _outputs(step, result), _without_tensors(result),
    )  # fmt: skip


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


def _outputs(step: Step, result: Any) -> tuple[_Output, ...]:
    """Return the returned values; nothing else may be held."""
    outputs = tuple(_output(step, tensor) for tensor in _tensors_of(result))
    if len({output.numbers for output in outputs}) < len(outputs):
        raise NotStableError("a result that is returned twice")
    known = {number for output in outputs for number in output.numbers}
    for number, held in enumerate(step.held()):
        is_new = held is not None and (held.data is None or held.view is not None)
        if is_new and number not in known:
            raise NotStableError("a value that is held and not returned, such as a gradient")
    return outputs


def _output(step: Step, tensor: torch.Tensor) -> _Output:
    value = tensor.value if type(tensor) is LazyTensor else None
    if value is None or value.root.data is not None or value.root.step is not step:
        raise NotStableError("a result that is no new value: an argument, or a view of one")
    if tensor.requires_grad:
        raise NotStableError("a result with history")
    numbers, views = [_number_of(value)], []
    while value.view is not None:
        views.append(value.view._replace(base=_NO_VALUE))
        value = value.view.base
        numbers.append(_number_of(value))
    return _Output(tuple(numbers[::-1]), tuple(views[::-1]))


def _number_of(value: Value) -> int:
    assert value.ref is not None
    return value.ref.index


_NO_VALUE: Final = Value()


# The forms of calls -------------------------------------------------------------------------------

_TENSOR: Final = object()
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
    if isinstance(value, torch.Tensor) and (type(value) is LazyTensor or is_plain(value)):
        size, stride = tuple(value.size()), value.stride()
        return type(value), size, stride, value.dtype, value.device, value.requires_grad
    if type(value) is tuple or type(value) is list:
        return type(value), *map(_form_of, value)
    if type(value) in _PLAIN or value is _TENSOR:
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
    return _TENSOR if isinstance(value, torch.Tensor) else value


def _with_tensors(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if type(value) is tuple or type(value) is list:
        return type(value)(_with_tensors(item, tensors) for item in value)
    return next(tensors) if value is _TENSOR else value


# The repeated call --------------------------------------------------------------------------------


def _data_for(call: _Call, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the data of the inputs, in order.

    Raises:
        NotStableError: a tensor has another form than it had, or shares memory with another one.
    """
    inputs = []
    for position, other, form in zip(call.arguments, call.tensors, call.forms, strict=True):
        tensor = other if position is None else tensors[position]
        assert tensor is not None
        if position is None and _form_of(tensor) != form:
            raise NotStableError("another form of a tensor that is no argument")
        inputs.append(tensor.value.shown() if type(tensor) is LazyTensor else tensor)
    if len({*map(memory_of, inputs)}) < len(inputs):
        raise NotStableError("tensors that share memory")
    return inputs


def _repeat(call: _Call, inputs: Sequence[torch.Tensor]) -> Any:
    """Run the step of a call on other data; return what the function would."""
    with LOCK:
        step = Step()
        step.place, step.numbers = call.place, [*call.numbers]
        step.inputs = [*map(Value, inputs)]
        results = results_of(step, {output.numbers[0]: Value() for output in call.outputs})
        COUNTS.repeated += 1
    counting = [inputs[k] for k in call.written if not inputs[k].is_inference()]
    torch.autograd.graph.increment_version(counting)
    return _with_tensors(call.result, (_shown(output, results) for output in call.outputs))


def _shown(output: _Output, results: Mapping[int, torch.Tensor]) -> LazyTensor:
    data = results[output.numbers[0]]
    with undeferred(), torch.no_grad():
        for view in output.views:
            data = view.of(data)
    return LazyTensor.of(data)
