"""Lists, tuples, named tuples, `torch.Size` and slices.

Each holds trackers of its elements. A list that came from outside and is changed gets its
final contents, in place, after the graph. PyTorch 2 paper, sections 3.5 and 3.7.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import torch

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING, class_lookup
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.lazy import realize, realize_all
from minitorch2.bytecode.trackers.modeled import ComparedVariable, ModeledVariable
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    NOT_IMPLEMENTED,
    ConstantVariable,
    fold,
    literal,
    register_literal,
)
from minitorch2.bytecode.trackers.python_values.iterator import SequenceIterator
from minitorch2.graph.node import Argument


class SequenceVariable(ComparedVariable):
    """The base of lists and tuples.

    `elements` may be lazy until `element` or `items` takes them.
    """

    CLS: ClassVar[Any] = object

    def __init__(self, elements: Sequence[VariableTracker], **options: Any) -> None:
        super().__init__(**options)
        self.elements = list(elements)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length={len(self.elements)}, source={self.source})"

    def python_type(self) -> type:
        return self.CLS  # type: ignore[no-any-return]

    @property
    def empty(self) -> Any:
        """A sequence of the same class, without elements."""
        return self.CLS()

    def make(self, elements: Sequence[VariableTracker]) -> SequenceVariable:
        """Return a new sequence of the same kind."""
        return type(self)(elements)

    def element(self, index: int) -> VariableTracker:
        """Return one element, no longer lazy."""
        self.elements[index] = realize(self.elements[index])
        return self.elements[index]

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        return self.realized()

    def realized(self) -> list[VariableTracker]:
        """Return the list of the elements itself, none of them lazy."""
        self.elements[:] = realize_all(self.elements)
        return self.elements

    def is_constant(self) -> bool:
        return all(element.is_constant() for element in self.realized())

    def as_constant(self) -> Any:
        return self.CLS([element.as_constant() for element in self.realized()])

    def as_argument(self) -> Argument:
        parts = [element.as_argument() for element in self.realized()]
        return tuple(parts) if issubclass(self.python_type(), tuple) else self.CLS(parts)

    def truth(self, evaluator: Evaluator) -> bool:
        return bool(self.elements)

    # Reading ------------------------------------------------------------------------------------

    def py___len__(self, evaluator: Evaluator) -> VariableTracker:
        return ConstantVariable(len(self.elements))

    def py___iter__(self, evaluator: Evaluator) -> VariableTracker:
        return SequenceIterator(self)

    def py___reversed__(self, evaluator: Evaluator) -> VariableTracker:
        return SequenceIterator(self, reversed)

    def py___getitem__(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        index = self.index_of(evaluator, key)
        if not isinstance(index, slice):
            return self.element(index)
        try:
            return self.make(self.elements[index])
        except TypeError as error:
            return raise_as_observed(error)

    def py___contains__(self, evaluator: Evaluator, item: VariableTracker) -> VariableTracker:
        found = any(operations.equal(evaluator, e, item) for e in self.realized())
        return ConstantVariable(found)

    def py_index(
        self,
        evaluator: Evaluator,
        item: VariableTracker,
        start: VariableTracker | None = None,
        stop: VariableTracker | None = None,
    ) -> VariableTracker:
        bounds: Any = slice(start and start.as_constant(), stop and stop.as_constant())
        try:
            places = range(len(self.elements))[bounds]
        except TypeError:
            raise_observed(TypeError, "slice indices must be integers or have an __index__ method")
        for index in places:
            if operations.equal(evaluator, self.element(index), item):
                return ConstantVariable(index)
        return raise_observed(ValueError, f"{item} is not in {self.python_type().__name__}")

    def py_count(self, evaluator: Evaluator, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(
            sum(operations.equal(evaluator, element, item) for element in self.realized())
        )

    def index_of(self, evaluator: Evaluator, key: VariableTracker, use: str = "") -> Any:
        """Return a valid int index, or a slice of constants; else raise TypeError or IndexError.

        Args:
            use: the word in the IndexError for an index that is not for reading.
        """
        if isinstance(key, SliceVariable):
            return key.as_constant()
        index = as_index(evaluator, key)
        try:
            return range(len(self.elements))[index]
        except IndexError:
            use = use or f"{self.python_type().__name__} index"
            raise_observed(IndexError, f"{use} out of range")
        except TypeError:
            name = key.python_type().__name__
            kind = self.python_type().__name__
            raise_observed(TypeError, f"{kind} indices must be integers or slices, not {name}")

    def py___repr__(self, evaluator: Evaluator) -> VariableTracker:
        if self.is_constant():
            return fold(repr, [self])
        shown = [operations.format_value(evaluator, e, "r", None) for e in self.realized()]
        return ConstantVariable(self.text([str(one.as_constant()) for one in shown]))

    def text(self, shown: list[str]) -> str:
        """Return the ``repr``, given the elements' texts."""
        unsupported("format", f"the text of a {self.python_type().__name__}")

    # Comparing ----------------------------------------------------------------------------------

    def compare(self, evaluator: Evaluator, other: VariableTracker, symbol: str) -> VariableTracker:
        if not isinstance(other, SequenceVariable) or not self._comparable(other):
            return NOT_IMPLEMENTED
        mine, others = self.realized(), other.realized()
        if symbol in ("==", "!=") and len(mine) != len(others):
            return ConstantVariable(symbol == "!=")
        for a, b in zip(mine, others, strict=False):
            if not operations.equal(evaluator, a, b):
                if symbol in ("==", "!="):
                    return ConstantVariable(symbol == "!=")
                return operations.compare(evaluator, symbol, a, b)
        function = operations.COMPARISONS[symbol][2]
        return ConstantVariable(function(len(mine), len(others)))

    def _comparable(self, other: SequenceVariable) -> bool:
        base = tuple if isinstance(self, TupleVariable) else self.CLS
        return issubclass(other.python_type(), base)

    # Combining ----------------------------------------------------------------------------------

    def py___add__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        if not isinstance(other, SequenceVariable) or not self._comparable(other):
            return NOT_IMPLEMENTED
        return self.concatenated([*self.elements, *other.elements])

    def concatenated(self, elements: Sequence[VariableTracker]) -> VariableTracker:
        """Return the result of ``+`` and ``*``, given its elements."""
        return self.make(elements)

    def py___mul__(self, evaluator: Evaluator, times: VariableTracker) -> VariableTracker:
        return self.concatenated(self.elements * repetitions(evaluator, times))

    py___rmul__ = py___mul__

    def names(self, residual: Residual) -> str:
        """Return the elements' names, separated by commas."""
        return ", ".join(residual.name_for(element) for element in self.elements)


