"""Modules of the standard library without their accelerators in C.

Modules such as `heapq` and `operator` are written in Python and then replaced, function by
function, by C. Executed once more while the C module cannot be imported, they give the Python
functions, to be inlined.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

ACCELERATED = {
    name: f"_{name}" for name in ("heapq", "bisect", "operator", "functools", "collections")
}
"""Module to its accelerator."""

MODELED = ["abs", "call", "countOf", "iconcat", "indexOf", "is_", "is_not", "length_hint", "truth"]
"""Functions of `operator` that have no rule of their own."""


def python_twin(name: str) -> ModuleType:
    """Return the module as its Python source alone makes it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None, f"{name} has a Python source"
    module = importlib.util.module_from_spec(spec)
    accelerator = ACCELERATED[name]
    known = sys.modules.get(accelerator)
    sys.modules[accelerator] = None  # type: ignore[assignment]
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[accelerator]
        if known is not None:
            sys.modules[accelerator] = known
    return module


def twins() -> dict[Any, Callable[..., Any]]:
    """Map each C function to the Python function of the same name."""
    found: dict[Any, Callable[..., Any]] = {}
    for name in ACCELERATED:
        real, twin = importlib.import_module(name), python_twin(name)
        for key, value in vars(real).items():
            written = getattr(twin, key, None)
            is_wanted = name != "operator" or key in MODELED
            if is_wanted and type(value) is type(len) and isinstance(written, FunctionType):
                found[value] = written
    return found
