"""Universal functions of NumPy: NumPy chooses the dtypes, PyTorch computes in them.

``numpy.ufunc.resolve_dtypes`` says which loop a call runs and which dtypes it returns, Python's
numbers and their weak types included. The operands are converted to the loop's dtypes, so that
PyTorch's own promotion has nothing left to decide.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from minitorch2.bytecode.numpy_capture.arrays import CLIP, CODE, ArrayVariable, array, call_body
from minitorch2.bytecode.numpy_capture.bodies import creation, reductions, ufuncs
from minitorch2.bytecode.numpy_capture.bodies.dtypes import DTYPES
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.known import ConstantObjectVariable
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, fold, literal
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words

Operand = tuple[Any, VariableTracker]
"""A dtype, or the type of a number, and a tensor, or a number."""

_SYMBOLS: Final[dict[Any, Callable[..., Any]]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.power: operator.pow,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
}
"""The functions that PyTorch writes as operators, which take numbers as they are."""

UFUNCS: Final[dict[Any, Callable[..., Any]]] = {
    **{
        getattr(np, name): getattr(torch, name)
        for name in words(
            "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not"
            " bitwise_or bitwise_xor ceil copysign cos cosh deg2rad exp exp2 expm1 floor fmax fmin"
            " fmod frexp gcd heaviside hypot isfinite isinf isnan lcm log log10 log1p log2"
            " logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum"
            " negative nextafter positive rad2deg reciprocal remainder signbit sin sinh sqrt square"
            " tan tanh trunc"
        )
    },
    **_SYMBOLS,
    np.degrees: torch.rad2deg,
    np.radians: torch.deg2rad,
    np.fabs: torch.abs,
    np.float_power: torch.pow,
    np.rint: torch.round,
    np.conjugate: torch.conj_physical,
    np.left_shift: torch.bitwise_left_shift,
    np.right_shift: torch.bitwise_right_shift,
    CLIP: torch.clamp,
}
"""Each, and the function that computes it in one dtype."""

METHODS: Final = {"reduce": reductions.reduce, "accumulate": reductions.accumulate}


class UfuncVariable(ConstantObjectVariable):
    """A universal function, such as ``numpy.add``."""

    value: np.ufunc

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        attribute = self.real_attribute(name)
        return GetAttrVariable(self, name) if callable(attribute) else literal(attribute)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if all(isinstance(arg, ConstantVariable) for arg in (*args, *kwargs.values())):
            return fold(self.value, args, kwargs)
        if self.value is np.divmod:
            parts = [np.floor_divide, np.remainder]
            made = [evaluator.capture.wrap(p, None).call(evaluator, args, kwargs) for p in parts]
            return TupleVariable(made)
        result = self._computed(evaluator, args, kwargs)
        if not kwargs and isinstance(result, ArrayVariable) and result.is_scalar:
            result.fix = self._fixed(args)
        return result

    def _computed(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if self.value in ufuncs.UFUNCS:
            return call_body(evaluator, ufuncs.UFUNCS[self.value], args, kwargs)
        if self.value not in UFUNCS:
            unsupported(CODE, f"numpy.{self.value.__name__} is not captured")
        return Call(evaluator, self.value, args, **kwargs).result()

    def _fixed(self, args: Arguments) -> Callable[[], np.generic] | None:
        """Return what fixes a result by fixing its operands; None if data tell one of them."""
        known = [arg.fix if isinstance(arg, ArrayVariable) else _known(arg) for arg in args]
        if None in known:
            return None

        def fix() -> np.generic:
            with np.errstate(all="ignore"):
                return self.value(*(value() for value in known if value is not None))  # type: ignore[no-any-return]

        return fix

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name == "outer" and len(args) == 2 and all(isinstance(a, ArrayVariable) for a in args):
            left, right = args
            key = TupleVariable([ConstantVariable(...)] + [ConstantVariable(None)] * right.ndim)  # type: ignore[attr-defined]
            column = left.call_method(evaluator, "__getitem__", [key], {})
            return self.call(evaluator, [column, right], kwargs)
        if name in ("__eq__", "__ne__"):
            return super().call_method(evaluator, name, args, kwargs)
        if name not in METHODS:
            unsupported(CODE, f"numpy.{self.value.__name__}.{name} is not captured")
        return call_body(evaluator, METHODS[name], [self, *args], kwargs)


def _known(value: VariableTracker) -> Callable[[], object] | None:
    return value.as_constant if value.is_constant() else None


class Call:
    """One call of a universal function with an array among its operands."""

    def __init__(
        self,
        evaluator: Evaluator,
        ufunc: np.ufunc,
        args: Arguments,
        out: VariableTracker | None = None,
        where: VariableTracker | None = None,
        dtype: VariableTracker | None = None,
        casting: VariableTracker | None = None,
        subok: VariableTracker | None = None,
    ) -> None:
        self.evaluator, self.ufunc = evaluator, ufunc
        self.operands = [operand(evaluator, arg) for arg in args[: ufunc.nin]]
        self.out = self._out(args[ufunc.nin :], out)
        self.where = where if isinstance(where, ArrayVariable) else None
        if where is not None and (self.out is None or self.where is None):
            self.where = None
            if not _is_constant(where, True):
                unsupported(CODE, "where= without out=, or that is no array")
        wanted = None if dtype is None else dtype.as_constant()
        allowed = "same_kind" if casting is None else casting.as_constant()
        if isinstance(wanted, type) and issubclass(wanted, np.dtype):
            wanted = wanted()  # type: ignore[call-overload]
        self.dtypes = self._resolve(None if wanted is None else np.dtype(wanted), allowed)

    def _out(
        self, given: Sequence[VariableTracker], named: VariableTracker | None
    ) -> ArrayVariable | None:
        given = given or ([] if named is None else [named])
        if given and isinstance(given[0], TupleVariable):
            given = given[0].items(self.evaluator)
        self.gives_array = len(given) == 1 and _is_constant(given[0], ...)
        outs = [out for out in given if not (_is_constant(out, None) or _is_constant(out, ...))]
        if not outs:
            return None
        if len(outs) > 1 or not isinstance(outs[0], ArrayVariable) or outs[0].is_scalar:
            unsupported(CODE, "out= of a NumPy function that is not one array")
        return outs[0]

    def _resolve(self, dtype: Any, casting: Any) -> tuple[Any, ...]:
        """Return the dtypes of operands and results."""
        ufunc = self.ufunc
        outs = [None if self.out is None else self.out.numpy_dtype] * ufunc.nout
        signature = (*[None] * ufunc.nin, *[dtype] * ufunc.nout)
        kinds = (*[kind for kind, _ in self.operands], *outs)
        try:
            resolved = ufunc.resolve_dtypes(kinds, signature=signature, casting=casting)
        except TypeError as error:
            unsupported(CODE, f"numpy.{ufunc.__name__}: {error}")
        if any(found not in DTYPES for found in resolved):
            unsupported(CODE, f"numpy.{ufunc.__name__} computes in {resolved[0]}")
        return resolved

    def result(self) -> VariableTracker:
        """Return the result of the call."""
        self._refuse_other_meanings()
        operands = [self._converted(i) for i in range(len(self.operands))]
        made = self._computed(operands)
        parts = made.items(self.evaluator) if self.ufunc.nout > 1 else [made]
        results = [
            self._stored(self._cast(part, dtype))
            for part, dtype in zip(parts, self.dtypes[self.ufunc.nin :], strict=True)
        ]
        return TupleVariable(results) if self.ufunc.nout > 1 else results[0]

    def _computed(self, operands: Sequence[VariableTracker]) -> VariableTracker:
        capture, body = self.evaluator.capture, _body(self.ufunc, self.dtypes[0])
        if body is not None:
            return capture.wrap(body, None).call(self.evaluator, operands, {})
        return capture.call_in_graph(self.evaluator, "call_function", UFUNCS[self.ufunc], operands)

    def _stored(self, tensor: TensorVariable) -> VariableTracker:
        if self.out is None:
            is_scalar = not (tensor.fake.ndim or self.gives_array)
            return array(self.evaluator, tensor, is_scalar)
        if self.where is not None:
            call, parts = self.evaluator.capture.call_in_graph, [self.where.tensor, tensor]
            kept = [*parts, self._cast(self.out.tensor, self.dtypes[-1])]
            tensor = call(self.evaluator, "call_function", torch.where, kept)  # type: ignore[assignment]
        self.out.writeable().call_method(self.evaluator, "copy_", [tensor], {})
        return self.out

    def _cast(self, value: VariableTracker, dtype: Any) -> TensorVariable:
        assert isinstance(value, TensorVariable)
        if value.fake.dtype is DTYPES[dtype]:
            return value
        wanted = [ConstantVariable(DTYPES[dtype])]
        return value.call_method(self.evaluator, "to", wanted, {})  # type: ignore[return-value]

    def _converted(self, index: int) -> VariableTracker:
        """Return an operand in the dtype of the loop."""
        value = self.operands[index][1]
        dtype = self.dtypes[index]
        if isinstance(value, TensorVariable):
            return self._cast(value, dtype)
        if isinstance(value, SymbolicNumberVariable) and dtype.kind in "iu" and dtype.itemsize < 8:
            unsupported(CODE, f"a size among numbers of {dtype}")
        if value.is_constant() and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if not limits.min <= value.as_constant() <= limits.max:
                unsupported(CODE, f"{value.as_constant()} is out of bounds for {dtype}")
        if self.ufunc in _SYMBOLS and _body(self.ufunc, dtype) is None:
            return value
        call, shape = self.evaluator.capture.call_in_graph, TupleVariable([])
        named = {"dtype": ConstantVariable(DTYPES[dtype])}
        return call(self.evaluator, "call_function", torch.full, [shape, value], named)

    def _refuse_other_meanings(self) -> None:
        """Refuse functions of PyTorch that differ from NumPy's in this dtype."""
        name, dtype = self.ufunc.__name__, self.dtypes[0]
        second = self.operands[1][1] if len(self.operands) > 1 else None
        number = second.as_constant() if second is not None and second.is_constant() else None
        if name == "power" and dtype.kind in "iu" and (number is None or number < 0):
            unsupported(CODE, "an integer to a power that may be negative")
        if name.endswith("_shift") and (number is None or not 0 <= number < 8 * dtype.itemsize):
            unsupported(CODE, "a shift by a number of bits that may be too large")
        if name == "reciprocal" and dtype.kind in "iub":
            unsupported(CODE, "the reciprocal of an integer")
        if dtype.kind == "c" and self.ufunc not in _COMPLEX:
            unsupported(CODE, f"numpy.{name} of complex numbers")