def as_index(evaluator: Evaluator, key: VariableTracker) -> int:
    """``operator.index(key)`` of a constant; a tensor or symbolic number would need its value."""
    if not key.is_constant():
        if hasattr(key.python_type(), "__index__") and not key.in_graph:
            return as_index(evaluator, key.call_method(evaluator, "__index__", [], {}))
        unsupported("scalar-read", f"{key} as an index of a Python container needs its value")
    try:
        return operator.index(key.as_constant())
    except TypeError as error:
        raise_as_observed(error)


class TupleVariable(SequenceVariable):
    """A tuple."""

    CLS: ClassVar[Any] = tuple

    def hash_key(self) -> Hashable:
        return ("tuple", *(element.hash_key() for element in self.realized()))

    def name_as_key(self, residual: Residual) -> str:
        for element in self.realized():
            element.name_as_key(residual)
        return residual.name_for(self)

    def py___hash__(self, evaluator: Evaluator) -> VariableTracker:
        return ConstantVariable(hash(self.as_constant()))

    def text(self, shown: list[str]) -> str:
        return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"

    def rebuild(self, residual: Residual) -> str:
        return f"({self.names(residual)}{',' if len(self.elements) == 1 else ''})"


class SizeVariable(TupleVariable):
    """A `torch.Size`."""

    CLS = torch.Size

    def concatenated(self, elements: Sequence[VariableTracker]) -> VariableTracker:
        elements = realize_all(elements)
        whole = all(element.python_type() is int for element in elements)
        return SizeVariable(elements) if whole else TupleVariable(elements)

    def py___radd__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        if not isinstance(other, TupleVariable):
            return NOT_IMPLEMENTED
        return self.concatenated([*other.elements, *self.elements])

    def text(self, shown: list[str]) -> str:
        return f"torch.Size([{', '.join(shown)}])"

    def py_numel(self, evaluator: Evaluator) -> VariableTracker:
        product: VariableTracker = ConstantVariable(1)
        for element in self.realized():
            product = operations.binary(evaluator, "*", product, element)
        return product

    def rebuild(self, residual: Residual) -> str:
        return f"{residual.reference(torch.Size)}([{self.names(residual)}])"


