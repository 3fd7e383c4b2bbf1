"""A compiled `torch.nn.Module`: of the same class, sharing everything with the original.

A compiled module is the original's *twin*: an instance of a subclass made for it, whose `forward`
is compiled and whose ``__dict__`` *is* the original's. So parameters, buffers, hooks, submodules,
`state_dict` keys, `train()`, attributes and `isinstance` are those of the original, both ways,
without a word of delegation. Calling it is `torch.nn.Module.__call__`, which runs hooks around
`forward`. The class attribute `TWIN` marks a twin's class and holds what makes it again from the
original: a function and its argument after the module.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import torch

from minitorch2.bytecode.dispatch import Dispatcher, Region, original_of
from minitorch2.errors import ConfigError
from minitorch2.foundation.generated_code import TWIN
from minitorch2.marks.controls import Disabled, mark_of

M = TypeVar("M", bound=torch.nn.Module)


def compile_module(module: M, region: Region) -> M:
    """Return the compiled twin of a module.

    A disabled module stays as it is.

    Raises:
        ConfigError: the module's `forward` is not a Python function.
    """
    cls = type(module)
    forward = module.__dict__.get("forward", cls.forward)
    if isinstance(mark_of(forward), Disabled):
        return module
    function = getattr(forward, "__func__", forward)
    if not isinstance(function, FunctionType):
        cause = f"the forward of {cls.__name__} is no Python function: {forward!r}"
        raise ConfigError(cause, code="not-compilable")
    twin_class = region.twin_classes.get((cls, function))
    if twin_class is None:
        holder = None if "forward" in module.__dict__ else cls
        compiled = Dispatcher(region, original_of(function), holder).as_function()
        twin_class = twin_class_with_forward(cls, compiled, (compile_module, region))
        if not hasattr(cls, "recompiles"):
            type.__setattr__(twin_class, "recompiles", staticmethod(region.recompiles))
        region.twin_classes[cls, function] = twin_class
    return _sharing(module, twin_class)


def twin_with_forward(
    module: M, forward: Callable[..., Any], again: tuple[Callable[..., Any], object]
) -> M:
    """Return a module of the same class that shares everything with the original but its `forward`.

    Args:
        again: a function and its second argument that make the twin of a copy of the module.
    """
    return _sharing(module, twin_class_with_forward(type(module), forward, again))


def twin_class_with_forward(
    cls: type[Any], forward: Callable[..., Any], again: tuple[Callable[..., Any], object]
) -> type[Any]:
    """Return the class of such modules."""
    cls = uncompiled_class(cls)
    members = {
        "forward": forward,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__reduce_ex__": _reduce,
        TWIN: again,
    }
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(cls.__name__, (cls,), members)
    return made


def _sharing(module: M, cls: type[Any]) -> M:
    """Return an instance of the class that shares everything with the module."""
    twin: M = object.__new__(cls)
    object.__setattr__(twin, "__dict__", module.__dict__)
    return twin


def uncompiled_class(cls: type[Any]) -> type[Any]:
    """Return the user's class behind a twin's."""
    return cls.__mro__[1] if TWIN in cls.__dict__ else cls


def uncompiled(module: M) -> M:
    """Return the original of a twin; other modules are their own."""
    cls = uncompiled_class(type(module))
    return module if cls is type(module) else _sharing(module, cls)


def _reduce(self: torch.nn.Module, protocol: int) -> tuple[Any, ...]:
    """Copy and pickle the original; the twin of the copy is made again in the same way."""
    function, argument = getattr(type(self), TWIN)
    return function, (uncompiled(self), argument)
