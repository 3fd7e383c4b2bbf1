"""The parts of NumPy that are written in C, in PyTorch: NumPy's Python is inlined and calls them.

Each has the parameters of its namesake, with tensors in place of arrays (and of NumPy's scalars).
The results share memory with these tensors where NumPy's results do. NumPy chooses the dtypes. A
function without such a body, or a body that calls `refuse`, breaks the graph. Read `dtypes` (and
`refuse`) first; `numpy_python` holds classes that NumPy's own Python uses.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np

from minitorch2.bytecode.numpy_capture.bodies import (
    arranging,
    creation,
    linalg,
    products,
    quantiles,
    reductions,
    ufuncs,
)

Body = Callable[..., Any]


def _bodies(module: ModuleType, names: str) -> dict[str, Body]:
    return {name: getattr(module, name) for name in names.split()}


_NUMPY: Final[dict[str, Body]] = {
    **_bodies(
        creation, "arange array asarray ascontiguousarray copyto diag eye fill_diagonal full"
    ),
    **_bodies(creation, "full_like linspace ones ones_like zeros zeros_like"),
    **_bodies(arranging, "array_split broadcast_arrays broadcast_to concatenate meshgrid pad roll"),
    **_bodies(arranging, "tile where"),
    **_bodies(products, "convolve correlate cross dot einsum inner kron vdot"),
    **_bodies(quantiles, "percentile quantile"),
    "asanyarray": creation.asarray,
    "empty": creation.zeros,
    "empty_like": creation.zeros_like,
}
_LINALG: Final[dict[str, Body]] = _bodies(
    linalg, "cholesky det eigvalsh inv pinv solve svd svdvals"
)

FUNCTIONS: Final[dict[Any, Body]] = {
    **{getattr(np, name): body for name, body in _NUMPY.items()},
    **{getattr(np.linalg, name): body for name, body in _LINALG.items()},
    **linalg.FOURIER,
}
"""NumPy's function to its body."""

METHODS: Final[dict[str, Body]] = {
    **_bodies(creation, "astype copy fill view"),
    **_bodies(
        arranging,
        "diagonal flatten item nonzero ravel repeat reshape squeeze swapaxes take tolist transpose",
    ),
    **_bodies(reductions, "argmax argmin argsort cumprod cumsum searchsorted sort trace"),
    "dot": products.dot,
    "round": ufuncs.round,
}
"""Name of an array's method to its body."""

READ_ONLY: Final = frozenset({creation.diag, arranging.diagonal, arranging.broadcast_to})
"""Bodies that give views which NumPy forbids to write to."""

VIEWS: Final = READ_ONLY.union(
    _bodies(creation, "array asarray ascontiguousarray astype view").values(),
    _bodies(
        arranging, "array_split broadcast_arrays ravel reshape squeeze swapaxes transpose"
    ).values(),
)
"""Bodies that may give a view of what they are given."""

WRITERS: Final = frozenset(
    {creation.copyto, creation.fill, creation.fill_diagonal, reductions.sort}
)
"""Bodies that write to what they are given."""

SCALARS: Final = frozenset(
    {linalg.det, linalg.slogdet, arranging.take, ufuncs.round, ufuncs.sign}
).union(
    _bodies(products, "dot einsum inner matmul vdot vecdot").values(),
    _bodies(reductions, "argmax argmin reduce searchsorted trace").values(),
    _bodies(quantiles, "percentile quantile").values(),
)
"""Bodies whose results are scalars if they have no dimensions; of others they are arrays."""
