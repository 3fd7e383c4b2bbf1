"""``copy.copy`` and ``copy.deepcopy`` of values that trackers model.

    copied ::= constant, function, class, enum member           as it is
            |  tuple of such                                     as it is
            |  list, tuple, dict, set                            a new one
            |  instance that keeps its state in ``__dict__``     a new one with the same attributes

`Copier` copies objects whose class leaves `__reduce_ex__` to `object`, as the `copy` module does.
The methods of classes with their own protocol are called, or break the graph.
"""

from __future__ import annotations

import copy
import copyreg
import enum
from collections.abc import Callable

import torch

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING, class_lookup
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.opaque import OpaqueVariable
from minitorch2.bytecode.trackers.python_values.builtin import BuiltinVariable, models
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable, new_object
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, is_none
from minitorch2.bytecode.trackers.python_values.functions import FunctionVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.python_values.set import SetVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.graph.fake_tensor import same_storage
from minitorch2.graph.symbols import same_sizes

Copied = Callable[[VariableTracker], VariableTracker]

ATOMS = (ConstantVariable, SymbolicNumberVariable, OpaqueVariable, FunctionVariable, ClassVariable,
         BuiltinVariable)  # fmt: skip
"""Trackers of values that are their own copies."""

PROTOCOL = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__",
            "__getnewargs_ex__")  # fmt: skip
"""Methods by which a class says itself how it is copied."""


