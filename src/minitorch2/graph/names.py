"""Names of callables: the Python expression that finds a callable again, and back.

``torch.abs`` has no useful ``__module__``, so the public namespaces are searched by identity once.
"""

from __future__ import annotations

import importlib
import math
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from minitorch2.native.torch_internals.functions import NN_FUNCTIONS
from minitorch2.native.torch_internals.operators import OpOverload, OpOverloadPacket

# In order of preference: a function reachable under two names gets the first.
_NAMESPACES: tuple[tuple[str, Any], ...] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
    ("torch.Tensor", torch.Tensor),
    ("torch._C._nn", NN_FUNCTIONS),
    ("torch.utils.checkpoint", torch.utils.checkpoint),
    ("operator", operator),
    ("math", math),
)


@cache
def _names_by_identity() -> dict[int, str]:
    names: dict[int, str] = {}
    for prefix, namespace in _NAMESPACES:
        for name, value in vars(namespace).items():
            if (
                callable(value)
                and not name.startswith("__")
                and not isinstance(value, types.ModuleType)
            ):
                names.setdefault(id(value), f"{prefix}.{name}")
    return names


def qualified_name(target: Callable[..., Any]) -> str | None:
    """Return the dotted expression that evaluates to ``target``, or None if no import reaches it.

    >>> qualified_name(torch.abs), qualified_name(torch.ops.aten.sin.default), qualified_name(len)
    ('torch.abs', 'torch.ops.aten.sin.default', 'len')
    """
    if isinstance(target, OpOverload):
        return f"torch.ops.{target}"
    if isinstance(target, OpOverloadPacket):
        return f"torch.ops.{str(target).replace('::', '.')}"
    known = _names_by_identity().get(id(target))
    return known or _importable_name(target)


def _importable_name(target: Callable[..., Any]) -> str | None:
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "<")
    if not module or module == "__main__" or "<" in name:
        return None
    full = name if module == "builtins" else f"{module}.{name}"
    try:
        return full if resolve(full) is target else None
    except (ImportError, AttributeError):
        return None


def resolve(name: str) -> Any:
    """Evaluate a dotted name, importing as much of it as is a module. Raises AttributeError."""
    parts = name.split(".")
    value: Any = importlib.import_module("builtins" if len(parts) == 1 else parts[0])
    for i, part in enumerate(parts if len(parts) == 1 else parts[1:], start=2):
        if isinstance(value, types.ModuleType) and not hasattr(value, part):
            importlib.import_module(".".join(parts[:i]))
        value = getattr(value, part)
    return value


def module_of(name: str) -> str | None:
    """Return the module that printed code must import to use a dotted name (None: a builtin).

    >>> module_of("torch.nn.functional.relu"), module_of("operator.add"), module_of("len")
    ('torch', 'operator', None)
    """
    root = name.split(".")[0]
    if root == "torch" or "." not in name:
        return root if "." in name else None
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        prefix = ".".join(parts[:end])
        try:
            importlib.import_module(prefix)
        except ImportError:
            continue
        return prefix
    return None


@dataclass(frozen=True)
class PackedCallable:
    """A callable in its pickled form: its name if it has one, else the callable itself."""

    name: str | None
    value: Callable[..., Any] | None

    @staticmethod
    def of(target: Callable[..., Any]) -> PackedCallable:
        """Pack a call_function target."""
        name = qualified_name(target)
        return PackedCallable(name, None if name else target)

    def resolve(self) -> Any:
        """Return the callable again."""
        return resolve(self.name) if self.name else self.value
