"""Decorators: what a script makes of a function that wraps another one.

The source of a function is that of the innermost one. A grad mode or `autocast` that decorates it
becomes a `with` around its body. Wrappers of `TRANSPARENT` change no value. Any other wrapper is
refused, PyTorch's own, too: a script without it would compute something else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FunctionType
from typing import Any, Final

import torch

from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.from_ast import function_from_ast
from minitorch2.script.syntax.reading import source_of
from minitorch2.script.syntax.source import SourceRange

TRANSPARENT: Final = frozenset({"torch._compile", "torch._dynamo", "torch.overrides"})
"""Modules whose wrappers give what the function gives: `torch.compile`, `torch.compiler.disable`
and `wrap_torch_function`, which asks subclasses of tensors alone."""

MODES: Final = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode)
"""Grad modes, each of which can decorate a function."""


def wrappers_of(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Iterate over the functions that decorators put around a function, the outermost first."""
    while hasattr(function, "__wrapped__"):
        yield function
        function = function.__wrapped__


def undecorated(function: Callable[..., Any], where: SourceRange | None = None) -> FunctionType:
    """Return the function that decorators wrap.

    Raises:
        ScriptError: a wrapper may change what the function computes, or wraps no Python function.
    """
    for wrapper in wrappers_of(function):
        if context_of(wrapper) is None and not _is_transparent(wrapper):
            raise _unknown_wrapper(wrapper, where or _line_of(function))
    found = next(iter([*wrappers_of(function)][-1:]), None)
    plain = function if found is None else found.__wrapped__  # type: ignore[attr-defined]
    if not isinstance(plain, FunctionType):
        message = f"{plain!r} is no Python function"
        raise ScriptError(message, where, code="script-not-a-function", fix="give a function")
    return plain


def _is_transparent(wrapper: Callable[..., Any]) -> bool:
    """Tell whether a wrapper's own code, whatever name it has taken over, changes no value."""
    module = str(getattr(wrapper, "__globals__", {}).get("__name__", ""))
    return ".".join(module.split(".")[:2]) in TRANSPARENT


def _line_of(function: Callable[..., Any]) -> SourceRange | None:
    """Return where the function that decorators wrap is written; None if nobody knows."""
    try:
        return function_from_ast(source_of(inspect.unwrap(function)), postpones=True).range
    except ScriptError:
        return None


def _unknown_wrapper(wrapper: Callable[..., Any], where: SourceRange | None) -> ScriptError:
    code = getattr(wrapper, "__code__", None)
    place = f", defined in {code.co_filename}:{code.co_firstlineno}" if code else ""
    name = getattr(wrapper, "__qualname__", repr(wrapper))
    return ScriptError(
        f"a decorator wraps {name}{place}, and a script of {name} would leave it out",
        where,
        code="script-decorator",
        fix="script the function without the decorator, or leave it to Python with `jit.ignore`",
    )


def contexts_of(function: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """Return what makes the contexts that decorate a function, by names of no program."""
    makers = [maker for wrapper in wrappers_of(function) if (maker := context_of(wrapper))]
    return {f"@{number}": maker for number, maker in enumerate(makers)}


def context_of(wrapper: Callable[..., Any]) -> Callable[[], Any] | None:
    """Return what makes the grad mode or the `autocast` of a wrapper; None of another one.

    Graphs call it, as a function that is left to Python.
    """
    names = getattr(getattr(wrapper, "__code__", None), "co_freevars", ())
    cells = dict(zip(names, getattr(wrapper, "__closure__", None) or ()))
    made: Any = cells["ctx_factory"].cell_contents if "ctx_factory" in cells else None
    given = getattr(made, "__self__", None)
    if "autocast_instance" in cells:
        given = cells["autocast_instance"].cell_contents
    if not isinstance(given, (*MODES, torch.autocast)):
        return None

    def context() -> Any:
        return given if isinstance(given, torch.autocast) else made()

    vars(context)["__minitorch2_script__"] = "ignore"
    vars(context)["mode"] = _made_by(given)
    return context


def _made_by(given: Any) -> tuple[type, tuple[Any, ...]]:
    """Return the class and the arguments that make a mode like this one: what files hold."""
    if isinstance(given, torch.autocast):
        state = (given.device, given.fast_dtype, given._enabled, given._cache_enabled)
        return torch.autocast, state
    return type(given), (given.mode,) if hasattr(given, "mode") else ()


def within_contexts(definition: t.Def, function: Callable[..., Any]) -> t.Def:
    """Return a definition whose body runs in the contexts that decorate the function."""
    where, body = definition.range, definition.body
    for name in reversed(contexts_of(function)):
        call = t.Call(t.Name(name, range=where), (), (), range=where)
        body = (t.With((t.WithItem(call, None, range=where),), body, range=where),)
    return replace(definition, body=body)
