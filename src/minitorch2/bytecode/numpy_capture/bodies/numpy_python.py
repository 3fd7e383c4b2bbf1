"""Classes and functions written in C that NumPy's own Python uses on its way."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from minitorch2.bytecode.numpy_capture.bodies.dtypes import refuse
from minitorch2.native.numpy_internals import NumpyArrayConverter


class ErrorState:
    """``numpy.errstate``: reports of floating point errors; captured code reports none."""

    def __init__(self, **kwargs: Any) -> None:
        if any(kind not in ("ignore", "warn") for kind in kwargs.values()):
            refuse("floating point errors that are raised")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> None:
        pass


class ArrayConverter:
    """The object with which NumPy's Python converts its arguments to arrays."""

    def __init__(self, *args: Any) -> None:
        self.args = args

        self.scalar_input = tuple([not isinstance(arg, np.ndarray) for arg in args])

    def __len__(self) -> int:
        return len(self.args)

    def __getitem__(self, index: int) -> Any:
        return np.asarray(self.args[index])

    def as_arrays(self, subok: bool = True, pyscalars: Any = None) -> Any:
        """Return all of them as arrays."""
        return tuple([np.asarray(arg) for arg in self.args])

    def wrap(self, arr: Any, to_scalar: Any = None) -> Any:
        """Return a result in the class of the arguments."""
        return arr[()] if to_scalar is not False and arr.ndim == 0 else arr

    def result_type(self, extra_dtype: Any = None, ensure_inexact: bool = False) -> Any:
        """Return the common dtype."""
        kinds = [*self.args] if extra_dtype is None else [*self.args, extra_dtype]
        dtype = np.result_type(*kinds)
        inexact = dtype.kind in "fc" or not ensure_inexact
        return dtype if inexact else np.result_type(dtype, 1.0)


CONVERTER: Final = NumpyArrayConverter


def count_all_nonzero(a: Any) -> Any:
    """``numpy.count_nonzero`` without an axis, where NumPy calls C"""
    return (np.asarray(a) != 0).sum()
