"""NumPy arrays: captured as the tensors that share their memory, where the meaning is the same.

The same are dtype, broadcasting, aliasing and whether a result is an array or a scalar. So
operands must have one dtype (NumPy promotes otherwise than PyTorch), division is that of floats,
and a reduction to one number gives a NumPy scalar. Everything else breaks the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from minitorch2.bytecode.sources import StepSource
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.sequence import SliceVariable, TupleVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import from_number
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import BINARY, COMPARISONS, words
from minitorch2.bytecode.trackers.torch_values.torch_function import as_tensor, handles, tensor

if TYPE_CHECKING:
    from minitorch2.bytecode.capture import Capture
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.guards import Guard
    from minitorch2.bytecode.residual import Residual
    from minitorch2.bytecode.sources import Source

FLOATS: Final = (torch.float32, torch.float64)
DTYPES: Final = {
    np.dtype(name): getattr(torch, name)
    for name in words("float32 float64 int8 int16 int32 int64 uint8 bool")
}
"""Dtypes that mean the same in both."""

NUMPY_DTYPES: Final = {dtype: array_dtype for array_dtype, dtype in DTYPES.items()}
CODE: Final = "numpy"


@dataclass(frozen=True, eq=False)
class FromNumpySource(StepSource):
    """``torch.from_numpy(base)``: a tensor on an array's memory."""

    def step(self, base: str) -> str:
        return f"__import__('torch').from_numpy({base})"


