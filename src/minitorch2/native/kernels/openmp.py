"""The OpenMP run time that torch has loaded, if this process has one.

Kernels start threads through it, so that they and torch's operators use the same pool of threads,
obey the same `torch.set_num_threads`, and never wait for each other's spinning.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch

from minitorch2.logs import get_logger
from minitorch2.native.memory import address_of

_LOGGER = get_logger(__name__)
# GNU's names; LLVM's libomp and Intel's libiomp5 export them too.
SYMBOLS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads")


@cache
def addresses() -> dict[str, int] | None:
    """Return the address of each of `SYMBOLS`; None without OpenMP (kernels run on one thread)."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            found = {name: address_of(getattr(library, name)) for name in SYMBOLS}
        except (OSError, AttributeError):
            continue
        _LOGGER.debug("kernels use the threads of %s", path)
        return found
    _LOGGER.warning("no OpenMP run time found: kernels run on one thread")
    return None


def _candidates() -> list[str | None]:
    """Return the libraries to try, torch's own first: one that is loaded is not loaded twice."""
    root = Path(torch.__file__).parent
    folders = (root / "lib", root.parent / "torch.libs", root / ".dylibs")
    shipped = [
        str(path)
        for folder in folders
        for pattern in ("libgomp*", "libomp*", "libiomp5*")
        for path in sorted(folder.glob(pattern))
    ]
    return [*shipped, None, "libgomp.so.1"]
