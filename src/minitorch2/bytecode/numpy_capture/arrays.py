"""NumPy arrays: captured as the tensors that share their memory.

NumPy's own Python is inlined like user code. The functions in C that it calls have a model each:
`ufuncs` for universal functions, `bodies` for the others. A result is an
array or a scalar, with the dtype that NumPy would give. A function without a model, or with another
meaning in PyTorch, breaks the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np
import torch

from minitorch2.bytecode.guards.sources import AttributeSource
from minitorch2.bytecode.numpy_capture import bodies
from minitorch2.bytecode.numpy_capture.bodies import creation
from minitorch2.bytecode.numpy_capture.bodies.dtypes import DTYPES, NUMPY_DTYPES
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING, shared_attribute
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    SequenceVariable,
    SliceVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable, from_number
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.bytecode.trackers.torch_values.torch_function import as_tensor, handles, tensor
from minitorch2.bytecode.trackers.torch_values.unmodeled_tensor import UnmodeledTensorVariable
from minitorch2.marks import wrappers
from minitorch2.native.numpy_internals import clip

CODE: Final = "numpy"
CLIP: Final = clip  # it has no public name

OPERATORS: Final = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.absolute,
    "invert": np.invert,
}
"""Name of an operator's special method to the function that it calls."""

SAME_FUNCTION: Final = words("all any max mean min prod ptp std sum var")
"""Methods that do what NumPy's function of their name does, with the same arguments."""

_NEED_VALUE: Final = words("int index round trunc floor ceil str repr format hash")
"""Special methods whose result is no array: a scalar from outside is fixed for them."""

UFUNC_METHODS: Final[dict[str, Any]] = {
    "clip": CLIP,
    "conj": np.conjugate,
    "conjugate": np.conjugate,
}