class NamedTupleVariable(TupleVariable):
    """A named tuple, or one of `torch.return_types`: a tuple class with names for its elements."""

    def __init__(
        self,
        elements: Sequence[VariableTracker],
        cls: type,
        fields: tuple[str, ...],
        **options: Any,
    ) -> None:
        super().__init__(elements, **options)
        self.cls = cls
        self.fields = fields

    def python_type(self) -> type:
        return self.cls

    def make(self, elements: Sequence[VariableTracker]) -> SequenceVariable:
        return TupleVariable(elements)

    def as_constant(self) -> Any:
        return self._call([element.as_constant() for element in self.realized()])

    def text(self, shown: list[str]) -> str:
        parts = [f"{field}={one}" for field, one in zip(self.fields, shown, strict=True)]
        return f"{self.cls.__name__}({', '.join(parts)})"

    def _call(self, values: list[Any]) -> Any:
        return tuple.__new__(self.cls, values) if hasattr(self.cls, "_make") else self.cls(values)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in self.fields:
            return self.element(self.fields.index(name))
        if name in ("_fields", "__match_args__") and hasattr(self.cls, name):
            return literal(self.fields)
        if name == "__class__":
            return evaluator.capture.wrap(self.cls, evaluator.capture.reference(self.cls))
        if name in tuple.__dict__:
            return super().get_attribute(evaluator, name)
        return inherited_attribute(evaluator, self, name)

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if name in self.fields and hasattr(self.cls, "_make"):
            raise_observed(AttributeError, "can't set attribute")
        if class_lookup(self.cls, name)[1] is not MISSING:
            super().set_attribute(evaluator, name, value)
        message = f"{self.cls.__name__!r} object has no attribute {name!r}"
        raise_observed(AttributeError, message)

    def rebuild(self, residual: Residual) -> str:
        cls = residual.reference(self.cls)
        if hasattr(self.cls, "_make"):
            return f"tuple.__new__({cls}, [{self.names(residual)}])"
        return f"{cls}([{self.names(residual)}])"


def inherited_attribute(evaluator: Evaluator, owner: VariableTracker, name: str) -> VariableTracker:
    """Return a method, property or constant that a Python class gives to a container."""
    cls = owner.python_type()
    capture = evaluator.capture
    class_tracker: Any = capture.wrap(cls, capture.reference(cls))
    return class_tracker.bind_attribute(evaluator, owner, name)  # type: ignore[no-any-return]


