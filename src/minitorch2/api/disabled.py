"""`disable`: functions, methods, classes and modules that run in Python, not captured."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar, overload

import torch

from minitorch2.api.compiled_module import twin_with_forward, uncompiled_class
from minitorch2.bytecode.dispatch import original_of, suspended
from minitorch2.bytecode.frames.signature import generate_function
from minitorch2.bytecode.frames.steps import calling_all_positionally
from minitorch2.errors import ConfigError
from minitorch2.marks.controls import Disabled, mark
from minitorch2.native.cpython import frame_hook

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])


@overload
def disable(fn: C, recursive: bool = ..., *, reason: str | None = ...) -> C: ...


@overload
def disable(
    fn: None = ..., recursive: bool = ..., *, reason: str | None = ...
) -> Callable[[C], C]: ...


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Make a function run in Python wherever it is called: capture breaks at it.

    Use it as a function, or as a decorator with or without arguments. The original `fn` is not
    changed: the result is a disabled function of the same name, signature and type.

    Args:
        fn: a function or method of any kind, or a callable object. Of a `torch.nn.Module` the
            `forward` is disabled. A class comes back itself, with its `forward` or `__call__`
            disabled.
        recursive: what the function calls runs in Python, too. Otherwise it is captured on its own.
        reason: why, in your words; reports of graph breaks show it.

    Raises:
        ConfigError: `fn` cannot be called, or has no Python code that could run alone in Python.
    """
    how = Disabled(reason, recursive)
    return (lambda given: _disabled(given, how)) if fn is None else _disabled(fn, how)


def _disabled(fn: Any, how: Disabled) -> Any:
    if isinstance(fn, type):
        name = "forward" if issubclass(fn, torch.nn.Module) else "__call__"
        setattr(fn, name, _disabled(getattr(fn, name), how))
        return fn
    if isinstance(fn, torch.nn.Module):
        forward = _disabled(uncompiled_class(type(fn)).forward, how)
        return twin_with_forward(fn, forward, (_disabled, how))
    if isinstance(fn, staticmethod | classmethod):
        return type(fn)(_disabled(fn.__func__, how))
    if not callable(fn):
        raise ConfigError(
            f"disable() takes a function, a module or a class, not {fn!r}",
            code="not-callable",
            fix="give it what is called",
        )
    if not how.recursive:
        return _copy(fn, how)
    if isinstance(fn, FunctionType):
        fn = original_of(fn)
        if text := suspended.dispatching_text(fn.__code__):
            return mark(_suspendable_wrapper(fn, text), how)
    return _wrapper(fn, how)


def _wrapper(function: Callable[P, R], how: Disabled) -> Callable[P, R]:
    """Return a function that calls the given one; only this wrapper carries the mark."""

    @functools.wraps(function)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return mark(calling, how)


def _suspendable_wrapper(function: FunctionType, text: str) -> FunctionType:
    """Return a generator or coroutine function that passes on each step, without the frame hook."""
    values = {
        "begin": calling_all_positionally(function),
        "hide": lambda error: None,
        **suspended.names(frame_hook.disabled),
    }
    made = generate_function(text.replace("{changed}", "False"), function.__code__, values)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    functools.update_wrapper(made, function)
    return suspended.of_the_same_kind(made, function.__code__)


def _copy(function: Any, how: Disabled) -> Any:
    """Copy a Python function together with its code object, so that guards see another function."""
    if isinstance(function, MethodType):
        return MethodType(_copy(function.__func__, how), function.__self__)
    original = _function_of(function)
    copy = FunctionType(
        original.__code__.replace(),
        original.__globals__,
        original.__name__,
        original.__defaults__,
        original.__closure__,
    )
    copy.__kwdefaults__ = original.__kwdefaults__
    functools.update_wrapper(copy, original)
    return mark(copy, how)


def _function_of(function: Any) -> FunctionType:
    found = original_of(function) if isinstance(function, FunctionType) else function
    if not isinstance(found, FunctionType):
        raise ConfigError(
            f"recursive=False takes a Python function, not {function!r}",
            code="not-callable",
            fix="leave recursive=True, or disable the functions that it calls",
        )
    return found
