"""Record a call: its event goes to the trie, which knows the form of the results or infers it.

Data among the arguments enters the step first:

    enter ::= None, dtype, rank, device, layout, memory           and the sizes, which may vary
    layout ::= True (contiguous) | -1 and the order of dimensions in dense memory | the strides
    memory ::= None | the input in whose memory the data lie, and how many bytes behind its start
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.user_lines import user_line
from minitorch2.lazy.at_once import note_results
from minitorch2.lazy.entry import Entry, expect_entries
from minitorch2.lazy.event import END, FLOAT, INT, LIST
from minitorch2.lazy.expect import expect
from minitorch2.lazy.infer import fake_of, infer
from minitorch2.lazy.plan import Plan, plan_of
from minitorch2.lazy.step import COUNTS, Step, memory_of, owns_memory
from minitorch2.lazy.trie import Event, Numbers
from minitorch2.lazy.value import LazyTensor, Meta, Metas, Operator, Ref, Value
from minitorch2.native.torch_internals.gradients import is_wrapped_by_transform


class NotPlainError(Exception):
    """An argument that no step can hold: a sparse tensor, a generator of random numbers."""


def record(
    step: Step, func: Operator, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Metas | None:
    """Add a call to the step; return the form of each new result, None if it is to run at once.

    Raises:
        NotPlainError: an argument that no step can hold.
        UnsupportedError: the form of the results depends on data, or cannot be known.
        Exception: eager mode would raise it, too; the step is as before.
    """
    entries = step.entries = []
    event, numbers = encode(step, plan, args, kwargs)
    sizes = numbers
    if numbers and float in map(type, numbers) and not plan.sizes_by_floats:
        sizes = tuple(number for number in numbers if type(number) is int)
    if not step.at_once:
        before = step.form
        known = step.known_results(event, sizes, numbers)
        if known is not None:
            expect(before, step, plan, args, event)
            expect_entries(step, entries, func, args)
            return known
    if step.meets_new(event):
        if plan.sized_by_data:  # with some arguments only: the meta kernel tells
            infer(func, plan, args, kwargs, lambda t: value_of(step, t), step.fake_of_data)
        step.go_on(event, numbers)
        return None
    place = step.go_on(event, numbers)
    COUNTS.inferred += 1
    try:
        results = infer(func, plan, args, kwargs, lambda t: value_of(step, t), step.fake_of_data)
    except BaseException:
        step.go_back()
        raise
    if place.results is not None and _structure(results) != _structure(place.results):
        # These numbers give another number of results, or another rank: another place.
        step.go_back()
        place = step.go_on((*event, ("results", _structure(results))), numbers)
    place.line = place.line or user_line()
    step.note_results(event, sizes, results)
    return results


def _structure(results: Metas) -> tuple[Any, ...]:
    return tuple(None if meta is None else (len(meta.size), meta.dtype) for meta in results)


def value_of(step: Step, tensor: Any) -> Value:
    """Return the value of a tensor that is an argument of the step's last event."""
    if isinstance(tensor, Value):
        return tensor
    if type(tensor) is LazyTensor:
        return tensor.value
    assert isinstance(tensor, torch.Tensor)
    value = step.plain.get(id(tensor)) if step.in_region else step.copy_of(tensor)
    return Value(tensor) if value is None else value


# Arguments ---------------------------------------------------------------------------------------


def encode(
    step: Step, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Event, Numbers]:
    """Return the event and the numbers of a call; data among its arguments enters the step.

    Raises:
        NotPlainError: an argument that no step can hold.
    """
    event: list[Any] = [plan]
    numbers: list[int | float] = []
    shares = bool(plan.written) or plan.is_view
    for argument, varies in zip(args, plan.varies, strict=False):
        kind = type(argument)  # as in `_add`: most arguments are of these kinds
        if kind is LazyTensor:
            value = argument.value
            event.append(value.ref if value.step is step else _enter(step, value))
        elif kind is torch.Tensor:
            event.append(step.ref_made(argument) or _ref_of_plain(step, argument, shares=shares))
        else:
            _add(step, argument, varies, shares, event, numbers)
    for name, argument in kwargs.items():
        event.append(name)
        _add(step, argument, plan.varies_by_name[name], shares, event, numbers)
    if plan.reads_offset:
        _check_window(step, *args)
        event.append(("offset", _offset_of(step, args[0])))
    return tuple(event), tuple(numbers)


