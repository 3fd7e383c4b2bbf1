"""Binding of arguments to parameters, as CPython does it, on trackers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import NoReturn

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker
from minitorch2.bytecode.trackers.interfaces import Callee
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.containers import DictVariable, TupleVariable


def bind_arguments(callee: Callee, args: Arguments, kwargs: Keywords) -> dict[str, VariableTracker]:
    """Bind arguments to the callee's parameters as CPython does; raise the user's TypeError."""
    code = callee.code
    positional = code.co_varnames[: code.co_argcount]
    end = code.co_argcount + code.co_kwonlyargcount
    keyword_only = code.co_varnames[code.co_argcount : end]
    bound = dict(zip(positional, args, strict=False))
    end = _bind_variadic(callee, args, bound, end)
    by_keyword = {*positional[code.co_posonlyargcount :], *keyword_only}
    extra: dict[str, VariableTracker] = {}
    for name, value in kwargs.items():
        if name in by_keyword:
            if name in bound:
                _fail(callee, f"got multiple values for argument {name!r}")
            bound[name] = value
        else:
            extra[name] = value
    if code.co_flags & inspect.CO_VARKEYWORDS:
        pairs = [(ConstantVariable(name), value) for name, value in extra.items()]
        bound[code.co_varnames[end]] = DictVariable(pairs)
    elif extra:
        _fail(callee, f"got an unexpected keyword argument {next(iter(extra))!r}")
    _bind_defaults(callee, bound, positional, keyword_only)
    return bound


def _bind_variadic(
    callee: Callee, args: Arguments, bound: dict[str, VariableTracker], end: int
) -> int:
    """Put surplus positional arguments into ``*args``; where the name of ``**kwargs`` stands."""
    code = callee.code
    rest = args[code.co_argcount :]
    if code.co_flags & inspect.CO_VARARGS:
        bound[code.co_varnames[end]] = TupleVariable(list(rest))
        return end + 1
    if rest:
        most, least = code.co_argcount, code.co_argcount - len(callee.defaults)
        takes = f"takes {most}" if most == least else f"takes from {least} to {most}"
        takes += f" positional argument{'s' * (most != 1)}"
        _fail(callee, f"{takes} but {len(args)} were given")
    return end


def _bind_defaults(
    callee: Callee,
    bound: dict[str, VariableTracker],
    positional: Sequence[str],
    keyword_only: Sequence[str],
) -> None:
    first = len(positional) - len(callee.defaults)
    missing = []
    for index, name in enumerate(positional):
        if name not in bound and index >= first:
            bound[name] = callee.defaults[index - first]()
        elif name not in bound:
            missing.append(name)
    for name in keyword_only:
        if name not in bound and name in callee.keyword_defaults:
            bound[name] = callee.keyword_defaults[name]()
        elif name not in bound:
            missing.append(name)
    if missing:
        missing = [name for name in missing if name in positional] or missing
        names = _enumeration([repr(name) for name in missing])
        plural = "s" * (len(missing) > 1)
        kind = "positional" if missing[0] in positional else "keyword-only"
        _fail(callee, f"missing {len(missing)} required {kind} argument{plural}: {names}")


def _enumeration(names: list[str]) -> str:
    """``'a'``, ``'a' and 'b'``, ``'a', 'b', and 'c'``"""
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def _fail(callee: Callee, message: str) -> NoReturn:
    raise_observed(TypeError, f"{callee.name or callee.code.co_qualname}() {message}")