def _is_constant(value: VariableTracker, constant: object) -> bool:
    return value.is_constant() and value.as_constant() is constant


def _body(ufunc: np.ufunc, dtype: Any) -> Any:
    """Return the function that computes a ufunc in this dtype with more than one operator."""
    integers = dtype.kind in "iu"
    return (ufuncs.OF_INTEGERS if integers else ufuncs.OF_FLOATS).get(ufunc)


_COMPLEX: Final = frozenset(
    getattr(np, name)
    for name in words(
        "add subtract multiply true_divide equal not_equal absolute negative positive conjugate"
        " square exp sin cos isnan isfinite isinf"
    )
)
"""The functions that have one meaning for complex numbers, whichever branch is taken."""


def operand(evaluator: Evaluator, value: VariableTracker) -> Operand:
    """Return the dtype for `numpy.ufunc.resolve_dtypes`, and the tracker to compute with."""
    if isinstance(value, ArrayVariable):
        return value.numpy_dtype, value.tensor
    if isinstance(value, SymbolicNumberVariable):
        return value.python_type(), value
    if isinstance(value, ConstantVariable):
        known = value.as_constant()
        if type(known) in (int, float, complex):
            return type(known), value
        if isinstance(known, bool | np.generic) and np.dtype(type(known)) in DTYPES:
            return np.dtype(type(known)), literal(np.asarray(known).item())
        unsupported(CODE, f"a universal function of {known!r}")
    made = call_body(evaluator, creation.asarray, [value], {})
    assert isinstance(made, ArrayVariable)
    return made.numpy_dtype, made.tensor