class ListVariable(SequenceVariable):
    """A list."""

    CLS: ClassVar[Any] = list

    def hash_key(self) -> Hashable:
        return raise_observed(TypeError, f"unhashable type: '{self.python_type().__name__}'")

    def text(self, shown: list[str]) -> str:
        return f"[{', '.join(shown)}]"

    def changed(self, evaluator: Evaluator) -> list[VariableTracker]:
        """Record a change that is about to happen; return the elements."""
        self.record_change(evaluator)
        return self.elements

    def py_append(self, evaluator: Evaluator, item: VariableTracker) -> None:
        self.changed(evaluator).append(item)

    def py_extend(self, evaluator: Evaluator, items: VariableTracker) -> None:
        new = list(operations.iterate(evaluator, items))
        self.changed(evaluator).extend(new)

    def py_insert(
        self, evaluator: Evaluator, index: VariableTracker, item: VariableTracker
    ) -> None:
        self.changed(evaluator).insert(as_index(evaluator, index), item)

    def py_pop(self, evaluator: Evaluator, index: VariableTracker | None = None) -> VariableTracker:
        if not self.elements:
            raise_observed(IndexError, f"pop from empty {self.python_type().__name__}")
        at = self.index_of(evaluator, index or ConstantVariable(-1))
        element = self.element(at)
        del self.changed(evaluator)[at]
        return element

    def py_remove(self, evaluator: Evaluator, item: VariableTracker) -> None:
        for index in range(len(self.elements)):
            if operations.equal(evaluator, self.element(index), item):
                del self.changed(evaluator)[index]
                return
        raise_observed(ValueError, f"{self.python_type().__name__}.remove(x): x not in list")

    def py_clear(self, evaluator: Evaluator) -> None:
        self.changed(evaluator).clear()

    def py_reverse(self, evaluator: Evaluator) -> None:
        self.changed(evaluator).reverse()

    def py_copy(self, evaluator: Evaluator) -> VariableTracker:
        return self.make(self.elements)

    def py_sort(
        self,
        evaluator: Evaluator,
        *,
        key: VariableTracker | None = None,
        reverse: VariableTracker | None = None,
    ) -> None:
        ordered = sort(evaluator, self.realized(), key, reverse)
        self.changed(evaluator)[:] = ordered

    def py___setitem__(
        self, evaluator: Evaluator, key: VariableTracker, value: VariableTracker
    ) -> None:
        index = self.index_of(evaluator, key, "list assignment index")
        new: Any = operations.iterate(evaluator, value) if isinstance(index, slice) else value
        try:
            self.changed(evaluator)[index] = new
        except ValueError as error:
            raise_as_observed(error)

    def py___delitem__(self, evaluator: Evaluator, key: VariableTracker) -> None:
        index = self.index_of(evaluator, key, "list assignment index")
        del self.changed(evaluator)[index]

    def py___iadd__(self, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
        self.py_extend(evaluator, other)
        return self

    def py___imul__(self, evaluator: Evaluator, times: VariableTracker) -> VariableTracker:
        self.changed(evaluator)[:] = self.elements * repetitions(evaluator, times)
        return self

    def rebuild(self, residual: Residual) -> str:
        return f"[{self.names(residual)}]"

    def mutation(self, residual: Residual, name: str) -> list[str]:
        return [f"{name}[:] = [{self.names(residual)}]"]


def repetitions(evaluator: Evaluator, times: VariableTracker) -> int:
    """Return the number of repetitions of a sequence."""
    kind = times.python_type()
    if not hasattr(kind, "__index__"):
        raise_observed(TypeError, f"can't multiply sequence by non-int of type {kind.__name__!r}")
    return as_index(evaluator, times)


def sort(
    evaluator: Evaluator,
    elements: Sequence[VariableTracker],
    key: VariableTracker | None = None,
    reverse: VariableTracker | None = None,
) -> list[VariableTracker]:
    """``sorted(elements, key=key, reverse=reverse)``: stable; compares with the user's ``<``."""
    keys = list(elements)
    if key is not None and not (key.is_constant() and key.as_constant() is None):
        keys = [key.call(evaluator, [element], {}) for element in elements]

    def order(a: int, b: int) -> int:
        less = operations.compare(evaluator, "<", keys[a], keys[b])
        if operations.truth(evaluator, less):
            return -1
        more = operations.compare(evaluator, "<", keys[b], keys[a])
        return int(operations.truth(evaluator, more))

    descending = reverse is not None and operations.truth(evaluator, reverse)
    order_key = functools.cmp_to_key(order)
    indices = sorted(range(len(keys)), key=order_key, reverse=descending)
    return [elements[i] for i in indices]


class SliceVariable(ModeledVariable):
    """A slice of anything: ``parts`` are start, stop and, if given, step."""

    def __init__(self, parts: Sequence[VariableTracker], **options: Any) -> None:
        super().__init__(**options)
        self.parts = (*parts, NONE)[:3]

    def python_type(self) -> type:
        return slice

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts)

    def is_foldable(self) -> bool:
        return all(part.is_foldable() for part in self.parts)

    def as_constant(self) -> Any:
        if not self.is_foldable():
            unsupported("scalar-read", f"a slice of {self.parts} needs the value of a tensor")
        return slice(*(part.as_constant() for part in self.parts))

    def as_argument(self) -> Argument:
        return slice(*(part.as_argument() for part in self.parts))

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return super().get_attribute(evaluator, name)

    def py_indices(self, evaluator: Evaluator, length: VariableTracker) -> VariableTracker:
        return literal(self.as_constant().indices(as_index(evaluator, length)))

    def reconstruct(self, residual: Residual) -> str:
        return f"slice({', '.join(residual.name_for(part) for part in self.parts)})"


def literal_elements(
    make: Callable[[list[VariableTracker]], VariableTracker],
) -> Callable[[Any], VariableTracker]:
    """Return a rule for `register_literal`: wrap the elements, then make the container of them."""
    return lambda values: make([literal(value) for value in values])


register_literal(tuple, literal_elements(TupleVariable))
register_literal(list, literal_elements(ListVariable))
register_literal(torch.Size, literal_elements(SizeVariable))
register_literal(slice, lambda s: SliceVariable([*map(literal, (s.start, s.stop, s.step))]))
