"""The memory of tensors: storages, addresses, and ``resize_``.

An address is known only when the program runs, as an `id` is. Two addresses are equal if they are
of one place in one memory: so they can be compared, and be keys. Inputs that share memory, or
do not, are guarded to go on so.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.autograd.graph import increment_version

from minitorch2.bytecode.guards import StorageSize
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, GraphInput, Residual
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, literal
from minitorch2.bytecode.trackers.python_values.identity import IdentityVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable
from minitorch2.bytecode.trackers.side_effects import TensorEffect
from minitorch2.bytecode.trackers.torch_values.symbolic import from_number
from minitorch2.bytecode.trackers.torch_values.tensor import (
    ATTRIBUTE_SETTERS,
    SPECIAL_METHODS,
    TensorVariable,
)
from minitorch2.graph.fake_tensor import same_storage, storage_key
from minitorch2.graph.symbols import same_sizes

SIZES = ("size", "nbytes", "__len__")
"""Methods of a storage that give its bytes."""


class StorageVariable(VariableTracker):
    """``tensor.untyped_storage()``"""

    def __init__(self, tensor: TensorVariable, evaluator: Evaluator) -> None:
        super().__init__()
        self.tensor, self.node, self.fake = tensor, tensor.node, tensor.fake
        inputs = evaluator.capture.inputs_in_memory_of(tensor.fake)
        self.input: GraphInput | None = next(inputs, None)

    def python_type(self) -> type:
        return torch.UntypedStorage

    def truth(self, evaluator: Evaluator) -> bool:
        return self._bytes(evaluator).truth(evaluator)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "device":
            return literal(self.fake.device)
        if callable(getattr(torch.UntypedStorage, name, None)):
            return GetAttrVariable(self, name)
        return super().get_attribute(evaluator, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in SIZES and not args:
            return self._bytes(evaluator)
        if name == "data_ptr":
            return self.address(evaluator, self._bytes(evaluator).truth(evaluator), whole=True)
        return unsupported("tensor-method", f"UntypedStorage.{name} of a tensor")

    def _bytes(self, evaluator: Evaluator) -> VariableTracker:
        if self.input is None:
            return from_number(self.fake.meta.untyped_storage().nbytes())
        entry, value = self.input, self.input.value
        found = value.untyped_storage().nbytes()
        is_whole = found == value.nbytes
        evaluator.capture.add_guard(StorageSize(entry.source, None if is_whole else found))
        val = entry.node.meta["val"]
        return from_number(val.numel() * val.itemsize if is_whole else found)

    def address(self, evaluator: Evaluator, exists: bool, whole: bool) -> VariableTracker:
        """Return the address of the memory, or of the tensor's first element in it."""
        if not exists:
            return ConstantVariable(0)
        if self.input is not None:
            evaluator.capture.asked_memory[self.input.source] = self.input.value
        return AddressVariable(self, self.memory(), 0 if whole else self.offset(), whole)

    def memory(self) -> Hashable:
        """Return what stands for the memory."""
        if self.input is None:
            return storage_key(self.fake)
        return "input", storage_key(self.input.value)

    def offset(self) -> Any:
        """Return the bytes in front of the tensor's first element, which may be a symbol."""
        place = self.fake.storage_offset() * self.fake.itemsize
        if self.input is None:
            return place
        value, fake = self.input.value, self.input.node.meta["val"]
        return place + (value.storage_offset() - fake.storage_offset()) * value.itemsize

    def reconstruct(self, residual: Residual) -> str:
        return f"{self.owner_name(residual)}.untyped_storage()"

    def owner_name(self, residual: Residual) -> str:
        """Return the name of the tensor, which must still lie in this memory."""
        if self.tensor.node is not self.node:
            unsupported("tensor-method", "the memory that a tensor had before its data changed")
        return residual.name_for(self.tensor)


class AddressVariable(IdentityVariable):
    """``tensor.data_ptr()`` or ``tensor.untyped_storage().data_ptr()``"""

    owner: StorageVariable

    def __init__(self, storage: StorageVariable, memory: Hashable, offset: Any, whole: bool):
        super().__init__(storage)
        self.memory, self.offset, self.whole = memory, offset, whole

    def hash_key(self) -> Hashable:
        return ("id", (self.memory, int(self.offset)))

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        other = args[0] if args else None
        if name in ("__eq__", "__ne__") and other is not None:
            if isinstance(other, AddressVariable):
                is_same = self.memory == other.memory and bool(self.offset == other.offset)
                return ConstantVariable(is_same == (name == "__eq__"))
            if other.is_constant() and other.as_constant() == 0:
                return ConstantVariable(name == "__ne__")
        return super().call_method(evaluator, name, args, kwargs)

    def reconstruct(self, residual: Residual) -> str:
        storage = ".untyped_storage()" if self.whole else ""
        return f"{self.owner.owner_name(residual)}{storage}.data_ptr()"


