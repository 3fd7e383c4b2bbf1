"""From arrays, scalars, functions and generators of NumPy to trackers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from minitorch2.bytecode.building.build import BUILDERS, BUILDERS_OF_SUBCLASSES
from minitorch2.bytecode.building.callables import wrap_plain_builtin
from minitorch2.bytecode.building.guarding import (
    Builder,
    by_identity,
    guarded,
    identity_guards,
    type_guards,
)
from minitorch2.bytecode.guards import constant_match
from minitorch2.bytecode.guards.sources import AttributeSource, Source, StepSource
from minitorch2.bytecode.numpy_capture.arrays import CODE, ArrayVariable
from minitorch2.bytecode.numpy_capture.bodies import numpy_python
from minitorch2.bytecode.numpy_capture.bodies.dtypes import DTYPES
from minitorch2.bytecode.numpy_capture.functions import DISPATCHER
from minitorch2.bytecode.numpy_capture.random_numbers import NumpyGeneratorVariable
from minitorch2.bytecode.numpy_capture.ufuncs import UfuncVariable
from minitorch2.bytecode.polyfills import POLYFILLS
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import (
    TorchVariable,
    is_torch_function,
)
from minitorch2.bytecode.trackers.torch_values.unmodeled_tensor import UnmodeledTensorVariable
from minitorch2.native.numpy_internals import count_nonzero

_NOT_SHARED: Final = (CODE, "a NumPy array that no tensor can share memory with")


@dataclass(frozen=True, eq=False)
class FromNumpySource(StepSource):
    """``torch.from_numpy(base)``: a tensor on an array's memory."""

    FORM, FUNCTION = "{function}({base})", torch.from_numpy


@dataclass(frozen=True, eq=False)
class WriteableSource(StepSource):
    """``base.flags.writeable``."""

    FORM = "{base}.flags.writeable"


@dataclass(frozen=True, eq=False)
class AsArraySource(StepSource):
    """``np.array(base)``: an array of a scalar."""

    FORM, FUNCTION = "{function}({base})", np.array


def wrap_array(capture: Capture, value: np.ndarray[Any, Any], source: Source) -> VariableTracker:
    """Return the tracker of an array: a tensor on its memory, if that means the same."""
    guards = guarded(capture, *type_guards(capture, value, source))
    plain = value.dtype in DTYPES and value.flags.writeable and value.dtype.isnative
    if (
        not plain
        or "raise" in np.geterr().values()
        or any(step < 0 or step % value.itemsize for step in value.strides)
    ):
        return UnmodeledTensorVariable(np.ndarray, _NOT_SHARED, source=source, guards=guards)
    capture.wrap(True, WriteableSource(source))
    shared = capture.wrap(torch.from_numpy(value), FromNumpySource(source))
    assert isinstance(shared, TensorVariable)
    return ArrayVariable(shared, real=value, source=source, guards=guards | shared.guards)


def wrap_scalar(capture: Capture, value: np.generic, source: Source) -> VariableTracker:
    """Return the tracker of a scalar of NumPy: the graph takes it as a tensor."""
    guards = guarded(capture, *type_guards(capture, value, source))

    def fix() -> np.generic:
        capture.add_guard(constant_match(source, value, capture.line))
        return value

    if value.dtype not in DTYPES:
        return UnmodeledTensorVariable(type(value), _NOT_SHARED, source=source, guards=guards)
    place = FromNumpySource(AsArraySource(source))
    held = capture.wrap(torch.from_numpy(np.array(value)), place)
    assert isinstance(held, TensorVariable)
    fixed = None if source in capture.frame.varying else fix
    return ArrayVariable(held, True, fix=fixed, source=source, guards=guards | held.guards)


def wrap_generator(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a generator of NumPy's random numbers."""
    guards = guarded(capture, *type_guards(capture, value, source))
    return NumpyGeneratorVariable(type(value), value, None, capture, source=source, guards=guards)


def wrap_function(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a NumPy function that others may override, as NumPy's arrays see it."""
    guards = identity_guards(capture, value, source)
    if is_torch_function(value):
        return TorchVariable(value, source=source, guards=guards)
    return capture.wrap(value._implementation, AttributeSource(source, "_implementation"))


_BUILDERS: Final[dict[type, Builder]] = {
    np.ndarray: wrap_array,
    np.ufunc: by_identity(UfuncVariable),
    np.random.Generator: wrap_generator,
    np.random.RandomState: wrap_generator,
    type(np.random.seed): wrap_plain_builtin,
    DISPATCHER: wrap_function,
}


def register() -> None:
    """Tell capture how the objects of NumPy are built, and which of its classes have a body."""
    BUILDERS.update(_BUILDERS)
    BUILDERS_OF_SUBCLASSES[np.generic] = wrap_scalar
    POLYFILLS[np.errstate] = numpy_python.ErrorState
    POLYFILLS[numpy_python.CONVERTER] = numpy_python.ArrayConverter
    POLYFILLS[count_nonzero] = numpy_python.count_all_nonzero
