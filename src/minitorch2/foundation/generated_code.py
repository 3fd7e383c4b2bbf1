"""Python text that this package writes, as code: debuggers can read it, and capture leaves it out.

Most of it has a file in memory only. A debugger, a traceback and `inspect.getsource` find its text
in `linecache` for as long as the code lives. Wrappers and Triton's kernels have real files.
"""

from __future__ import annotations

import itertools
from types import CodeType
from typing import Any

from minitorch2.foundation.source_lines import keep_lines

PREFIX = "<minitorch2 "
"""How the names of all files in memory begin."""

GUARDS = PREFIX + "guards "
"""How those of guard functions begin."""

TWIN = "_minitorch2_twin"
"""The attribute that marks the class made for a compiled module (see `api.compiled_module`)."""

DISPATCHER = "minitorch2 dispatcher"
"""The key under which a compiled function's own globals hold its dispatcher: no program has a
variable of that name. It is no attribute, since `functools.wraps` would copy that to a wrapper,
which is another function."""

_NUMBERS = itertools.count()
_WRITTEN: set[str] = set()


def is_generated(file: str) -> bool:
    """Return whether this package wrote the code in this file."""
    return file.startswith(PREFIX) or file in _WRITTEN


def new_file(kind: str, name: str) -> str:
    """Return a new file name such as ``<minitorch2 guards toy_example 3>``.

    Args:
        kind: what is generated, such as ``"guards"``.
        name: of the user's function.
    """
    return f"{PREFIX}{kind} {name} {next(_NUMBERS)}>"


def keep_source(code: CodeType, text: str) -> None:
    """Let `linecache` have the text of generated code's file until the code dies."""
    keep_lines(code.co_filename, text, code)


def execute(text: str, file: str, names: dict[str, Any]) -> None:
    """Execute a module's text in a namespace, as the content of a real file."""
    _WRITTEN.add(file)
    exec(compile(text, file, "exec"), names)
