"""Rules for NumPy's functions: which are inlined, which have a body, which fold, which break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minitorch2.bytecode.numpy_capture import bodies
from minitorch2.bytecode.numpy_capture.arrays import CODE, ArrayVariable, call_body
from minitorch2.bytecode.numpy_capture.bodies import dtypes, quantiles, reductions
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, fold
from minitorch2.bytecode.trackers.torch_values.torch_function import handles

DISPATCHER: Final = type(np.mean)
"""The class of NumPy's functions that other array libraries may override."""


def _with_body(function: Any, body: Callable[..., Any]) -> None:
    @handles(function)
    def inlined(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        return call_body(evaluator, body, args, kwargs)


for _function, _body in bodies.FUNCTIONS.items():
    _with_body(_function, _body)


@handles(dtypes.refuse)
def refuse(evaluator: Evaluator, cause: VariableTracker) -> VariableTracker:
    """Leave the call of a body to NumPy."""
    return unsupported(CODE, str(cause.as_constant()))


def _folded(function: Any) -> None:
    @handles(function)
    def known(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        return fold(function, [_kind(arg) for arg in args], kwargs)


def _kind(value: VariableTracker) -> VariableTracker:
    """Return the value that a question about dtypes looks at: an array's dtype, or the value."""
    return ConstantVariable(value.numpy_dtype) if isinstance(value, ArrayVariable) else value


for _function in (
    np.result_type,
    np.promote_types,
    np.can_cast,
    np.isdtype,
    reductions.reduction_dtype,
    quantiles.quantile_places,
    normalize_axis_index,
):
    _folded(_function)


def _scalar_class(cls: type) -> None:
    @constructs(cls)
    def make(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
        if len(args) == 1 and isinstance(args[0], ArrayVariable):
            dtype = ConstantVariable(np.dtype(cls))
            made = args[0].call_method(evaluator, "astype", [dtype], {})
            assert isinstance(made, ArrayVariable)
            made.is_scalar = not made.ndim
            return made
        return fold(cls, args)


for _dtype in dtypes.DTYPES:
    _scalar_class(_dtype.type)


@constructs(np.dtype)
def dtype(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
    """``numpy.dtype(name)``"""
    return fold(np.dtype, args)
