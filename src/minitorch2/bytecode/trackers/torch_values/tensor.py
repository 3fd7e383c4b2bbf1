"""Tensors: a node of the graph and a fake value, no data.

Metadata (shape, dtype, device, ...) is known while capturing and folds. Operators become nodes. An
operation that needs the data ends the graph. PyTorch 2 paper, section 3.5 (*TensorVariable*).
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Hashable
from types import FunctionType
from typing import Any, ClassVar, Final

import torch

from minitorch2.bytecode.guards import id_match
from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource
from minitorch2.bytecode.guards.tensor_class import replaced_names
from minitorch2.bytecode.polyfills import torch_functions
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import (
    MISSING,
    allocator,
    bind,
    class_lookup,
    guard_absent,
    shared_attribute,
)
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    NOT_IMPLEMENTED,
    ConstantVariable,
    is_none,
    literal,
)
from minitorch2.bytecode.trackers.python_values.functions import UserFunctionVariable
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    SizeVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.side_effects import TensorEffect
from minitorch2.bytecode.trackers.torch_values.branches import truth_from_buffers
from minitorch2.bytecode.trackers.torch_values.overriding import overridden
from minitorch2.bytecode.trackers.torch_values.symbolic import (
    SymbolicNumberVariable,
    compute,
    from_number,
)
from minitorch2.bytecode.trackers.torch_values.tensor_names import (
    ATTRIBUTE_HOOKS,
    BINARY,
    COMPARISONS,
    IMPURE_METHODS,
    KNOWN_READS,
    LAZY_BITS,
    LEGACY_NAMES,
    LEGACY_TYPES,
    METADATA,
    METADATA_METHODS,
    NUMBER_READS,
    SCALAR_READS,
    TENSOR_ATTRIBUTES,
    UNARY,
)
from minitorch2.graph.fake_tensor import DataDependentError, FakeTensor
from minitorch2.graph.node import Argument, Node
from minitorch2.graph.symbols.unbacked import unbacked_in
from minitorch2.native.torch_internals.gradients import call_hooks_of

INTEGERS: Final = (torch.int8, torch.int16, torch.int32, torch.int64)  # bytes are a mask


def _subscript(evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
    """Return a subscript in which arrays, and lists of numbers from data, are tensors."""
    if type(key) is TupleVariable:
        parts = [_subscript(evaluator, part) for part in key.realized()]
        changed = any(a is not b for a, b in zip(parts, key.realized(), strict=True))
        return TupleVariable(parts) if changed else key
    if not _has_unknown(key):
        return key.as_subscript(evaluator)
    return evaluator.call(evaluator.capture.wrap(torch.tensor, None), [key])


def _has_unknown(key: VariableTracker) -> bool:
    parts = key.realized() if isinstance(key, ListVariable) else []
    return any(isinstance(p, SymbolicNumberVariable) and unbacked_in(p.number) for p in parts)


def _is_from_data(key: VariableTracker) -> bool:
    """Return whether a part of a subscript is an integer that is known at run time only."""
    if isinstance(key, SymbolicNumberVariable):
        return key.python_type() is int and bool(unbacked_in(key.number))
    return isinstance(key, TensorVariable) and not key.fake.ndim and key.fake.dtype in INTEGERS


def _takes_one_dimension(part: VariableTracker) -> bool:
    """Return whether a part of a subscript stands for one dimension; masks stand for several."""
    kind = part.fake.dtype if isinstance(part, TensorVariable) else part.python_type()
    return kind in (int, slice, *INTEGERS)


def _select(
    evaluator: Evaluator, tensor: TensorVariable, key: VariableTracker
) -> tuple[VariableTracker, TupleVariable] | None:
    """Return the part of a tensor at the first integer from data, and the rest of the subscript."""
    keys = list(key.realized()) if type(key) is TupleVariable else [key]
    place = next((i for i, part in enumerate(keys) if _is_from_data(part)), None)
    if place is None or not tensor.fake.ndim:
        return None
    dots = any(part.is_constant() and part.as_constant() is ... for part in keys[:place])
    sized = [p for p in (keys[place:] if dots else keys[:place]) if not is_none(p)]
    if not all(map(_takes_one_dimension, sized)):
        return None
    index, dim = keys.pop(place), ConstantVariable(-len(sized) if dots else len(sized))
    if isinstance(index, TensorVariable):
        index = index.call_method(evaluator, "item", [], {})
    body = evaluator.capture.wrap(torch_functions.select, None)
    return body.call(evaluator, [tensor, dim, index], {}), TupleVariable(keys)


class TensorVariable(VariableTracker):
    """A tensor.

    Attributes:
        node: the node whose value it is.
        fake: shape, strides, dtype and device, without data.
        cls: `torch.Tensor` or `torch.nn.Parameter`.
        own_attributes: names that the user's program has set on the tensor object.
        leaf_grad: whether a leaf that the captured code makes requires grad
            (`torch.nn.Parameter(t)`, ``t.requires_grad_()``); None for other tensors. The graph's
            node is its data. Residual code makes the leaf, if it lives on.
        leaf: the tensor that the graph reads for such a leaf where a gradient may flow to it.
        data: the tensor that a leaf made by a class was made of.
        accumulates: the tensor to which gradients of a leaf flow whose data was assigned.
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
        self.cls = cls
        self.hold(node, fake, own_attributes)

    def hold(
        self, node: Node, fake: FakeTensor, own_attributes: frozenset[str] = frozenset()
    ) -> None:
        """Set the node and the fake value of the tensor."""
        self.node = node
        self.fake = fake
        self.own_attributes = own_attributes
        self.leaf_grad: bool | None = None
        self.leaf: TensorVariable | None = None
        self.data: TensorVariable | None = None
        self.accumulates: TensorVariable | None = None

    def __repr__(self) -> str:
        return f"TensorVariable(node={self.node}, source={self.source})"

    def hash_key(self) -> Hashable:
        self.is_key = True
        return ("object", id(self))

    def python_type(self) -> type:
        return self.cls

    def as_argument(self) -> Argument:
        if self.leaf_grad and torch.is_grad_enabled():
            if self.leaf is None:
                cause = f"gradients flow to {self.node}, a leaf that is new"
                unsupported("leaf-made-inside", cause)
            return self.leaf.node
        return self.node

    @property
    def requires_grad(self) -> bool:
        """``tensor.requires_grad``"""
        return bool(self.fake.requires_grad) if self.leaf_grad is None else self.leaf_grad

    def truth(self, evaluator: Evaluator) -> bool:
        if (known := truth_from_buffers(evaluator.capture, self.node)) is not None:
            return known
        return unsupported(
            "data-dependent-branch",
            f"the program branches on the value of the tensor {self.node}",
            "use torch.where or torch.cond, or move the branch out of the compiled function",
        )

    # Attributes ---------------------------------------------------------------------------------

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if (replaced := self._replaced(evaluator, name)) is not None:
            return replaced
        method = shared_attribute(torch.Tensor, name)
        if not callable(method) and method is not MISSING:
            args = [self, ConstantVariable(name)]
            answer = overridden(evaluator, "call_function", getattr, args)
            if answer is not None:
                return answer
        if name == "shape":
            return self.size()
        if name == "requires_grad":
            return ConstantVariable(self.requires_grad)
        if name in METADATA and method is not MISSING:
            return literal(getattr(self.fake, name))
        if name in TENSOR_ATTRIBUTES:
            data = self if name != "data" else self.without_gradient()
            args = [data, ConstantVariable(name)]
            return evaluator.capture.call_in_graph(evaluator, "call_function", getattr, args)
        special = SPECIAL_ATTRIBUTES.get(name)
        if special is not None:
            return special(self, evaluator)  # type: ignore[no-any-return]
        if name == "__torch_function__":
            return inherited_override(evaluator)
        if name == "__class__":
            return evaluator.capture.wrap(self.cls, evaluator.capture.reference(self.cls))
        if callable(method):
            place = AttributeSource(evaluator.capture.reference(torch.Tensor), name)
            evaluator.capture.add_guard(id_match(place, method, evaluator.source_line()))
            return GetAttrVariable(self, name)
        if method is MISSING and (own := self._own(evaluator, name)) is not None:
            return own
        if method is MISSING and name not in self.own_attributes:
            if self.source is not None:
                self.guards |= {guard_absent(evaluator, self.source, name)}
            raise_observed(AttributeError, f"'Tensor' object has no attribute {name!r}")
        return unsupported("tensor-attribute", f"attribute {name!r} of a tensor")

    def _replaced(self, evaluator: Evaluator, name: str) -> VariableTracker | None:
        """Return what the program has put in the place of an attribute of PyTorch's."""
        replaced = replaced_names()
        if name not in replaced and replaced.isdisjoint(ATTRIBUTE_HOOKS):
            return None
        cls = self.cls if self.cls is torch.nn.Parameter else torch.Tensor
        found_in, raw = class_lookup(cls, name)
        if isinstance(raw, FunctionType | property) and name in replaced:
            return bind(evaluator, self, cls, found_in, name, raw)
        return unsupported("tensor-method", f"Tensor.{name}, which the program has replaced")

    def call_builtin(
        self, evaluator: Evaluator, method: Any, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Call a method of PyTorch's, although the program may have replaced it."""
        if method.__name__ in replaced_names():
            unsupported("tensor-method", f"Tensor.{method.__name__}, as it was before")
        return self.call_method(evaluator, method.__name__, args, kwargs)

    def _own(self, evaluator: Evaluator, name: str) -> VariableTracker | None:
        """Return an attribute that the user's program has set on the tensor object."""
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        if pending is not None:
            raise_observed(AttributeError, f"'Tensor' object has no attribute {name!r}")
        real = self.real(evaluator)
        if real is None or name not in self.own_attributes:
            return None
        assert self.source is not None
        place = ItemSource(AttributeSource(self.source, "__dict__"), name)
        return evaluator.capture.wrap(real.__dict__[name], place)

    def size(self) -> SizeVariable:
        """Return ``tensor.shape``."""
        return SizeVariable([from_number(size, self) for size in self.fake.shape])

    def _is_leaf(self, evaluator: Evaluator) -> VariableTracker:
        """Return ``is_leaf``: of parameters true, of other inputs that require grad guarded."""
        if self.leaf_grad is not None:
            return ConstantVariable(True)
        if self.fake.requires_grad and self.cls is torch.Tensor:
            real = self.real(evaluator)
            if real is not None and self.source is not None:
                return self._known_leaf(evaluator, real)
        return ConstantVariable(not self.fake.requires_grad or self.fake.is_leaf)

    def _retains_grad(self, evaluator: Evaluator) -> VariableTracker:
        """Return whether ``retain_grad`` was called on a tensor that is not a leaf."""
        real = self.real(evaluator)
        if self in evaluator.capture.retaining or real is None or self.source is None:
            return ConstantVariable(self in evaluator.capture.retaining)
        place = AttributeSource(self.source, "retains_grad")
        return evaluator.capture.wrap(real.retains_grad, place)

    def _grad(self, evaluator: Evaluator) -> VariableTracker:
        """Return the gradient that backward has left so far; intermediate tensors have none."""
        pending = evaluator.capture.side_effects.load_attribute(self, "grad")
        if isinstance(pending, VariableTracker):
            return pending
        real = self.real(evaluator)
        if real is None:
            return NONE
        if self.source is None or not (real.is_leaf or real.retains_grad):
            unsupported("tensor-attribute", "the gradient of an input that is no leaf")
        return self._known_grad(evaluator, real)

    def real(self, evaluator: Evaluator) -> torch.Tensor | None:
        """Return the real tensor of an input of the graph; None for other tensors."""
        return evaluator.capture.input_value(self)

    def _known_leaf(self, evaluator: Evaluator, real: torch.Tensor) -> VariableTracker:
        assert self.source is not None
        return evaluator.capture.wrap(real.is_leaf, AttributeSource(self.source, "is_leaf"))

    def _known_grad(self, evaluator: Evaluator, real: torch.Tensor) -> VariableTracker:
        assert self.source is not None
        return evaluator.capture.wrap(real.grad, AttributeSource(self.source, "grad"))

    def _grad_fn(self, evaluator: Evaluator) -> VariableTracker:
        """Return None or a value that is not None: autograd does not know the graph's operators."""
        real = self.real(evaluator)
        if not self.fake.requires_grad or self.leaf_grad is not None:
            return NONE
        if real is None or self.source is None:
            return GradFnVariable()
        leaf = self._known_leaf(evaluator, real)
        return NONE if leaf.as_constant() else GradFnVariable()

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        self._replaced(evaluator, name)
        if name == "grad" and self.source is not None:
            evaluator.capture.side_effects.store_attribute(self, name, value)
            return
        if name in ATTRIBUTE_SETTERS:
            ATTRIBUTE_SETTERS[name](self, evaluator, value)
            return
        if name == "requires_grad" and value.is_constant():
            self.call_method(evaluator, "requires_grad_", [value], {})
            return
        if hasattr(torch.Tensor, name):
            unsupported("tensor-attribute-write", f"write to attribute {name!r} of a tensor")
        effects = evaluator.capture.side_effects
        if self.source is None and not effects.is_new(self):
            effects.new_object(self)
        effects.store_attribute(self, name, value)

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        if name == "grad":
            self.set_attribute(evaluator, name, NONE)
            return
        if hasattr(torch.Tensor, name):
            super().delete_attribute(evaluator, name)
        self.get_attribute(evaluator, name)  # which guards that there is one, or raises
        effects, existed = evaluator.capture.side_effects, name in self.own_attributes
        effects.delete_attribute(self, name, existed=existed)

    # Methods ------------------------------------------------------------------------------------

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if (replaced := self._replaced(evaluator, name)) is not None:
            return replaced.call(evaluator, args, kwargs)
        if shared_attribute(torch.Tensor, name) is not MISSING:
            answer = overridden(evaluator, "call_method", name, [self, *args], kwargs)
            if answer is not None:
                return answer
        if name in METADATA_METHODS:
            return self._metadata(name, args, kwargs)
        if name in KNOWN_READS and self.fake.known is not None and not args:
            return literal(getattr(self.fake.known, name)())
        if name in NUMBER_READS and not args and not kwargs:
            return self._read_number(evaluator, NUMBER_READS[name])
        if name in SCALAR_READS:
            unsupported("scalar-read", f"Tensor.{name} reads the data of a tensor")
        if name == "detach" and self.leaf_grad is not None:
            return self.without_gradient().call_method(evaluator, name, args, kwargs)
        if name in ("cov", "corrcoef"):
            function = getattr(torch, name)
            return evaluator.capture.wrap(function, None).call(evaluator, [self, *args], kwargs)
        if name in LAZY_BITS:
            return self._ask_for_bit(evaluator, name)
        special = SPECIAL_METHODS.get(name)
        if special is not None:
            return special(self, evaluator, *args, **kwargs)  # type: ignore[no-any-return]
        if name in IMPURE_METHODS:
            unsupported("tensor-method", f"Tensor.{name} has effects that a graph does not express")
        if name.startswith("__"):
            return self._operator(evaluator, name, args)
        if shared_attribute(torch.Tensor, name) is MISSING:
            raise_observed(AttributeError, f"'Tensor' object has no attribute {name!r}")
        call = evaluator.capture.call_in_graph
        return call(evaluator, "call_method", name, [self, *args], kwargs)

    def _read_number(self, evaluator: Evaluator, convert: Any) -> VariableTracker:
        """``x.item()``: a number that only data will tell."""
        try:
            number = evaluator.capture.call_in_graph(evaluator, "call_method", "item", [self])
        except DataDependentError as error:
            unsupported("scalar-read", f"Tensor.item reads the data of a tensor: {error.cause}")
        return number if convert is None else compute(convert, number) or number

    def without_gradient(self) -> TensorVariable:
        """Return the data of a leaf that is new: another tensor object on the same memory."""
        return TensorVariable(self.node, self.fake) if self.leaf_grad is not None else self

    @property
    def in_history(self) -> TensorVariable:
        """The tensor to which gradients flow."""
        return self.accumulates or self.leaf or self

    def _ask_for_bit(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """``x.is_conj()`` and its like: an input's class guard fixes them; others may vary."""
        real = self.real(evaluator)
        if name == "is_inference":
            return ConstantVariable((self.fake.meta if real is None else real).is_inference())
        values = [node.meta["val"] for node in self.node.graph.nodes if "val" in node.meta]
        if any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
            unsupported("tensor-method", f"Tensor.{name}: conjugation may be put off")
        return self if name.startswith("resolve") else ConstantVariable(False)

    def _metadata(self, name: str, args: Arguments, kwargs: Keywords) -> VariableTracker:
        real = [arg.as_constant() for arg in args]
        try:
            value = getattr(self.fake, name)(
                *real, **{k: v.as_constant() for k, v in kwargs.items()}
            )
        except (IndexError, TypeError, RuntimeError) as error:
            raise_as_observed(error)
        if isinstance(value, tuple):
            cls = SizeVariable if isinstance(value, torch.Size) else TupleVariable
            return cls([from_number(part, self) for part in value])
        return from_number(value, self)

    def _operator(self, evaluator: Evaluator, name: str, args: Arguments) -> VariableTracker:
        call = evaluator.capture.call_in_graph
        if args and args[0].is_constant() and isinstance(args[0].as_constant(), str | bytes):
            if name in COMPARISONS:
                return NOT_IMPLEMENTED
            unsupported("format", "the text of a tensor is not known while capturing")
        other = args[0].python_type() if args else torch.Tensor
        if allocator(other) is object and not hasattr(other, "__torch_function__"):
            return NOT_IMPLEMENTED  # PyTorch leaves it to the other operand, of a Python class
        for table in (UNARY, BINARY, COMPARISONS):
            if name in table:
                return call(evaluator, "call_function", table[name], [self, *args])
        if name.startswith("__r") and f"__{name[3:]}" in BINARY:
            function = BINARY[f"__{name[3:]}"]
            return call(evaluator, "call_function", function, [args[0], self])
        if name.startswith("__i") and f"__{name[3:]}" in BINARY:
            return call(evaluator, "call_function", getattr(operator, name[2:-2]), [self, *args])
        if shared_attribute(torch.Tensor, name) is MISSING:
            raise_observed(AttributeError, f"'Tensor' object has no attribute {name!r}")
        return in_python(evaluator, name, [self, *args])

    def _getitem(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        call = evaluator.capture.call_in_graph
        if self.fake.dim() and isinstance(key, SymbolicNumberVariable) and key.is_varying_int():
            # The same operator, but PyTorch's subscripts would fix the number.
            return call(evaluator, "call_function", torch.select, [self, ConstantVariable(0), key])
        if (found := _select(evaluator, self, key)) is not None:
            part, rest = found
            return part.call_method(evaluator, "__getitem__", [rest], {}) if rest.elements else part
        key = _subscript(evaluator, key)
        return call(evaluator, "call_function", operator.getitem, [self, key])

    def _setitem(
        self, evaluator: Evaluator, key: VariableTracker, value: VariableTracker
    ) -> VariableTracker:
        if (found := _select(evaluator, self, key)) is not None:
            return found[0].call_method(evaluator, "__setitem__", [found[1], value], {})
        key = _subscript(evaluator, key)
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

    def _reversed(self, evaluator: Evaluator) -> VariableTracker:
        """``reversed(x)`` is a tensor: flipped in its first dimension."""
        args = [ConstantVariable(0)] if self.fake.ndim else []
        return self.call_method(evaluator, "flip" if args else "clone", args, {})

    def _type(
        self, evaluator: Evaluator, dtype: VariableTracker | None = None, *rest: VariableTracker
    ) -> VariableTracker:
        """``x.type()`` is the name of a class; ``x.type(cls)`` converts."""
        if dtype is None:
            name = LEGACY_NAMES.get(self.fake.dtype)
            if name is None or self.fake.device.type != "cpu":
                unsupported("tensor-method", "the class's name of this kind of tensor")
            return ConstantVariable(name)
        known = LEGACY_TYPES.get(getattr(dtype, "value", None))
        if known is not None and self.fake.device.type == "cpu":
            dtype = ConstantVariable(known)
        call = evaluator.capture.call_in_graph
        return call(evaluator, "call_method", "type", [self, dtype, *rest])

    def rebuild(self, residual: Residual) -> str:
        if self.node.meta.get("inside"):
            unsupported("side-effect-inside", f"{self.node} is used outside of its function")
        if self.leaf_grad is None:
            return residual.graph_output(self.node, self)
        if self.data is None:
            made = residual.graph_output(self.node, self)
            return residual.bind(f"{made}.requires_grad_({self.leaf_grad})", "leaf")
        cls = residual.reference(self.cls)
        return residual.bind(f"{cls}({residual.name_for(self.data)}, {self.leaf_grad})", "leaf")


def inherited_override(evaluator: Evaluator) -> VariableTracker:
    """``torch.Tensor.__torch_function__``"""
    override = vars(torch.Tensor)["__torch_function__"]
    return bind(evaluator, None, torch.Tensor, torch.Tensor, "__torch_function__", override)


def in_python(evaluator: Evaluator, name: str, args: Arguments) -> VariableTracker:
    """Evaluate a method that `torch.Tensor` has in Python, such as ``__rdiv__``."""
    found: Any = vars(torch.Tensor).get(name)
    body = inspect.unwrap(found)  # the wrapper asks for overrides, which was done
    if not isinstance(body, FunctionType):
        unsupported("tensor-method", f"Tensor.{name}")
    function = UserFunctionVariable(body, source=evaluator.capture.reference(body))
    return function.call(evaluator, args, {})


SPECIAL_METHODS: Final[dict[str, Any]] = {
    "__abs__": lambda tensor, evaluator: tensor.call_method(evaluator, "abs", [], {}),
    "__getitem__": TensorVariable._getitem,
    "__setitem__": TensorVariable._setitem,
    "__len__": TensorVariable._len,
    "__iter__": TensorVariable._iter,
    "__hash__": TensorVariable._hash,
    "__contains__": TensorVariable._contains,
    "__reversed__": TensorVariable._reversed,
    "type": TensorVariable._type,
}

ATTRIBUTE_SETTERS: Final[dict[str, Any]] = {}

SPECIAL_ATTRIBUTES: Final[dict[str, Any]] = {
    "is_leaf": TensorVariable._is_leaf,
    "grad": TensorVariable._grad,
    "grad_fn": TensorVariable._grad_fn,
    "retains_grad": TensorVariable._retains_grad,
}


class GradFnVariable(VariableTracker):
    """The operator of autograd that made a tensor; only its existence is known."""

    def python_type(self) -> type:
        return torch.autograd.graph.Node

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "_register_hook_dict":
            return GetAttrVariable(self, name)
        return unsupported("tensor-attribute", f"{name!r} of a tensor's grad_fn")

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        assert name == "_register_hook_dict", name  # the only attribute
        evaluator.capture.side_effects.add(TensorEffect(call_hooks_of, args[0]))
        return NONE

    def reconstruct(self, residual: Residual) -> str:
        return unsupported("tensor-attribute", "the grad_fn of a tensor, which the backend makes")
