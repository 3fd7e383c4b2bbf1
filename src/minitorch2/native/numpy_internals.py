"""Private names of NumPy."""

import numpy as np
from numpy._core import _multiarray_umath, umath  # type: ignore[attr-defined]
from numpy.linalg import _umath_linalg

NO_VALUE = np._NoValue
NumpyArrayConverter = _multiarray_umath._array_converter
clip = umath.clip  # type: ignore[attr-defined]
SLOGDET = _umath_linalg.slogdet
count_nonzero = _multiarray_umath.count_nonzero