def _check_window(
    step: Step,
    tensor: Any,
    size: Sequence[int],
    stride: Sequence[int],
    begin: int | None = None,
    *_: Any,
) -> None:
    """Refuse a window that reaches over the end of data's memory: no event tells how long that is.

    Raises:
        UnsupportedError: the window is too long, so the real kernel refuses it.
    """
    data = value_of(step, tensor).root.data
    if data is None or 0 in size:
        return
    start = _offset_of(step, tensor) if begin is None else begin
    last = start + sum((n - 1) * by for n, by in zip(size, stride, strict=False))
    if (last + 1) * data.itemsize > data.untyped_storage().nbytes():
        raise UnsupportedError("a window reaches over the end of its memory")


def _offset_of(step: Step, tensor: Any) -> int:
    """Return where a tensor begins in its memory; a value's form tells it."""
    shown = fake_of(tensor, step.fake_of_data) if isinstance(tensor, Value) else tensor
    return int(shown.storage_offset())


def _add(
    step: Step,
    argument: Any,
    varies: bool,
    shares: bool,
    event: list[Any],
    numbers: list[int | float],
) -> None:
    kind = type(argument)
    if kind is LazyTensor:
        value = argument.value
        event.append(value.ref if value.step is step else _enter(step, value))
    elif kind is Value:
        value = argument
        event.append(value.ref if value.step is step else _enter(step, value))
    elif kind is int and varies:
        event.append(INT)
        numbers.append(argument)
    elif kind is float and varies and (argument or repr(argument) == "0.0"):
        event.append(FLOAT)
        numbers.append(argument)
    elif kind is list or kind is tuple:
        event.append(LIST)
        for item in argument:
            _add(step, item, varies, shares, event, numbers)
        event.append(END)
    elif isinstance(argument, torch.Tensor):
        event.append(step.ref_made(argument) or _ref_of_plain(step, argument, shares=shares))
    elif isinstance(argument, torch.Generator):
        raise NotPlainError
    else:
        event.append((kind, repr(argument) if kind in (float, complex) else argument))


def _ref_of_plain(step: Step, tensor: torch.Tensor, *, shares: bool) -> Ref:
    value = value_of_plain(step, tensor, shares=shares)
    return value.ref if value.step is step and value.ref is not None else _enter(step, value)


def value_of_plain(step: Step, tensor: torch.Tensor, *, shares: bool) -> Value:
    """Return the value of an ordinary tensor: one for the tensor, while the step lasts.

    Args:
        step: the step that it enters.
        tensor: the tensor.
        shares: whether the operator writes to its memory or returns a view of it.

    Raises:
        NotPlainError: it is a subclass, or has no ordinary memory.
    """
    value = step.plain.get(id(tensor)) if step.in_region else None
    if value is not None:
        return value
    if not is_plain(tensor):
        raise NotPlainError
    if not step.in_region or (not shares and _is_free_number(step, tensor)):
        return step.copy_of(tensor)
    if owns_memory(tensor):
        value = step.plain[id(tensor)] = Value(tensor)
        return value
    if shares:
        raise NotPlainError
    # The memory belongs to another library, which may write to it: this is what it holds now.
    return Value(tensor.detach().clone(memory_format=torch.preserve_format))


