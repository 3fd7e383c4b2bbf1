"""Data that are expected to enter a step: parameters, and the state of an optimizer.

    entry ::= operator, where the data are among its arguments, their form

A step reads most of its data as the step before did. So the form behind data knows which call they
came with, and at which argument; what is there now is compared, and enters. Then the call itself is
compared. Whatever is not expected, `record.py` lets in, which is right for all data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from minitorch2.lazy.step import Step, owns_memory
from minitorch2.lazy.trie import ENTERED, MISS, Form
from minitorch2.lazy.value import LazyTensor, Value, ref_of
from minitorch2.native.torch_internals.gradients import is_wrapped_by_transform


class Entry(NamedTuple):
    """The data that entered, and the form behind them.

    Attributes:
        before: the form before them.
        after: the form behind them.
        value: what entered.
    """

    before: Form
    after: Form
    value: Value


def expect_entries(step: Step, entries: Sequence[Entry], func: Any, args: Sequence[Any]) -> None:
    """Expect data again that have entered with a call, in the order of its arguments.

    Data that share memory with earlier ones are not expected: their event says how they do.
    """
    for before, after, value in entries:
        where = _where(step, args, value)
        shares_memory = after.place.event[5] is not None
        if where is None or value.data is None or not value.data.dim() or shares_memory:
            return
        data, meta = value.data, after.results[0]
        form = data.size(), data.stride(), data.dtype, data.device
        after.match = _enter
        after.wanted = (func, *where, *form, None if meta is None else meta.fake)
        before.expected = after


def _where(step: Step, args: Sequence[Any], value: Value) -> tuple[int, int | None] | None:
    """Return the position of a value among arguments, and in a list if it is in one."""
    for position, argument in enumerate(args):
        if _value_of(step, argument) is value:
            return position, None
        if type(argument) is list:
            for index, item in enumerate(argument):
                if _value_of(step, item) is value:
                    return position, index
    return None


def _value_of(step: Step, argument: Any) -> Value | None:
    return argument.value if type(argument) is LazyTensor else step.plain.get(id(argument))


def _enter(
    after: Form,
    step: Step,
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    plain: Mapping[int, Value],
) -> Any:
    """Let expected data in, and return `ENTERED`; return `MISS` for other data."""
    operator, position, index, size, stride, dtype, device, fake = after.wanted
    if func is not operator or len(args) <= position:
        return MISS
    given = args[position]
    if type(given) is list:
        given = given[index] if index is not None and len(given) > index else None
    value = _value_to_enter(step, given, plain)
    data = None if value is None else value.data
    if (
        data is None
        or data.dtype is not dtype
        or data.size() != size
        or data.stride() != stride
        or data.device != device
    ):
        return MISS
    storage = data.untyped_storage()
    memory = int(storage._cdata)
    if memory in step.memories or not (storage.resizable() or owns_memory(data)):
        return MISS
    assert value is not None
    step.memories[memory] = len(step.inputs)
    if type(given) is not LazyTensor:
        step.plain[id(given)] = value
    step.form, step.place = after, after.place
    step.numbers.append(size)
    step.inputs.append(value)
    value.step, value.ref, value.fake = step, ref_of(len(step.values)), fake
    step.values.append(value)
    return ENTERED


def _value_to_enter(step: Step, given: Any, plain: Mapping[int, Value]) -> Value | None:
    """Return the value of data that have not entered; None for data that need the longer way."""
    kind = type(given)
    if kind is LazyTensor:
        value: Value = given.value
        is_new = value.step is not step and value.view is None and value.error is None
        return value if is_new else None
    if kind not in _PLAIN or plain is not step.plain or id(given) in plain:
        return None
    is_other = (
        given.layout is not torch.strided
        or given.is_quantized
        or given.is_nested
        or is_wrapped_by_transform(given)
        or given.is_conj()
        or given.is_neg()
        or given._is_zerotensor()
    )
    return None if is_other else Value(given)


_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