def untyped_storage(tensor: TensorVariable, evaluator: Evaluator) -> VariableTracker:
    """``tensor.untyped_storage()``"""
    if type(tensor) is not TensorVariable:
        unsupported("tensor-method", "the memory of a tensor that is no plain one")
    return StorageVariable(tensor, evaluator)


def data_ptr(tensor: TensorVariable, evaluator: Evaluator) -> VariableTracker:
    """``tensor.data_ptr()``"""
    if type(tensor) is not TensorVariable:
        unsupported("scalar-read", "Tensor.data_ptr of a tensor that is no plain one")
    exists = bool(tensor.fake.numel() != 0)
    return StorageVariable(tensor, evaluator).address(evaluator, exists, whole=False)


def is_set_to(
    tensor: TensorVariable, evaluator: Evaluator, other: VariableTracker
) -> VariableTracker:
    """``tensor.is_set_to(other)``"""
    if type(tensor) is not TensorVariable or type(other) is not TensorVariable:
        unsupported("tensor-method", "Tensor.is_set_to of a tensor that is no plain one")
    storages = [StorageVariable(each, evaluator) for each in (tensor, other)]
    one, two = (each.address(evaluator, exists=True, whole=False) for each in storages)
    is_same = one.call_method(evaluator, "__eq__", [two], {}).truth(evaluator)
    fits = same_sizes(tensor.fake.shape, other.fake.shape)
    return ConstantVariable(
        is_same and fits and same_sizes(tensor.fake.stride(), other.fake.stride())
    )


# Sizes --------------------------------------------------------------------------------------------


def resize_(
    tensor: TensorVariable, evaluator: Evaluator, *size: VariableTracker, **options: VariableTracker
) -> VariableTracker:
    """``tensor.resize_(*size)``: the tensor's first elements, or more memory behind them."""
    if tensor.requires_grad:
        unsupported("operator-error", "Tensor.resize_ of a tensor that requires gradients")
    if options or type(tensor) is not TensorVariable:
        unsupported("tensor-method", "Tensor.resize_ with options, or of a tensor subclass")
    like = tensor.call_method(evaluator, "new_empty", size, {})
    assert isinstance(like, TensorVariable)
    if same_sizes(tensor.fake.shape, like.fake.shape):
        return tensor
    flat, start = _elements(tensor, evaluator), ConstantVariable(0)
    if bool(like.fake.numel() <= tensor.fake.numel()):
        args = [start, start, from_number(like.fake.numel())]
        flat = flat.call_method(evaluator, "narrow", args, {})
    else:
        flat = _longer(tensor, evaluator, flat, like)
    ATTRIBUTE_SETTERS["data"](tensor, evaluator, flat.call_method(evaluator, "view", size, {}))
    if tensor.source is not None:
        evaluator.capture.side_effects.add(TensorEffect(increment_version, tensor))
    return tensor


def _elements(tensor: TensorVariable, evaluator: Evaluator) -> VariableTracker:
    """Return the elements of a tensor's memory from its first one on, as one dimension."""
    fake = tensor.fake
    if not fake.is_contiguous():
        unsupported("tensor-method", "Tensor.resize_ of a tensor with gaps, or in another order")
    return tensor.call_method(evaluator, "view", [ConstantVariable(-1)], {})


def _longer(
    tensor: TensorVariable, evaluator: Evaluator, flat: Any, like: TensorVariable
) -> VariableTracker:
    """Return new memory that begins with the elements of a tensor: nothing else sees the old."""
    capture, fake = evaluator.capture, tensor.fake
    nodes = (node.meta.get("val") for node in tensor.node.graph.nodes if node is not flat.node)
    others = (x for x in nodes if isinstance(x, torch.Tensor) and x is not fake)
    if next(capture.inputs_in_memory_of(fake), None) is not None:
        unsupported("tensor-method", "Tensor.resize_ of an input to more elements than it has")
    if fake.storage_offset() != 0 or any(same_storage(x, fake) for x in others):
        unsupported("tensor-method", "Tensor.resize_ to more memory, of which there are views")
    if bool(fake.numel() == 0):
        return like.call_method(evaluator, "view", [ConstantVariable(-1)], {})
    more = from_number(like.fake.numel() - fake.numel())
    rest = tensor.call_method(evaluator, "new_empty", [more], {})
    parts = [ListVariable([flat, rest])]
    return capture.call_in_graph(evaluator, "call_function", torch.cat, parts)


def resize_as_(
    tensor: TensorVariable, evaluator: Evaluator, other: VariableTracker, **options: VariableTracker
) -> VariableTracker:
    """``tensor.resize_as_(other)``"""
    if not isinstance(other, TensorVariable):
        unsupported("tensor-method", "Tensor.resize_as_ of what is no tensor")
    return resize_(tensor, evaluator, other.size(), **options)


SPECIAL_METHODS.update(
    untyped_storage=untyped_storage,
    data_ptr=data_ptr,
    is_set_to=is_set_to,
    resize_=resize_,
    resize_as_=resize_as_,
)
