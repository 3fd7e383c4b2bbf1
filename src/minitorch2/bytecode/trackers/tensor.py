"""Tensors: a node of the graph and a fake value, no data.

Metadata (shape, dtype, device, ...) is known while capturing and folds; operators become nodes;
what needs the data ends the graph. PyTorch 2 paper, section 3.5 (*TensorVariable*).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch

from minitorch2.bytecode.guards import AttributeGuard
from minitorch2.bytecode.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.constant import ConstantVariable, literal
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.sequence import SizeVariable, TupleVariable
from minitorch2.bytecode.trackers.symbolic import from_number
from minitorch2.bytecode.trackers.tensor_names import (
    BINARY,
    COMPARISONS,
    IMPURE_METHODS,
    METADATA,
    METADATA_METHODS,
    SCALAR_READS,
    TENSOR_ATTRIBUTES,
    UNARY,
)

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual
    from minitorch2.graph.fake_tensor import FakeTensor
    from minitorch2.graph.node import Argument, Node


class TensorVariable(VariableTracker):
    """A tensor.

    Attributes:
        node: the node whose value it is.
        fake: shape, strides, dtype and device, without data.
        cls: `torch.Tensor` or `torch.nn.Parameter`.
        own_attributes: names that the user's program has set on the tensor object.
    """

    in_graph: ClassVar[bool] = True

    def __init__(
        self,
        node: Node,
        fake: FakeTensor,
        cls: type = torch.Tensor,
        own_attributes: frozenset[str] = frozenset(),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.node = node
        self.fake = fake
        self.cls = cls
        self.own_attributes = own_attributes

    def __repr__(self) -> str:
        return f"TensorVariable(node={self.node}, source={self.source})"

    def python_type(self) -> type:
        return self.cls

    def as_argument(self) -> Argument:
        return self.node

    def truth(self, evaluator: Evaluator) -> bool:
        return unsupported(
            "data-dependent-branch",
            f"the program branches on the value of the tensor {self.node}",
            "use torch.where, or move the branch out of the compiled function",
        )

    # Attributes ---------------------------------------------------------------------------------

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "shape":
            return self.size()
        if name in METADATA:
            return literal(getattr(self.fake, name))
        if name in TENSOR_ATTRIBUTES:
            args = [self, ConstantVariable(name)]
            return evaluator.capture.call_in_graph(evaluator, "call_function", getattr, args)
        if name == "is_leaf":
            return self._is_leaf()
        if name == "__class__":
            return evaluator.capture.wrap(self.cls, evaluator.capture.reference(self.cls))
        if callable(getattr(torch.Tensor, name, None)):
            return GetAttrVariable(self, name)
        if not hasattr(torch.Tensor, name) and name not in self.own_attributes:
            if self.source is not None:
                guard = AttributeGuard(self.source, name, False, user_line=evaluator.source_line())
                self.guards |= {evaluator.capture.add_guard(guard)}
            raise_observed(AttributeError, f"'Tensor' object has no attribute {name!r}")
        return unsupported("tensor-attribute", f"attribute {name!r} of a tensor")

    def size(self) -> SizeVariable:
        """``tensor.shape``."""
        return SizeVariable([from_number(size) for size in self.fake.shape])

    def _is_leaf(self) -> VariableTracker:
        if self.source is not None and self.fake.requires_grad and self.cls is torch.Tensor:
            unsupported("tensor-attribute", "is_leaf of an input that requires grad")
        return ConstantVariable(not self.fake.requires_grad or self.fake.is_leaf)

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        unsupported("tensor-attribute-write", f"write to attribute {name!r} of a tensor")

    # Methods ------------------------------------------------------------------------------------

    def call_method(
        self,
        evaluator: Evaluator,
        name: str,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        if name in METADATA_METHODS:
            return self._metadata(name, args, kwargs)
        if name in SCALAR_READS:
            unsupported("scalar-read", f"Tensor.{name} reads the data of a tensor")
        if name in IMPURE_METHODS:
            unsupported("tensor-method", f"Tensor.{name} has effects that a graph does not express")
        special = SPECIAL_METHODS.get(name)
        if special is not None:
            return special(self, evaluator, *args)  # type: ignore[no-any-return]
        if name.startswith("__"):
            return self._operator(evaluator, name, args)
        if not hasattr(torch.Tensor, name):
            raise_observed(AttributeError, f"'Tensor' object has no attribute {name!r}")
        capture = evaluator.capture
        return capture.call_in_graph(evaluator, "call_method", name, [self, *args], kwargs)

    def _metadata(
        self, name: str, args: Sequence[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        real = [arg.as_constant() for arg in args]
        try:
            value = getattr(self.fake, name)(
                *real, **{k: v.as_constant() for k, v in kwargs.items()}
            )
        except (IndexError, TypeError, RuntimeError) as error:
            raise_as_observed(error)
        if isinstance(value, tuple):
            cls = SizeVariable if isinstance(value, torch.Size) else TupleVariable
            return cls([from_number(part) for part in value])
        return from_number(value)

    def _operator(
        self, evaluator: Evaluator, name: str, args: Sequence[VariableTracker]
    ) -> VariableTracker:
        call = evaluator.capture.call_in_graph
        for table in (UNARY, BINARY, COMPARISONS):
            if name in table:
                return call(evaluator, "call_function", table[name], [self, *args])
        if name.startswith("__r") and f"__{name[3:]}" in BINARY:
            function = BINARY[f"__{name[3:]}"]
            return call(evaluator, "call_function", function, [args[0], self])
        if name.startswith("__i") and f"__{name[3:]}" in BINARY:
            function = getattr(operator, name.strip("_"))
            return call(evaluator, "call_function", function, [self, *args])
        if not hasattr(torch.Tensor, name):
            raise_observed(AttributeError, f"'Tensor' object has no attribute {name!r}")
        return unsupported("tensor-method", f"Tensor.{name}")

    def _getitem(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        call = evaluator.capture.call_in_graph
        return call(evaluator, "call_function", operator.getitem, [self, key])

    def _setitem(
        self, evaluator: Evaluator, key: VariableTracker, value: VariableTracker
    ) -> VariableTracker:
        call = evaluator.capture.call_in_graph
        return call(evaluator, "call_function", operator.setitem, [self, key, value])

    def _len(self, evaluator: Evaluator) -> VariableTracker:
        if self.fake.ndim == 0:
            raise_observed(TypeError, "len() of a 0-d tensor")
        return from_number(self.fake.shape[0])

    def _hash(self, evaluator: Evaluator) -> VariableTracker:
        return unsupported("identity", "the hash of a tensor is its identity")

    def _contains(self, evaluator: Evaluator, item: VariableTracker) -> VariableTracker:
        return unsupported("data-dependent-branch", "``in`` on a tensor reads its data")

    def _iter(self, evaluator: Evaluator) -> VariableTracker:
        return self._unbound(evaluator).call_method(evaluator, "__iter__", [], {})

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        return self._unbound(evaluator).items(evaluator)

    def _unbound(self, evaluator: Evaluator) -> VariableTracker:
        if self.fake.ndim == 0:
            raise_observed(TypeError, "iteration over a 0-d tensor")
        args = [self, ConstantVariable(0)]
        return evaluator.capture.call_in_graph(evaluator, "call_method", "unbind", args)

    def reconstruct(self, residual: Residual) -> str:
        if self.source is not None:
            return residual.load(self.source)
        return residual.graph_output(self.node, self)


SPECIAL_METHODS: Final[dict[str, Any]] = {
    "__getitem__": TensorVariable._getitem,
    "__setitem__": TensorVariable._setitem,
    "__len__": TensorVariable._len,
    "__iter__": TensorVariable._iter,
    "__hash__": TensorVariable._hash,
    "__contains__": TensorVariable._contains,
}
