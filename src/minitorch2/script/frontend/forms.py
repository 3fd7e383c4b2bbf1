"""The registration of functions that the compiler knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch2.script.frontend.emission import Arguments, SugaredValue
from minitorch2.script.frontend.python_values import FORMS, Form
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange


def form(*functions: Any) -> Callable[[Form], Form]:
    """Register what the compiler does at a call of each of these functions."""

    def register(emit: Form) -> Form:
        FORMS.update(dict.fromkeys(functions, emit))
        return emit

    return register


def only(arguments: Arguments, count: int, name: str, where: SourceRange) -> list[SugaredValue]:
    """Return the positional arguments if there are `count`.

    Raises:
        ScriptError: there is another number of arguments.
    """
    if len(arguments.positional) != count or arguments.keywords:
        noun = "argument" if count == 1 else "arguments"
        message = f"{name} takes {count} {noun} here, and got {len(arguments.all())}"
        raise ScriptError(message, where, code="script-wrong-arguments")
    return arguments.positional
