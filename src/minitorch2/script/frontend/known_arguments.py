"""Functions that compile for the arguments of a call, and not for all arguments.

A branch on an argument that is None, a bool or a member of an enumeration in a call is decided
there. The other side need not compile: ``def f(x, pairs: bool = False)`` may give a tensor, or a
tuple with ``pairs``.

    f(x)  -->  f without the parameter pairs, whose body begins with pairs = False
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from typing import Final, TypeVar

from minitorch2.script.frontend.emission import Arguments
from minitorch2.script.syntax.errors import ScriptError

Known = Mapping[str, bool | Enum | None]
"""Arguments that are None, a bool or a member of an enumeration in a call, by parameters' names."""
Compiled = TypeVar("Compiled")

_FAILED: Final[ContextVar[dict[Hashable, ScriptError] | None]] = ContextVar("_FAILED", default=None)
"""Errors of functions inside of the outermost call: a function below two others fails once."""


def known_arguments(parameters: Sequence[inspect.Parameter], arguments: Arguments) -> Known:
    """Return the arguments of a call, defaults among them, that are None, a bool or a member."""
    kinds = {parameter.kind for parameter in parameters}
    if arguments.is_open or inspect.Parameter.VAR_POSITIONAL in kinds:
        return {}
    names = [parameter.name for parameter in parameters]
    given = {**dict(zip(names, arguments.positional)), **arguments.keywords}
    found = {
        each.name: given[each.name].constant() if each.name in given else each.default
        for each in parameters
    }
    return {
        name: value
        for name, value in found.items()
        if value is None or isinstance(value, bool | Enum)
    }


def compile_for_call(compile: Callable[[Known], Compiled], known: Known, key: Hashable) -> Compiled:
    """Compile a function for all arguments; where that fails, for those that a call knows.

    Args:
        compile: compiles it without parameters for the known arguments.
        known: the known arguments of a call.
        key: the function and the types of its arguments.

    Raises:
        ScriptError: it compiles neither for all arguments nor with the known ones.
    """
    if (failed := _FAILED.get()) is None:
        token = _FAILED.set({})
        try:
            return compile_for_call(compile, known, key)
        finally:
            _FAILED.reset(token)
    key = (key, frozenset(known.items()))
    if key in failed:
        raise failed[key]
    try:
        return compile({})
    except ScriptError as error:
        try:
            if known:
                return compile(known)
        except ScriptError:
            pass
        failed[key] = error
        raise