@models(copy.copy)
def shallow_copy(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``copy.copy``"""
    if _is_atom(value) or type(value) is TupleVariable:
        return value
    if isinstance(value, ListVariable | DictVariable | SetVariable):
        made = value.call_method(evaluator, "copy", [], {})
        return _with_attributes(evaluator, made, value, lambda attribute: attribute)
    if isinstance(value, TensorVariable):
        return _tensor(evaluator, value, "detach")
    if isinstance(value, ObjectVariable) and class_lookup(value.cls, "__copy__")[1] is not MISSING:
        return value.call_method(evaluator, "__copy__", [], {})
    made = _new_instance(evaluator, value)
    for name, attribute in _attributes(evaluator, value):
        evaluator.capture.side_effects.store_attribute(made, name, attribute, raw=True)
    return made


@models(copy.deepcopy)
def deep_copy(
    evaluator: Evaluator, value: VariableTracker, memo: VariableTracker = NONE
) -> VariableTracker:
    """``copy.deepcopy``, also from inside of a ``__deepcopy__`` with the memo that it was given"""
    if isinstance(memo, MemoVariable):
        return memo.copier.copy(value)
    if not is_none(memo):
        unsupported("copy", "copy.deepcopy with a memo of the caller's")
    return Copier(evaluator).copy(value)


class MemoVariable(DictVariable):
    """The memo of a deep copy: keys are addresses, which are not known while capturing."""

    def __init__(self, copier: Copier) -> None:
        super().__init__(())
        self.copier = copier


class Copier:
    """One deep copy: objects that are shared or cyclic in the original are so in the copy."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._copies: dict[int, VariableTracker] = {}
        self._tensors: list[TensorVariable] = []
        self._memo = MemoVariable(self)

    def copy(self, value: VariableTracker) -> VariableTracker:
        """Return the copy of a value; the same one each time."""
        if _is_atom(value):
            return value
        known = self._copies.get(id(value))
        return self._copied(value) if known is None else known

    def _copied(self, value: VariableTracker) -> VariableTracker:
        if isinstance(value, ListVariable):
            return self._list(value)
        if isinstance(value, DictVariable):
            return self._dict(value)
        if isinstance(value, TupleVariable):
            return self._tuple(value)
        if isinstance(value, SetVariable):
            return value.call_method(self.evaluator, "copy", [], {})  # elements are hashable atoms
        if isinstance(value, TensorVariable):
            return self._copies.setdefault(id(value), self._tensor(value))
        return self._instance(value)

    def _tensor(self, value: TensorVariable) -> VariableTracker:
        """Copy the memory of a tensor once: tensors that share it share the copy, too."""
        shared = (t for t in self._tensors if same_storage(t.fake, value.fake))
        if (known := next(shared, None)) is None:
            self._tensors.append(value)
            return _tensor(self.evaluator, value, "clone")
        memory = known.fake.meta
        whole = memory.untyped_storage().nbytes() == memory.numel() * memory.itemsize
        if not known.fake.is_contiguous() or not whole:
            unsupported("copy", "copy of tensors that share a part of their memory")
        parts = ("size", "stride", "storage_offset")
        layout = [value.call_method(self.evaluator, part, [], {}) for part in parts]
        return self._copies[id(known)].call_method(self.evaluator, "as_strided", layout, {})

    def _list(self, value: ListVariable) -> VariableTracker:
        made = self._copies[id(value)] = value.make([])
        made.elements.extend(self.copy(element) for element in value.realized())
        return made

    def _dict(self, value: DictVariable) -> VariableTracker:
        made = value.make(())
        self._copies[id(value)] = made
        for key, element in value.pairs():
            made.store(self.evaluator, self.copy(key), self.copy(element))
        return _with_attributes(self.evaluator, made, value, self.copy)

    def _tuple(self, value: TupleVariable) -> VariableTracker:
        elements = value.realized()
        copies = [self.copy(element) for element in elements]
        if all(made is element for made, element in zip(copies, elements)):
            return value
        return self._copies.setdefault(id(value), value.make(copies))

    def _instance(self, value: VariableTracker) -> VariableTracker:
        if _has_own_deepcopy(value):
            copied = value.call_method(self.evaluator, "__deepcopy__", [self._memo], {})
            return self._copies.setdefault(id(value), copied)
        made = self._copies[id(value)] = _new_instance(self.evaluator, value)
        for name, attribute in _attributes(self.evaluator, value):
            copied = self.copy(attribute)
            self.evaluator.capture.side_effects.store_attribute(made, name, copied, raw=True)
        return made


def _with_attributes(
    evaluator: Evaluator, made: VariableTracker, value: VariableTracker, copied: Copied
) -> VariableTracker:
    """Give a new container the attributes that another new one was given."""
    for name, attribute in evaluator.capture.side_effects.pending_attributes(value).items():
        if isinstance(attribute, VariableTracker):
            made.set_attribute(evaluator, name, copied(attribute))
    return made


def _tensor(evaluator: Evaluator, value: TensorVariable, method: str) -> VariableTracker:
    """Return a copy of a plain tensor without gradient: with the same memory, or with its own."""
    if value.requires_grad or value.python_type() is not torch.Tensor or value.own_attributes:
        unsupported("copy", f"copy of {value}")
    made = value.call_method(evaluator, method, [], {})
    assert isinstance(made, TensorVariable)
    if not same_sizes(made.fake.stride(), value.fake.stride()):
        unsupported("copy", f"copy of {value}, which leaves gaps in its memory")
    return made


def _is_atom(value: VariableTracker) -> bool:
    return isinstance(value, ATOMS) or issubclass(value.python_type(), enum.Enum)


def _has_own_deepcopy(value: VariableTracker) -> bool:
    """Return whether a user's class defines ``__deepcopy__``."""
    return (
        isinstance(value, ObjectVariable)
        and not _is_atom(value)
        and class_lookup(value.cls, "__deepcopy__")[1] is not MISSING
    )


def _new_instance(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """Return an empty object of the same class, if `object` is all that makes it."""
    cls = value.python_type()
    plain = isinstance(value, ObjectVariable) and value.container is None
    if not plain or issubclass(cls, torch.nn.Module) or cls in copyreg.dispatch_table:
        unsupported("copy", f"copy of {value}")
    found = [class_lookup(cls, name)[0] for name in PROTOCOL if hasattr(cls, name)]
    if _has_slots(cls) or any(base not in (object, None) for base in found):
        unsupported("copy", f"copy of {value}, whose class has its own way to be copied")
    return new_object(evaluator, cls, ())


def _has_slots(cls: type) -> bool:
    """Return whether an instance keeps anything outside its ``__dict__``."""
    slots = (base.__dict__.get("__slots__") for base in cls.__mro__)
    return not cls.__dictoffset__ or any(slots)


def _attributes(evaluator: Evaluator, value: VariableTracker) -> list[tuple[str, VariableTracker]]:
    """Return the entries of ``value.__dict__``."""
    assert isinstance(value, ObjectVariable)
    found = value.plain_attribute(evaluator, "__dict__")
    assert isinstance(found, DictVariable)
    return [(key.as_constant(), attribute) for key, attribute in found.pairs()]
