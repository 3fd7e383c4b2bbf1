"""``torch.tensor`` of numbers that vary and of tensors of no dimension, and ``tolist``.

torch.tensor([x.shape[0], x.sum()])   -->   stack([full((), s0), x.sum().detach()])
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import torch

from minitorch2.bytecode.trackers.base import Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.outside_list import DataListVariable
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    SequenceVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable, from_number
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.graph.symbols.unbacked import unbacked_in

LONGEST_LIST: Final = 16  # elements that the graph reads one by one; Python reads more at once


def holds_tensor(value: VariableTracker) -> bool:
    """Return whether a value, or an element of a container, is a tensor or varies."""
    if isinstance(value, SequenceVariable):
        return any(holds_tensor(element) for element in value.realized())
    if isinstance(value, DictVariable):
        return any(holds_tensor(element) for element in value.values())
    return isinstance(value, TensorVariable | SymbolicNumberVariable)


def made_of_data(evaluator: Evaluator, data: VariableTracker, kwargs: Keywords) -> VariableTracker:
    """``torch.tensor(data, **kwargs)``"""
    call = evaluator.capture.call_in_graph
    if not holds_tensor(data):
        return call(evaluator, "call_function", torch.tensor, [data], kwargs)
    given, leaves = kwargs.get("dtype"), list(_leaves(data))
    if given is None or given.as_constant() is None:
        dtype = functools.reduce(torch.promote_types, map(_dtype_of, leaves))
        kwargs = {**kwargs, "dtype": ConstantVariable(dtype)}
    return _stacked(evaluator, data, kwargs)


def _leaves(data: VariableTracker) -> Iterator[VariableTracker]:
    if not isinstance(data, ListVariable | TupleVariable):
        yield data
        return
    lengths = {
        len(part.realized()) if isinstance(part, ListVariable | TupleVariable) else -1
        for part in data.realized()
    }
    if len(lengths) != 1 or 0 in lengths:
        unsupported("scalar-read", "a tensor made of a list whose parts differ in length")
    for part in data.realized():
        yield from _leaves(part)


_DTYPES: Final = {bool: torch.bool, int: torch.int64}


def _dtype_of(leaf: VariableTracker) -> torch.dtype:
    if isinstance(leaf, TensorVariable):
        if leaf.fake.dim():
            unsupported("scalar-read", "a tensor made of a list with tensors reads their data")
        return leaf.fake.dtype
    kind = leaf.python_type()
    if kind not in (bool, int, float):
        unsupported("scalar-read", f"a tensor made of a list with a {kind.__name__}")
    return _DTYPES.get(kind) or torch.get_default_dtype()


def _stacked(evaluator: Evaluator, data: VariableTracker, kwargs: Keywords) -> VariableTracker:
    """Return the tensor of a number, a tensor or a list, with dtype and device of `kwargs`."""
    call = evaluator.capture.call_in_graph
    if isinstance(data, ListVariable | TupleVariable):
        parts = [_stacked(evaluator, part, kwargs) for part in data.realized()]
        return call(evaluator, "call_function", torch.stack, [TupleVariable(parts)], {})
    if isinstance(data, TensorVariable):
        moved = {"device": ConstantVariable(torch.device("cpu")), **kwargs}
        return data.call_method(evaluator, "detach", [], {}).call_method(evaluator, "to", [], moved)
    return call(evaluator, "call_function", torch.full, [TupleVariable([]), data], kwargs)


def to_list(tensor: TensorVariable, evaluator: Evaluator) -> VariableTracker:
    """``x.tolist()``: numbers that only data will tell."""
    if tensor.fake.ndim == 0:
        return tensor.call_method(evaluator, "item", [], {})
    data: Any = tensor.call_method(evaluator, "detach", [], {})
    data = data.call_method(evaluator, "clone", [], {})

    def read() -> list[VariableTracker]:
        if unbacked_in(data.fake) or data.fake.numel() > LONGEST_LIST:
            unsupported("scalar-read", "Tensor.tolist reads the data of a tensor")
        return [to_list(row, evaluator) for row in data.items(evaluator)]

    return DataListVariable(read, data.node, from_number(data.fake.shape[0]))


SPECIAL_METHODS["tolist"] = to_list