class ArrayVariable(VariableTracker):
    """A `numpy.ndarray`, or a NumPy scalar.

    Attributes:
        tensor: shares the array's memory.
        is_scalar: it is a scalar of no dimension, such as ``numpy.float32(1)``.
        read_only: it may be a view that NumPy forbids to write to; captured code reads it only.
        fix: fixes by guards a scalar that is from outside, or computed from such scalars, and
            returns it; None if data tell its value.
        real: the array itself, if it is from outside.
    """

    def __init__(
        self,
        tensor: TensorVariable,
        is_scalar: bool = False,
        read_only: bool = False,
        fix: Callable[[], np.generic] | None = None,
        real: np.ndarray[Any, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.real = real
        self.tensor, self.is_scalar, self.read_only = tensor, is_scalar, read_only
        self.fix = fix

    def writeable(self) -> TensorVariable:
        """Return the tensor, to be written to or handed out."""
        if self.read_only:
            unsupported(CODE, "a view that is read only is written to, or leaves the graph")
        return self.tensor

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """``array.dtype``"""
        return NUMPY_DTYPES[self.tensor.fake.dtype]

    @property
    def ndim(self) -> int:
        """``array.ndim``"""
        return int(self.tensor.fake.ndim)

    def python_type(self) -> type:
        return self.numpy_dtype.type if self.is_scalar else np.ndarray

    def as_operand(self, evaluator: Evaluator) -> VariableTracker:
        return self.tensor.call_method(evaluator, "item", [], {}) if self.is_scalar else self

    def as_subscript(self, evaluator: Evaluator) -> VariableTracker:
        return self.as_operand(evaluator) if self.is_scalar else self.tensor

    def hash_key(self) -> Hashable:
        return super().hash_key() if self.fix is None else ConstantVariable(self.fix()).hash_key()

    def truth(self, evaluator: Evaluator) -> bool:
        return self.tensor.truth(evaluator) if self.fix is None else bool(self.fix())

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        count = self.call_method(evaluator, "__len__", [], {})
        if not count.is_constant():
            unsupported(CODE, "iteration over an array of varying length")
        keys = [ConstantVariable(i) for i in range(count.as_constant())]
        return [self.call_method(evaluator, "__getitem__", [key], {}) for key in keys]

    def _iterator(self, evaluator: Evaluator) -> VariableTracker:
        return ListVariable(self.items(evaluator)).call_method(evaluator, "__iter__", [], {})

    # Attributes ---------------------------------------------------------------------------------

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        fake = self.tensor.fake
        if name == "shape":
            return TupleVariable([from_number(size) for size in fake.shape])
        if name in ("ndim", "nbytes", "itemsize"):
            return from_number(getattr(fake, name))
        if name == "size":
            return from_number(fake.numel())
        if name == "dtype":
            return ConstantVariable(self.numpy_dtype)
        if name == "flags" and self.real is not None and self.source is not None:
            return evaluator.capture.wrap(self.real.flags, AttributeSource(self.source, name))
        if name == "T":
            return self.call_method(evaluator, "transpose", [], {})
        if name == "mT":
            last = [ConstantVariable(-1), ConstantVariable(-2)]
            return self.call_method(evaluator, "swapaxes", last, {})
        if name in ("real", "imag") and fake.dtype.is_complex:
            return array(evaluator, self.tensor.get_attribute(evaluator, name), self.is_scalar)
        if name == "real":
            return self
        if name == "__class__":
            cls = self.python_type()
            return evaluator.capture.wrap(cls, evaluator.capture.reference(cls))
        found = shared_attribute(self.python_type(), name)
        if callable(found):
            return GetAttrVariable(self, name)
        if found is MISSING:
            kind = "numpy.ndarray" if not self.is_scalar else f"numpy.{self.python_type().__name__}"
            raise_observed(AttributeError, f"'{kind}' object has no attribute '{name}'")
        return unsupported(CODE, f"attribute {name!r} of a NumPy array")

    # Methods ------------------------------------------------------------------------------------

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in _SUBSCRIPTS:
            return _SUBSCRIPTS[name](self, evaluator, *args)
        if name.startswith("__"):
            return self._operator(evaluator, name, args)
        wrap = evaluator.capture.wrap
        if name in SAME_FUNCTION:
            plain = ArrayVariable(self.tensor) if self.is_scalar else self
            return wrap(getattr(np, name), None).call(evaluator, [plain, *args], kwargs)
        if name in UFUNC_METHODS:
            return wrap(UFUNC_METHODS[name], None).call(evaluator, [self, *args], kwargs)
        body = bodies.METHODS.get(name)
        if body is None:
            unsupported(CODE, f"ndarray.{name} is not captured")
        made = call_body(evaluator, body, [self, *args], kwargs)
        if self.is_scalar and isinstance(made, ArrayVariable) and not made.ndim:
            made.is_scalar = True  # a method of a scalar gives no array without dimensions
        return made

    def _operator(self, evaluator: Evaluator, name: str, args: Arguments) -> VariableTracker:
        plain, operands = name.strip("_"), [self, *args]
        named: dict[str, VariableTracker] = {}
        if self.fix is not None and plain in _NEED_VALUE and all(a.is_constant() for a in args):
            return ConstantVariable(getattr(self.fix(), name)(*(a.as_constant() for a in args)))
        if plain in ("int", "float", "complex", "index"):
            return self.tensor.call_method(evaluator, name, args, {})
        if plain not in OPERATORS and plain[1:] in OPERATORS and plain[0] == "i":
            if self.is_scalar:
                return ConstantVariable(NotImplemented)
            plain, named = plain[1:], {"out": self}
        elif plain not in OPERATORS and plain[1:] in OPERATORS and plain[0] == "r":
            plain, operands = plain[1:], [*args, self]
        if plain not in OPERATORS:
            unsupported(CODE, f"ndarray.{name} is not captured")
        ufunc = evaluator.capture.wrap(OPERATORS[plain], None)
        return ufunc.call(evaluator, operands, named)

    # Parts --------------------------------------------------------------------------------------

    def _length(self, evaluator: Evaluator) -> VariableTracker:
        if self.is_scalar:
            kind = self.python_type().__name__
            raise_observed(TypeError, f"object of type 'numpy.{kind}' has no len()")
        return self.tensor.call_method(evaluator, "__len__", [], {})

    def _part(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        """Return a part: by integers, slices, None or Ellipsis a view; one element is a scalar."""
        keys = _keys(evaluator, key)
        numbers = any(isinstance(k, TensorVariable) and not k.fake.ndim for k in keys)
        found = self.tensor.call_method(evaluator, "__getitem__", [_as_key(evaluator, keys)], {})
        assert isinstance(found, TensorVariable)
        if numbers:
            if found.fake.ndim != 1 or len(keys) != self.ndim:
                unsupported(CODE, "a view at an index that is data")
            found = found.call_method(evaluator, "reshape", [TupleVariable([])], {})
            assert isinstance(found, TensorVariable)
        dots = any(k.is_constant() and k.as_constant() is ... for k in keys)
        made = array(evaluator, found, is_scalar=not found.fake.ndim and not dots)
        made.read_only = self.read_only and not made.is_scalar
        return made

    def _set_part(
        self, evaluator: Evaluator, key: VariableTracker, value: VariableTracker
    ) -> VariableTracker:
        asked = [value, ConstantVariable(self.numpy_dtype)]
        stored = call_body(evaluator, creation.asarray, asked, {})
        assert isinstance(stored, ArrayVariable)
        args = [_as_key(evaluator, _keys(evaluator, key)), stored.tensor]
        return self.writeable().call_method(evaluator, "__setitem__", args, {})

    def rebuild(self, residual: Residual) -> str:
        plain = ".resolve_conj()" if self.tensor.fake.is_complex() else ""  # transforms put it off
        shared = f"{residual.name_for(self.writeable())}{plain}.numpy()"
        return f"{shared}[()]" if self.is_scalar else shared


_SUBSCRIPTS: Final[dict[str, Callable[..., VariableTracker]]] = {
    "__iter__": ArrayVariable._iterator,
    "__len__": ArrayVariable._length,
    "__getitem__": ArrayVariable._part,
    "__setitem__": ArrayVariable._set_part,
}


def _as_key(evaluator: Evaluator, keys: Sequence[VariableTracker]) -> VariableTracker:
    """Return the subscript; PyTorch would read an index that is a number, but not one in a list."""
    row: list[VariableTracker] = [ConstantVariable(1)]
    listed = [
        key.call_method(evaluator, "reshape", row, {})
        if isinstance(key, TensorVariable) and not key.fake.ndim
        else key
        for key in keys
    ]
    return listed[0] if len(listed) == 1 else TupleVariable(listed)


def _keys(evaluator: Evaluator, key: VariableTracker) -> list[VariableTracker]:
    """Return the parts of a subscript as PyTorch takes them."""
    parts = key.realized() if isinstance(key, TupleVariable) else [key]
    return [_key(evaluator, part) for part in parts]


def _key(evaluator: Evaluator, part: VariableTracker) -> VariableTracker:
    if isinstance(part, SliceVariable):
        step = part.parts[2]
        if not step.is_constant() or (step.as_constant() or 1) < 0:
            unsupported(CODE, "a view that runs backwards, which no tensor can be")
        return part
    if isinstance(part, ArrayVariable):
        return _index(part)
    if isinstance(part, ListVariable):
        return _index(call_body(evaluator, creation.asarray, [part], {}))
    known = part.as_constant() if part.is_constant() else None
    if isinstance(known, np.integer):
        return ConstantVariable(int(known))
    is_plain = known is None or known is ... or type(known) is int
    if not isinstance(part, SymbolicNumberVariable) and not (part.is_constant() and is_plain):
        unsupported(CODE, "this index of a NumPy array")
    return part


def _index(part: VariableTracker) -> VariableTracker:
    assert isinstance(part, ArrayVariable)
    if part.numpy_dtype.kind not in "ib" or (part.numpy_dtype.kind == "b" and not part.ndim):
        unsupported(CODE, f"an index of dtype {part.numpy_dtype}")
    return part.tensor


def array(evaluator: Evaluator, value: VariableTracker, is_scalar: bool = False) -> ArrayVariable:
    """Return the array that shares a tensor's memory."""
    assert isinstance(value, TensorVariable)
    if value.fake.dtype not in NUMPY_DTYPES:
        unsupported(CODE, f"a NumPy array of dtype {value.fake.dtype}")
    return ArrayVariable(value, is_scalar)


# Bodies -------------------------------------------------------------------------------------------


def call_body(
    evaluator: Evaluator, body: Callable[..., Any], args: Arguments, kwargs: Keywords
) -> VariableTracker:
    """Inline a body that takes tensors for arrays; tensors that it returns are arrays again.

    A tensor that it was given is the same array.
    """
    arrays: dict[int, ArrayVariable] = {}
    plain = [_unwrapped(evaluator, arg, arrays) for arg in args]
    named = {name: _unwrapped(evaluator, arg, arrays) for name, arg in kwargs.items()}
    read_only = any(array.read_only for array in arrays.values())
    if read_only and (body in bodies.WRITERS or "out" in kwargs):
        unsupported(CODE, "a view that is read only is written to")
    made = evaluator.capture.wrap(body, None).call(evaluator, plain, named)
    result = _wrapped(evaluator, made, arrays, body in bodies.SCALARS)
    views = body in bodies.READ_ONLY or (read_only and body in bodies.VIEWS)
    if views and isinstance(result, ArrayVariable):
        result.read_only = True
    return result


def _unwrapped(
    evaluator: Evaluator, value: VariableTracker, arrays: dict[int, ArrayVariable]
) -> VariableTracker:
    if isinstance(value, ArrayVariable):
        arrays[id(value.tensor)] = value
        return value.tensor
    if isinstance(value, TensorVariable | UnmodeledTensorVariable):
        unsupported(CODE, "a NumPy function of a tensor, or of an array unknown to PyTorch")
    if isinstance(value, ConstantVariable) and isinstance(value.value, np.generic):
        return scalar(evaluator, value.value).tensor
    if isinstance(value, TupleVariable | ListVariable):
        parts = [_unwrapped(evaluator, part, arrays) for part in value.realized()]
        return TupleVariable(parts) if isinstance(value, TupleVariable) else ListVariable(parts)
    return value


def _wrapped(
    evaluator: Evaluator, value: VariableTracker, arrays: dict[int, ArrayVariable], scalars: bool
) -> VariableTracker:
    if isinstance(value, TensorVariable):
        known = arrays.get(id(value))
        return known or array(evaluator, value, is_scalar=scalars and not value.fake.ndim)
    if isinstance(value, SequenceVariable):
        parts = [_wrapped(evaluator, part, arrays, scalars) for part in value.realized()]
        return TupleVariable(parts) if isinstance(value, TupleVariable) else ListVariable(parts)
    return value


def scalar(evaluator: Evaluator, value: np.generic) -> ArrayVariable:
    """Return a scalar that is known while capturing, as a tensor."""
    if value.dtype not in DTYPES:
        unsupported(CODE, f"a scalar of dtype {value.dtype}")
    args = [TupleVariable([]), ConstantVariable(value.item())]
    named: dict[str, VariableTracker] = {"dtype": ConstantVariable(DTYPES[value.dtype])}
    made = evaluator.capture.call_in_graph(evaluator, "call_function", torch.full, args, named)
    return array(evaluator, made, is_scalar=True)


# Between the two libraries ------------------------------------------------------------------------


@handles(torch.from_numpy)
def from_numpy(evaluator: Evaluator, array: VariableTracker) -> VariableTracker:
    """``torch.from_numpy(array)``: the tensor on its memory, a new object each time."""
    if not isinstance(array, ArrayVariable) or array.is_scalar:
        unsupported(CODE, "torch.from_numpy of something that is no array")
    return array.writeable().call_method(evaluator, "detach", [], {})


@handles(torch.as_tensor, torch.asarray)
def as_tensor_of(
    evaluator: Evaluator, data: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.as_tensor(array)`` shares the array's memory where it can."""
    if not isinstance(data, ArrayVariable):
        return as_tensor(evaluator, data, **kwargs)
    shared = data.writeable().call_method(evaluator, "detach", [], {})
    return shared.call_method(evaluator, "to", [], kwargs) if kwargs else shared


@handles(torch.tensor)
def tensor_of(
    evaluator: Evaluator, data: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.tensor(array)`` copies."""
    return tensor(evaluator, data.tensor if isinstance(data, ArrayVariable) else data, **kwargs)


@models(wrappers.array_on)
def array_on(evaluator: Evaluator, tensor: VariableTracker) -> VariableTracker:
    """`wrappers.array_on`: captured code need not give the data away, so any device will do"""
    assert isinstance(tensor, TensorVariable)
    if tensor.fake.dtype not in NUMPY_DTYPES:
        unsupported(CODE, f"an array of {tensor.fake.dtype}, which NumPy does not have")
    return ArrayVariable(tensor)


@models(wrappers.tensor_on)
def tensor_on(evaluator: Evaluator, array: VariableTracker) -> VariableTracker:
    """`wrappers.tensor_on`: another tensor on the memory, with its history"""
    assert isinstance(array, ArrayVariable)
    shared = array.writeable()
    return shared.call_method(evaluator, "view_as", [shared], {})


def numpy_of(
    tensor: TensorVariable, evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``tensor.numpy()``: an array on the tensor's memory."""
    fake = tensor.fake
    named = {name: value.as_constant() for name, value in kwargs.items()}
    if not args and named == {"force": True}:
        tensor = tensor.call_method(evaluator, "detach", [], {})  # type: ignore[assignment]
        named = {}
    can = not (args or named or tensor.requires_grad) and fake.device.type == "cpu"
    if not can or fake.dtype not in NUMPY_DTYPES:
        unsupported("scalar-read", "Tensor.numpy reads the data of a tensor")
    return ArrayVariable(tensor)


SPECIAL_METHODS["numpy"] = numpy_of
