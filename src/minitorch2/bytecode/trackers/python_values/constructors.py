"""Calls of the built-in classes: ``list(x)``, ``zip(a, b)``, ``torch.Size(...)``, ..."""

from __future__ import annotations

import decimal
import fractions
import functools
import itertools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import torch

from minitorch2.bytecode.polyfills import GETTERS
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_tracker
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.classes import (
    CLASS_METHODS,
    ClassVariable,
    constructs,
    new_object,
)
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, fold
from minitorch2.bytecode.trackers.python_values.counting import (
    ONE,
    CountVariable,
    EnumerateVariable,
)
from minitorch2.bytecode.trackers.python_values.deque import DequeVariable
from minitorch2.bytecode.trackers.python_values.dict_views import MappingProxyVariable
from minitorch2.bytecode.trackers.python_values.functions import GetterVariable, PartialVariable
from minitorch2.bytecode.trackers.python_values.iterator import (
    ChainVariable,
    FilterVariable,
    MapVariable,
    RepeatVariable,
    SliceIterator,
    ZipVariable,
)
from minitorch2.bytecode.trackers.python_values.made_class import make_class
from minitorch2.bytecode.trackers.python_values.mapping import (
    DefaultDictVariable,
    DictVariable,
    entries_of,
)
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    SizeVariable,
    SliceVariable,
    TupleVariable,
    as_index,
)
from minitorch2.bytecode.trackers.python_values.set import SetVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import compute

_ZERO: Final = ConstantVariable(0)


def _elements(evaluator: Evaluator, value: VariableTracker | None) -> list[VariableTracker]:
    return [] if value is None else operations.iterate(evaluator, value)


# Containers ---------------------------------------------------------------------------------------


def _of_elements(cls: type, made: Callable[..., VariableTracker]) -> None:
    """Register a class that takes the elements of an iteration."""
    constructs(cls)(lambda evaluator, values=None: made(_elements(evaluator, values)))


_of_elements(list, ListVariable)
_of_elements(set, SetVariable)
_of_elements(frozenset, functools.partial(SetVariable, cls=frozenset))
_of_elements(torch.Size, SizeVariable)


@constructs(tuple)
def make_tuple(evaluator: Evaluator, values: VariableTracker | None = None) -> VariableTracker:
    """``tuple(values)``; a tuple is itself."""
    if values is not None and values.python_type() is tuple:
        return values
    return TupleVariable(_elements(evaluator, values))


def _of_entries(cls: type) -> None:
    """Register a class that takes a mapping or pairs, and named values."""

    def rule(
        evaluator: Evaluator, other: VariableTracker | None = None, **named: VariableTracker
    ) -> VariableTracker:
        made = DictVariable(entries_of(evaluator, other), cls)
        made.py_update(evaluator, None, **named)
        return made

    constructs(cls)(rule)


_of_entries(dict)
_of_entries(OrderedDict)


@constructs(defaultdict)
def make_default_dict(
    evaluator: Evaluator,
    factory: VariableTracker = NONE,
    other: VariableTracker | None = None,
    **named: VariableTracker,
) -> VariableTracker:
    """``defaultdict(factory, other, **named)``"""
    if isinstance(factory, ConstantVariable) and factory.value is not None:
        raise_observed(TypeError, "first argument must be callable or None")
    made = DefaultDictVariable(entries_of(evaluator, other), factory)
    made.py_update(evaluator, None, **named)
    return made


@constructs(deque)
def make_deque(
    evaluator: Evaluator, values: VariableTracker | None = None, maxlen: VariableTracker = NONE
) -> VariableTracker:
    """``deque(values, maxlen)``"""
    if maxlen.as_constant() is not None and as_index(evaluator, maxlen) < 0:
        raise_observed(ValueError, "maxlen must be non-negative")
    made = DequeVariable((), maxlen.as_constant())
    made.py_extend(evaluator, ListVariable(_elements(evaluator, values)))
    return made


@constructs(types.MethodType)
def make_method(
    evaluator: Evaluator, function: VariableTracker, owner: VariableTracker
) -> VariableTracker:
    """``types.MethodType(function, owner)``"""
    return BoundMethodVariable(function, owner)


@constructs(types.MappingProxyType)
def make_mapping_proxy(evaluator: Evaluator, mapping: VariableTracker) -> VariableTracker:
    """``MappingProxyType(mapping)``"""
    if not isinstance(mapping, DictVariable):
        unsupported("construction", f"a mapping proxy of {mapping}")
    return MappingProxyVariable(mapping)