def _is_free_number(step: Step, tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a number of the host that no pending operator reads or writes.

    It enters as a copy, so the program may count it up and read it without a barrier.
    """
    return not tensor.dim() and tensor.is_cpu and not step.has_memory_of(tensor)


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is an ordinary one, with memory on a CPU or GPU."""
    return (
        is_plain_result(tensor)
        and not is_wrapped_by_transform(tensor)
        and not (tensor.is_conj() or tensor.is_neg())
    )


def is_plain_result(tensor: torch.Tensor) -> bool:
    """Return whether what an operator has made of ordinary tensors is one, too."""
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and (tensor.is_cpu or tensor.is_cuda)
        and not (tensor.is_quantized or tensor.is_nested or tensor._is_zerotensor())
    )


_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)


# Data that enters --------------------------------------------------------------------------------


def _enter(step: Step, value: Value) -> Ref:
    """Add a value of an earlier step to this one; return its number."""
    if value.error is not None:
        raise value.error
    if value.view is not None:
        return _enter_view(step, value)
    data = value.data
    assert data is not None
    if not owns_memory(data):
        raise NotPlainError  # NumPy reads and writes this memory whenever it likes
    first = step.memories.setdefault(memory_of(data), len(step.inputs))
    memory = None if first == len(step.inputs) else (first, _distance(step, first, data))
    event = (None, data.dtype, data.dim(), data.device, _layout_of(data), memory)
    size = tuple(data.size())
    before = step.form
    # Where all memory is contiguous, sizes tell the strides but for dimensions of one element.
    key = (*size, *data.stride()) if 1 in size or 0 in size else size
    known = None if step.at_once else step.known_results(event, key, size)
    if known is not None:
        step.entries.append(Entry(before, step.form, value))
    if known is None and step.meets_new(event):
        step.go_on(event, size)
        step.inputs.append(value)
        return step.promise(value)
    if known is None:
        fake = _fake_of(step, data, memory)
        step.go_on(event, size)
        known = (Meta(size, data.stride(), 0, data.dtype, data.device, fake),)
        step.note_results(event, key, known)
    form = known[0]
    assert form is not None
    value.fake = form.fake
    step.inputs.append(value)
    return step.promise(value)


def _fake_of(step: Step, data: torch.Tensor, memory: tuple[int, int] | None) -> FakeTensor:
    """Return the fake of data that enter; it shares memory with the fake of the input there.

    A known form gave that input its fake, so a new fake of the same memory would not share it.

    Raises:
        UnsupportedError: no fake can begin there.
    """
    if memory is None:
        fake: FakeTensor = step.fake_of_data(data)
        return fake
    first = fake_of(step.inputs[memory[0]], step.fake_of_data).meta
    begin, rest = divmod(int(first.storage_offset()) * first.itemsize + memory[1], data.itemsize)
    if rest or begin < 0:
        raise UnsupportedError("data begin before the memory of a fake, or inside an element")
    meta = torch.empty(0, dtype=data.dtype, device="meta")
    meta.set_(first.untyped_storage(), begin, data.size(), data.stride())
    return FakeTensor(meta, data.device)


def _distance(step: Step, first: int, data: torch.Tensor) -> int:
    """Return how many bytes data begin behind another input in the same memory."""
    other = step.inputs[first].data
    assert other is not None
    return int(data.storage_offset() * data.itemsize - other.storage_offset() * other.itemsize)


def _layout_of(data: torch.Tensor) -> tuple[int, ...] | bool:
    """Return how data lie in memory: True if contiguous, an order if dense, else the strides."""
    if data.is_contiguous():
        return True
    strides = data.stride()
    order = sorted(range(data.dim()), key=lambda d: (-strides[d], d))
    if data.permute(order).is_contiguous():
        return (-1, *order)
    return strides


def _enter_view(step: Step, value: Value) -> Ref:
    """Record the view's operator again, on its base."""
    assert value.view is not None
    base, func, args, kwargs, index = value.view
    results = record(step, func, plan_of(func), (base, *args), kwargs)
    if results is None:
        made = func(base.shown(), *args, **kwargs)
        results = note_results(step, [made] if index is None else made, base.shown())
    for position in range(len(results)):
        if position == (index or 0):
            step.promise(value)
        else:
            step.skip()
    assert value.ref is not None
    return value.ref