class ArrayVariable(VariableTracker):
    """A `numpy.ndarray`, or a NumPy scalar.

    Attributes:
        tensor: shares the array's memory.
        is_scalar: it is a scalar of no dimension, such as ``numpy.float32(1)``.
    """

    def __init__(self, tensor: TensorVariable, is_scalar: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.tensor, self.is_scalar = tensor, is_scalar

    @property
    def dtype(self) -> torch.dtype:
        """That of the tensor."""
        return self.tensor.fake.dtype

    def python_type(self) -> type:
        return NUMPY_DTYPES[self.dtype].type if self.is_scalar else np.ndarray

    def truth(self, evaluator: Evaluator) -> bool:
        return self.tensor.truth(evaluator)

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        return unsupported(CODE, "iteration over a NumPy array")

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        fake = self.tensor.fake
        if name == "shape":
            return TupleVariable([from_number(size) for size in fake.shape])
        if name in ("ndim", "nbytes", "itemsize"):
            return from_number(getattr(fake, name))
        if name == "size":
            return from_number(fake.numel())
        if name == "dtype":
            return ConstantVariable(NUMPY_DTYPES[self.dtype])
        if name == "T":
            axes = TupleVariable([ConstantVariable(i) for i in reversed(range(fake.ndim))])
            return self._of(evaluator, "permute", axes)
        if callable(getattr(np.ndarray, name, None)):
            return GetAttrVariable(self, name)
        return unsupported(CODE, f"attribute {name!r} of a NumPy array")

    def _of(self, evaluator: Evaluator, method: str, *args: VariableTracker) -> ArrayVariable:
        return _array(evaluator, self.tensor.call_method(evaluator, method, args, {}))

    def call_method(
        self,
        evaluator: Evaluator,
        name: str,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        if name in ("__getitem__", "__setitem__", "__len__"):
            return self._subscript(evaluator, name, args)
        plain, reflected = name, False
        if name.startswith("__r") and f"__{name[3:]}" in BINARY:
            plain, reflected = f"__{name[3:]}", True
        if plain in OPERATORS and len(args) == 1:
            return _elementwise(evaluator, OPERATORS[plain], self, args[0], reflected)
        model = METHODS.get(name)
        if model is None:
            unsupported(CODE, f"ndarray.{name} is not captured")
        return model(evaluator, self, *args, **kwargs)

    def _subscript(
        self, evaluator: Evaluator, name: str, args: Sequence[VariableTracker]
    ) -> VariableTracker:
        """Parts by integers, slices, None and Ellipsis are views; one element is a scalar."""
        if args and not _is_basic_key(args[0]):
            unsupported(CODE, "a NumPy array is indexed with more than integers and slices")
        if name == "__getitem__":
            found = self.tensor.call_method(evaluator, name, args, {})
            keys = args[0].items(evaluator) if isinstance(args[0], TupleVariable) else [args[0]]
            dots = any(k.is_constant() and k.as_constant() is ... for k in keys)
            return _array(evaluator, found, is_scalar=not found.fake.ndim and not dots)  # type: ignore[attr-defined]
        if name == "__setitem__":
            _operand(evaluator, self, args[1])
            value = args[1].tensor if isinstance(args[1], ArrayVariable) else args[1]
            return self.tensor.call_method(evaluator, name, [args[0], value], {})
        return self.tensor.call_method(evaluator, name, args, {})

    def reconstruct(self, residual: Residual) -> str:
        if self.source is not None:
            return residual.load(self.source)
        return f"{residual.name_for(self.tensor)}.numpy(){'[()]' if self.is_scalar else ''}"


def _array(evaluator: Evaluator, value: VariableTracker, is_scalar: bool = False) -> ArrayVariable:
    assert isinstance(value, TensorVariable)
    if value.fake.dtype not in NUMPY_DTYPES:
        unsupported(CODE, f"a NumPy array of dtype {value.fake.dtype}")
    return ArrayVariable(value, is_scalar)


def _is_basic_key(key: VariableTracker) -> bool:
    if isinstance(key, TupleVariable):
        return all(_is_basic_key(part) for part in key.realized())
    if isinstance(key, SliceVariable):
        return True
    return key.is_constant() and (
        key.as_constant() is None or key.as_constant() is ... or type(key.as_constant()) is int
    )


def _operand(evaluator: Evaluator, array: ArrayVariable, other: VariableTracker) -> VariableTracker:
    """The other operand for a tensor operator, if both libraries promote the pair alike."""
    if isinstance(other, ArrayVariable):
        if other.dtype is not array.dtype or other.is_scalar != array.is_scalar:
            unsupported(CODE, "arrays of two dtypes in one operation")
        return other.tensor
    value = other.as_constant() if other.is_constant() else None
    is_int = type(value) is int and array.dtype in (*FLOATS, torch.int64) and abs(value) < 2**31
    if not is_int and not (type(value) is float and array.dtype in FLOATS):
        unsupported(CODE, "a NumPy array and a value that PyTorch would promote otherwise")
    return other


def _elementwise(
    evaluator: Evaluator,
    function: Callable[..., Any],
    array: ArrayVariable,
    other: VariableTracker,
    reflected: bool = False,
) -> VariableTracker:
    operands = [array.tensor, _operand(evaluator, array, other)]
    if function is BINARY["__truediv__"] and array.dtype not in FLOATS:
        unsupported(CODE, "division of integers, which NumPy does in float64")
    call = evaluator.capture.call_in_graph
    ordered = operands[::-1] if reflected else operands
    result = call(evaluator, "call_function", function, ordered)
    return _array(evaluator, result, is_scalar=_is_scalar(result))


def _is_scalar(result: VariableTracker) -> bool:
    return isinstance(result, TensorVariable) and not result.fake.ndim


OPERATORS: Final[dict[str, Any]] = {
    **{f"__{name}__": BINARY[f"__{name}__"] for name in words("add sub mul truediv")},
    **COMPARISONS,
}

METHODS: Final[dict[str, Callable[..., VariableTracker]]] = {}
"""Methods of arrays: (evaluator, array, *args, **kwargs) -> outcome."""


def _models(name: str, *functions: Any) -> Callable[[Any], Any]:
    def register(rule: Any) -> Any:
        METHODS[name] = rule

        def of_array(
            evaluator: Evaluator, a: VariableTracker, *args: Any, **kwargs: Any
        ) -> VariableTracker:
            if not isinstance(a, ArrayVariable):
                unsupported(CODE, f"numpy.{name} of something that is no array")
            return rule(evaluator, a, *args, **kwargs)  # type: ignore[no-any-return]

        handles(*functions)(of_array)
        return rule

    return register


@_models("reshape", np.reshape)
def reshape(evaluator: Evaluator, array: ArrayVariable, *shape: VariableTracker) -> VariableTracker:
    """``array.reshape(shape)`` of a contiguous array: a view in both."""
    if not array.tensor.fake.is_contiguous():
        unsupported(CODE, "reshape of an array that is not contiguous")
    return array._of(evaluator, "view", *shape)


@_models("copy", np.copy)
def copy(evaluator: Evaluator, array: ArrayVariable) -> VariableTracker:
    """``array.copy()`` is contiguous."""
    contiguous: dict[str, VariableTracker] = {
        "memory_format": ConstantVariable(torch.contiguous_format)
    }
    return _array(evaluator, array.tensor.call_method(evaluator, "clone", [], contiguous))


@_models("astype")
def astype(evaluator: Evaluator, array: ArrayVariable, dtype: VariableTracker) -> VariableTracker:
    """``array.astype(dtype)``: a copy; from floats to integers only NumPy knows what it does."""
    wanted = DTYPES.get(np.dtype(dtype.as_constant())) if dtype.is_constant() else None
    if wanted is None or (array.dtype in FLOATS and wanted not in FLOATS):
        unsupported(CODE, "this conversion of a NumPy array")
    args = [ConstantVariable(wanted)]
    kwargs: dict[str, VariableTracker] = {"copy": ConstantVariable(True)}
    return _array(evaluator, array.tensor.call_method(evaluator, "to", args, kwargs))


def _reduction(name: str, method: str, dtypes: Sequence[torch.dtype], *functions: Any) -> None:
    @_models(name, *functions)
    def reduce(
        evaluator: Evaluator,
        array: ArrayVariable,
        axis: VariableTracker | None = None,
        keepdims: VariableTracker | None = None,
    ) -> VariableTracker:
        if array.dtype not in dtypes:
            unsupported(CODE, f"numpy.{name} of dtype {array.dtype}")
        args = [] if axis is None else [axis]
        kwargs = {} if keepdims is None else {"keepdim": keepdims}
        if kwargs and not args:
            unsupported(CODE, f"numpy.{name} with keepdims and without an axis")
        result = array.tensor.call_method(evaluator, method, args, kwargs)
        return _array(evaluator, result, is_scalar=_is_scalar(result))


_reduction("sum", "sum", (*FLOATS, torch.int64), np.sum)
_reduction("mean", "mean", FLOATS, np.mean)
_reduction("max", "amax", (*FLOATS, torch.int64), np.max)
_reduction("min", "amin", (*FLOATS, torch.int64), np.min)


def _unary(function: Any, operator: Callable[..., Any]) -> None:
    @handles(function)
    def apply(evaluator: Evaluator, x: VariableTracker) -> VariableTracker:
        if not isinstance(x, ArrayVariable) or x.dtype not in FLOATS:
            unsupported(CODE, f"numpy.{function.__name__} of no array of floats")
        call = evaluator.capture.call_in_graph
        result = call(evaluator, "call_function", operator, [x.tensor])
        return _array(evaluator, result, is_scalar=_is_scalar(result))


for _name in words("sin cos exp log sqrt tanh absolute negative floor ceil square"):
    _unary(getattr(np, _name), getattr(torch, _name))


def _binary(function: Any, operator: Callable[..., Any]) -> None:
    @handles(function)
    def apply(evaluator: Evaluator, x: VariableTracker, y: VariableTracker) -> VariableTracker:
        if isinstance(x, ArrayVariable):
            return _elementwise(evaluator, operator, x, y)
        if isinstance(y, ArrayVariable):
            return _elementwise(evaluator, operator, y, x, reflected=True)
        return unsupported(CODE, f"numpy.{function.__name__} of no array")


for _name, _special in (("add", "add"), ("subtract", "sub"), ("multiply", "mul")):
    _binary(getattr(np, _name), BINARY[f"__{_special}__"])
_binary(np.true_divide, BINARY["__truediv__"])


@handles(np.maximum, np.minimum)
def _unordered(evaluator: Evaluator, *args: Any) -> VariableTracker:
    return unsupported(CODE, "numpy.maximum and numpy.minimum")


@handles(np.where)
def where(
    evaluator: Evaluator, condition: VariableTracker, *choices: VariableTracker
) -> VariableTracker:
    """``numpy.where(condition, x, y)`` of arrays of one dtype."""
    parts = [part for part in (condition, *choices) if isinstance(part, ArrayVariable)]
    if len(parts) != 3 or parts[1].dtype is not parts[2].dtype:
        unsupported(CODE, "numpy.where of other things than three arrays")
    call = evaluator.capture.call_in_graph
    tensors = [part.tensor for part in parts]
    return _array(evaluator, call(evaluator, "call_function", torch.where, tensors))


# Between the two libraries ------------------------------------------------------------------------


def array_of(
    capture: Capture, value: np.ndarray[Any, Any], source: Source, guards: frozenset[Guard]
) -> VariableTracker:
    """The tracker of an array from outside."""
    plain = value.dtype in DTYPES and value.flags.writeable and value.dtype.isnative
    if not plain or any(step < 0 or step % value.itemsize for step in value.strides):
        return UnmodeledArrayVariable(source=source, guards=guards)
    capture.wrap(True, WriteableSource(source))
    shared = capture.wrap(torch.from_numpy(value), FromNumpySource(source))
    assert isinstance(shared, TensorVariable)
    return ArrayVariable(shared, source=source, guards=guards | shared.guards)


@dataclass(frozen=True, eq=False)
class WriteableSource(StepSource):
    """``base.flags.writeable``."""

    def step(self, base: str) -> str:
        return f"{base}.flags.writeable"


class UnmodeledArrayVariable(VariableTracker):
    """An array that no tensor can share memory with: it is passed on."""

    def python_type(self) -> type:
        return np.ndarray

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        return unsupported(CODE, "a NumPy array that no tensor can share memory with")


@handles(torch.from_numpy)
def from_numpy(evaluator: Evaluator, array: VariableTracker) -> VariableTracker:
    """``torch.from_numpy(array)``: the tensor on its memory, a new object each time."""
    if not isinstance(array, ArrayVariable) or array.is_scalar:
        unsupported(CODE, "torch.from_numpy of something that is no array")
    return array.tensor.call_method(evaluator, "detach", [], {})


@handles(torch.as_tensor, torch.asarray)
def as_tensor_of(
    evaluator: Evaluator, data: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.as_tensor(array)`` shares the array's memory where it can."""
    if not isinstance(data, ArrayVariable):
        return as_tensor(evaluator, data, **kwargs)
    shared = data.tensor.call_method(evaluator, "detach", [], {})
    return shared.call_method(evaluator, "to", [], kwargs) if kwargs else shared


@handles(torch.tensor)
def tensor_of(
    evaluator: Evaluator, data: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.tensor(array)`` copies."""
    return tensor(evaluator, data.tensor if isinstance(data, ArrayVariable) else data, **kwargs)


def numpy_of(
    tensor: TensorVariable, evaluator: Evaluator, *args: VariableTracker
) -> VariableTracker:
    """``tensor.numpy()``: an array on the tensor's memory."""
    fake = tensor.fake
    if args or tensor.requires_grad or fake.device.type != "cpu" or fake.dtype not in NUMPY_DTYPES:
        unsupported("scalar-read", "Tensor.numpy reads the data of a tensor")
    return ArrayVariable(tensor)


SPECIAL_METHODS["numpy"] = numpy_of