@constructs(range)
def make_range(evaluator: Evaluator, *bounds: VariableTracker) -> VariableTracker:
    """``range(...)``; a symbolic bound is fixed to the size seen while capturing."""
    if not bounds:
        raise_observed(TypeError, "range expected at least 1 argument, got 0")
    numbers = [ConstantVariable(as_index(evaluator, bound)) for bound in bounds]
    return fold(range, numbers)


@constructs(slice)
def make_slice(evaluator: Evaluator, *parts: VariableTracker) -> VariableTracker:
    """``slice(stop)`` or ``slice(start, stop, step)``"""
    return SliceVariable([NONE, *parts] if len(parts) == 1 else parts)


# Scalars ------------------------------------------------------------------------------------------


@constructs(int)
def make_int(
    evaluator: Evaluator, *args: VariableTracker, **options: VariableTracker
) -> VariableTracker:
    """``int(x)`` or ``int(text, base=base)``"""
    if options:
        return fold(int, args, options)
    return _number(evaluator, int, "__int__", torch.sym_int, args)


@constructs(float)
def make_float(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
    """``float(x)``"""
    return _number(evaluator, float, "__float__", torch.sym_float, args)


def _number(
    evaluator: Evaluator, cls: type, method: str, symbolic: Any, args: tuple[VariableTracker, ...]
) -> VariableTracker:
    if all(arg.is_constant() for arg in args):
        return fold(cls, args)
    if (number := compute(symbolic, *args)) is not None:
        return number
    result = operations.special(evaluator, args[0], method)
    return result or raise_observed(TypeError, f"{cls.__name__}() of a wrong type")


constructs(decimal.Decimal)(lambda evaluator, *args: fold(decimal.Decimal, args))
constructs(fractions.Fraction)(lambda evaluator, *args: fold(fractions.Fraction, args))
constructs(torch.device)(lambda evaluator, *args, **kw: fold(torch.device, args, kw))
constructs(torch.finfo)(lambda evaluator, *args, **kw: fold(torch.finfo, args, kw))
constructs(torch.iinfo)(lambda evaluator, *args, **kw: fold(torch.iinfo, args, kw))


def _by_special(cls: type, *names: str) -> None:
    """Register a class that calls a special method of its argument, unless that is a constant."""

    def rule(
        evaluator: Evaluator, *args: VariableTracker, **options: VariableTracker
    ) -> VariableTracker:
        asked = len(args) == 1 and not args[0].is_constant()
        for name in names if asked else ():
            if (result := operations.special(evaluator, args[0], name)) is not None:
                return fold(cls, [result])
        return fold(cls, args, options)

    constructs(cls)(rule)


_by_special(complex, "__complex__", "__float__", "__index__")
_by_special(bytes, "__bytes__")


@constructs(bool)
def make_bool(evaluator: Evaluator, value: VariableTracker | None = None) -> VariableTracker:
    """``bool(value)``"""
    return ConstantVariable(value is not None and operations.truth(evaluator, value))


@constructs(str)
def make_str(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
    """``str(value)``"""
    if len(args) != 1 or args[0].is_constant():
        return fold(str, args)
    return operations.format_value(evaluator, args[0], "s", None)


@constructs(type)
def make_type(
    evaluator: Evaluator, *args: VariableTracker, **options: VariableTracker
) -> VariableTracker:
    """``type(value)``; with three arguments it makes a class."""
    if len(args) != 1:
        return make_class(evaluator, class_tracker(evaluator, type), args, options)
    return class_tracker(evaluator, args[0].python_type())


@constructs(object)
def make_object(evaluator: Evaluator) -> VariableTracker:
    """``object()``"""
    return new_object(evaluator, object, ())


# Iterators ----------------------------------------------------------------------------------------


@constructs(enumerate)
def make_enumerate(
    evaluator: Evaluator, iterable: VariableTracker, start: VariableTracker = _ZERO
) -> VariableTracker:
    """``enumerate(iterable, start)``"""
    first = ConstantVariable(as_index(evaluator, start))
    return EnumerateVariable(first, operations.get_iterator(evaluator, iterable))


@constructs(zip)
def make_zip(
    evaluator: Evaluator, *iterables: VariableTracker, strict: VariableTracker | None = None
) -> VariableTracker:
    """``zip(*iterables, strict=strict)``"""
    checked = strict is not None and operations.truth(evaluator, strict)
    iterators = [operations.get_iterator(evaluator, iterable) for iterable in iterables]
    return ZipVariable(iterators, checked, TupleVariable)


@constructs(map)
def make_map(
    evaluator: Evaluator, function: VariableTracker, *iterables: VariableTracker
) -> VariableTracker:
    """``map(function, *iterables)``"""
    return MapVariable(
        function, [operations.get_iterator(evaluator, iterable) for iterable in iterables]
    )


@constructs(filter)
def make_filter(
    evaluator: Evaluator, function: VariableTracker, iterable: VariableTracker
) -> VariableTracker:
    """``filter(function, iterable)``"""
    return FilterVariable(function, operations.get_iterator(evaluator, iterable))


@constructs(reversed)
def make_reversed(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``reversed(value)``"""
    result = operations.special(evaluator, value, "__reversed__")
    if result is not None:
        return result
    count = operations.length(evaluator, value).as_constant()
    items = [
        operations.get_item(evaluator, value, ConstantVariable(i)) for i in reversed(range(count))
    ]
    return ListVariable(items).py___iter__(evaluator)


@constructs(itertools.chain)
def make_chain(evaluator: Evaluator, *iterables: VariableTracker) -> VariableTracker:
    """``itertools.chain(*iterables)``"""
    outer = operations.get_iterator(evaluator, TupleVariable(iterables))
    return ChainVariable(outer, operations.get_iterator)


CLASS_METHODS[itertools.chain, "from_iterable"] = lambda evaluator, cls, iterables: ChainVariable(
    operations.get_iterator(evaluator, iterables), operations.get_iterator
)


def _from_keys(
    evaluator: Evaluator, cls: ClassVariable, keys: VariableTracker, value: VariableTracker = NONE
) -> VariableTracker:
    pairs = [(key, value) for key in operations.iterate(evaluator, keys)]
    return DictVariable(pairs, cls.value)


CLASS_METHODS[dict, "fromkeys"] = _from_keys


@constructs(itertools.count)
def make_count(
    evaluator: Evaluator, start: VariableTracker = _ZERO, step: VariableTracker = ONE
) -> VariableTracker:
    """``itertools.count(start, step)``"""
    return CountVariable(start, step)


@constructs(itertools.repeat)
def make_repeat(
    evaluator: Evaluator, element: VariableTracker, times: VariableTracker | None = None
) -> VariableTracker:
    """``itertools.repeat(element, times)``"""
    return RepeatVariable(element, None if times is None else as_index(evaluator, times))


@constructs(itertools.islice)
def make_islice(
    evaluator: Evaluator, iterable: VariableTracker, *bounds: VariableTracker
) -> VariableTracker:
    """``itertools.islice(iterable, [start,] stop[, step])``"""
    limits = slice(*(bound.as_constant() for bound in bounds))
    start, step = limits.start or 0, limits.step or 1
    return SliceIterator(operations.get_iterator(evaluator, iterable), start, limits.stop, step)


def _over_lists(function: Any) -> None:
    """Register an iterator class of itertools that only rearranges finite iterables."""

    def rule(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        values = [
            a if a.is_constant() and not hasattr(a.python_type(), "__iter__")
            else _elements(evaluator, a) for a in args
        ]  # fmt: skip
        real = [v.as_constant() if isinstance(v, VariableTracker) else v for v in values]
        options = {name: value.as_constant() for name, value in kwargs.items()}
        rows = [TupleVariable(row) for row in function(*real, **options)]
        return ListVariable(rows).py___iter__(evaluator)

    constructs(function)(rule)


for _function in (
    itertools.product,
    itertools.combinations,
    itertools.permutations,
    itertools.combinations_with_replacement,
):
    _over_lists(_function)


@constructs(functools.partial)
def make_partial(
    evaluator: Evaluator,
    function: VariableTracker,
    *args: VariableTracker,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """``functools.partial(function, *args, **kwargs)``; a partial of a partial is one."""
    if type(function) is PartialVariable and function.is_plain(evaluator):
        args, kwargs = (*function.args, *args), {**function.kwargs, **kwargs}
        function = function.function
    made = PartialVariable(function, args, kwargs)
    evaluator.capture.side_effects.new_object(made)
    return made


def _getter(function: Any, body: Any) -> None:
    """Register a callable of `operator` that its arguments make: `itemgetter` and its like."""

    def rule(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        return GetterVariable(function, evaluator.capture.wrap(body, None), args, kwargs)

    constructs(function)(rule)


for _getter_class, _getter_body in GETTERS.items():
    _getter(_getter_class, _getter_body)
