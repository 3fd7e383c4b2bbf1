"""Tensors of subclasses: a plain tensor in the graph, and an object of the user's class around it.

Operators work on the plain tensor. The class's methods, properties and attributes, and its
``__torch_function__`` (see `overriding`), are Python and are evaluated as such.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import torch

from minitorch2.bytecode.guards.sources import AppliedSource
from minitorch2.bytecode.operators.plain_tensors import gradient_of, is_leaf, of_class
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING, bind, class_lookup
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, literal
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.torch_values.overriding import has_override, overridden
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.node import Node
from minitorch2.graph.wrapper_tensors import is_wrapper
from minitorch2.native.torch_internals.functions import TensorBase

TENSOR_CLASSES: Final = (torch.Tensor, TensorBase, torch.nn.Parameter)
"""Classes whose methods and attributes are those of all tensors."""


def has_own_dispatch(cls: type) -> bool:
    """Return whether a class of tensors has its own ``__torch_dispatch__``, below autograd."""
    inherited = torch.Tensor.__torch_dispatch__
    return issubclass(cls, torch.Tensor) and cls.__torch_dispatch__ is not inherited


class TensorSubclassVariable(TensorVariable, ObjectVariable):
    """A tensor of a subclass.

    Args:
        node: the node of the graph that holds its data.
        fake: shape, strides, dtype and device.
        cls: its class.
        value: the real tensor; MISSING for one that the captured code makes.
    """

    in_graph = False

    def __init__(
        self,
        node: Node,
        fake: FakeTensor,
        cls: type,
        value: object = MISSING,
        capture: Capture | None = None,
        **options: Any,
    ) -> None:
        ObjectVariable.__init__(self, cls, value, None, capture, **options)
        self.hold(node, fake)

    def __repr__(self) -> str:
        return f"TensorSubclassVariable({self.cls.__name__}, node={self.node})"

    def hash_key(self) -> Hashable:
        self.is_key = True
        return ("object", id(self if self.value is MISSING else self.value))

    def truth(self, evaluator: Evaluator) -> bool:
        if class_lookup(self.cls, "__bool__")[0] not in TENSOR_CLASSES:
            return ObjectVariable.truth(self, evaluator)
        answer = overridden(evaluator, "call_method", "__bool__", [self])
        return super().truth(evaluator) if answer is None else answer.truth(evaluator)

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        if class_lookup(self.cls, "__iter__")[0] not in TENSOR_CLASSES:
            return ObjectVariable.items(self, evaluator)
        return super().items(evaluator)

    # Attributes ---------------------------------------------------------------------------------

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        return ObjectVariable.get_attribute(self, evaluator, name)

    def plain_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        found_in, raw = class_lookup(self.cls, name)
        if found_in not in TENSOR_CLASSES or raw is MISSING or name in ("__dict__", "__class__"):
            return ObjectVariable.plain_attribute(self, evaluator, name)
        if not hasattr(type(raw), "__set__") and self._has_own(evaluator, name):
            return ObjectVariable.plain_attribute(self, evaluator, name)
        if isinstance(raw, classmethod | staticmethod):
            return bind(evaluator, self, self.cls, found_in, name, raw)
        if callable(raw):
            return GetAttrVariable(self, name)
        return TensorVariable.get_attribute(self, evaluator, name)

    def instance_dict(self) -> dict[str, object]:
        if self.value is MISSING and is_wrapper(self.fake):
            return self.fake.__dict__
        return super().instance_dict()

    def _own_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        value = self.instance_dict()[name]
        if not isinstance(value, torch.Tensor) or not is_wrapper(self.fake):
            return super()._own_attribute(evaluator, name) if self.source else literal(value)
        args = [self, ConstantVariable(name)]
        with evaluator.capture.overrides.disabled(modes_too=True):
            part = evaluator.capture.call_in_graph(evaluator, "call_function", getattr, args)
        part.source = self.source and self.attribute_source(name)
        return part

    def _has_own(self, evaluator: Evaluator, name: str) -> bool:
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        return isinstance(pending, VariableTracker) or name in self.instance_dict()

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        ObjectVariable.set_attribute(self, evaluator, name, value)

    def plain_set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        found_in, raw = class_lookup(self.cls, name)
        if found_in not in TENSOR_CLASSES or not hasattr(type(raw), "__set__"):
            ObjectVariable.plain_set_attribute(self, evaluator, name, value)
            return
        args = [self, ConstantVariable(name), value]
        if overridden(evaluator, "call_function", setattr, args) is None:
            if name == "grad" and has_override(self):
                unsupported("tensor-attribute-write", "the gradient of a tensor subclass")
            TensorVariable.set_attribute(self, evaluator, name, value)

    def read_inherited(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """Read an attribute of `torch.Tensor`, even if the class has one of its own."""
        return TensorVariable.get_attribute(self, evaluator, name)

    def real(self, evaluator: Evaluator) -> torch.Tensor | None:
        return self.value if isinstance(self.value, torch.Tensor) else None

    def _known_leaf(self, evaluator: Evaluator, real: torch.Tensor) -> VariableTracker:
        return self._asked(evaluator, is_leaf, real.is_leaf)

    def _known_grad(self, evaluator: Evaluator, real: torch.Tensor) -> VariableTracker:
        return self._asked(evaluator, gradient_of, real.grad)

    def _asked(self, evaluator: Evaluator, function: Any, value: object) -> VariableTracker:
        """Return a property of the real tensor, loaded past the class's own override."""
        assert self.source is not None
        asks = evaluator.capture.reference(function)
        return evaluator.capture.wrap(value, AppliedSource(self.source, asks))

    # Methods ------------------------------------------------------------------------------------

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        found_in, raw = class_lookup(self.cls, name)
        if raw is MISSING or found_in not in TENSOR_CLASSES or isinstance(raw, classmethod):
            return ObjectVariable.call_method(self, evaluator, name, args, kwargs)
        return TensorVariable.call_method(self, evaluator, name, args, kwargs)

    def call_builtin(
        self, evaluator: Evaluator, method: Any, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if getattr(method, "__objclass__", torch.Tensor) is object:
            return ObjectVariable.call_builtin(self, evaluator, method, args, kwargs)
        return TensorVariable.call_method(self, evaluator, method.__name__, args, kwargs)

    # Rebuilding ---------------------------------------------------------------------------------

    def rebuild(self, residual: Residual) -> str:
        if is_wrapper(self.fake):
            return residual.graph_output(self.node, self)
        cls, data = residual.reference(self.cls), residual.graph_output(self.node, self)
        if self.leaf_grad is None:
            return residual.bind(f"{residual.reference(of_class)}({data}, {cls})", "tensor")
        tensor = residual.reference(torch.Tensor)
        made = f"{tensor}._make_subclass({cls}, {data}, {self.leaf_grad})"
        return residual.bind(made, "tensor")


def make_wrapper(
    evaluator: Evaluator, cls: type, args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """Call a class of tensors made of others: the call is a node of the graph."""
    made = evaluator.capture.call_in_graph(evaluator, "call_function", cls, args, kwargs)
    if not isinstance(made, TensorSubclassVariable):
        unsupported("construction", f"{cls.__name__} gives something else")
    if made.fake.requires_grad and torch.is_grad_enabled():
        unsupported("leaf-made-inside", f"gradients flow to {made.node}, a leaf that is new")
    return made


def new_tensor(
    evaluator: Evaluator, cls: type, data: TensorVariable, *, leaf_grad: bool | None = None
) -> TensorVariable:
    """Return a tensor of a class that the captured code makes, on the memory of another one.

    Args:
        leaf_grad: whether a new leaf requires gradients; None if the tensor is not a new leaf.
    """
    if is_wrapper(data.fake) or has_own_dispatch(cls):
        unsupported("construction", f"a {cls.__name__} of a {data.cls.__name__}")
    if cls is torch.Tensor:
        made = TensorVariable(data.node, data.fake)
    else:
        made = TensorSubclassVariable(data.node, data.fake, cls, capture=evaluator.capture)
        evaluator.capture.side_effects.new_object(made)
    made.leaf_grad = leaf_grad
    made.guards = data.guards
    return made
