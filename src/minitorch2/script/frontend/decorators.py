"""Decorators: what a script makes of a function that wraps another one.

The source of a function is that of the innermost one. A grad mode that decorates it becomes a
`with` around its body. Wrappers of PyTorch's other parts change nothing in a graph. Any other
wrapper is refused: a script without it would compute something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FunctionType
from typing import Any

from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange


def wrappers_of(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Iterate over the functions that decorators put around a function, the outermost first."""
    while hasattr(function, "__wrapped__"):
        yield function
        function = function.__wrapped__


def undecorated(function: Callable[..., Any], where: SourceRange | None = None) -> FunctionType:
    """Return the function that decorators wrap.

    Raises:
        ScriptError: a wrapper is no grad mode, or there is no function of Python inside.
    """
    for wrapper in wrappers_of(function):
        if not _is_torch(wrapper):
            raise _unknown_wrapper(wrapper, where)
    found = next(iter([*wrappers_of(function)][-1:]), None)
    plain = function if found is None else found.__wrapped__  # type: ignore[attr-defined]
    if not isinstance(plain, FunctionType):
        message = f"{plain!r} is no Python function"
        raise ScriptError(message, where, code="script-not-a-function", fix="give a function")
    return plain


def _is_torch(wrapper: Callable[..., Any]) -> bool:
    """Tell whether the code of a wrapper is PyTorch's, whatever name it has taken over."""
    names = getattr(wrapper, "__globals__", {})
    return str(names.get("__name__", "")).partition(".")[0] == "torch"


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


def mode_classes(function: Callable[..., Any]) -> dict[str, type]:
    """Return the classes of the grad modes that decorate a function, by names of no program."""
    return {name: type(context) for name, context in _modes_of(function).items()}


def _modes_of(function: Callable[..., Any]) -> dict[str, Any]:
    contexts = [mode for wrapper in wrappers_of(function) if (mode := _mode_of(wrapper))]
    return {f"@{number}": context for number, context in enumerate(contexts)}


def _mode_of(wrapper: Callable[..., Any]) -> Any:
    cells = dict(
        zip(
            getattr(getattr(wrapper, "__code__", None), "co_freevars", ()),
            getattr(wrapper, "__closure__", None) or (),
        )
    )
    factory = cells["ctx_factory"].cell_contents if "ctx_factory" in cells else None
    return getattr(factory, "__self__", None)


def within_modes(definition: t.Def, function: Callable[..., Any]) -> t.Def:
    """Return a definition whose body runs in the grad modes that decorate the function."""
    where, body = definition.range, definition.body
    for name, context in reversed(_modes_of(function).items()):
        modes = (t.Constant(context.mode, range=where),) if hasattr(context, "mode") else ()
        call = t.Call(t.Name(name, range=where), modes, (), range=where)
        body = (t.With((t.WithItem(call, None, range=where),), body, range=where),)
    return replace(definition, body=body)
