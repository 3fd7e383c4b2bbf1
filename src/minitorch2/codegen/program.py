"""A wrapper module's text -> its function. It needs none of what writes such texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from minitorch2 import config
from minitorch2.codegen import cache
from minitorch2.source_lines import keep_lines

BoxedCall: TypeAlias = Callable[[list[Any]], list[Any]]


def load_program(text: str, names: Mapping[str, Any] | None = None) -> BoxedCall:
    """Execute a wrapper module's text and return its `call`.

    Debuggers find the text in a file, which measures itself when it is run. What runs is the text,
    never what the folder held.
    """
    path = cache.folder() / "graphs" / f"{cache.digest_of(text)[:16]}.py"
    if config.current().cache:
        cache.keep_file(path, text.encode())
    namespace = {"__name__": "minitorch2.generated", **(names or {})}
    exec(compile(text, str(path), "exec"), namespace)
    call: BoxedCall = namespace["call"]
    keep_lines(str(path), text, call)
    return call
