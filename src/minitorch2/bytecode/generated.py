"""Files that exist in memory only: a debugger, a traceback and `inspect.getsource` can read them.

Generated code names such a file, and its text lies in `linecache` for as long as the code lives.
"""

from __future__ import annotations

import itertools
from types import CodeType

from minitorch2.source_lines import keep_lines

PREFIX = "<minitorch2 "
"""How the names of all such files begin."""

GUARDS = PREFIX + "guards "
"""How those of guard functions begin."""

_NUMBERS = itertools.count()


def is_guard_code(code: CodeType) -> bool:
    """Whether code is that of a guard function."""
    return code.co_filename.startswith(GUARDS)


def new_file(kind: str, name: str) -> str:
    """A file name such as ``<minitorch2 guards toy_example 3>``, never given twice.

    Args:
        kind: what is generated, such as ``"guards"``.
        name: of the user's function.
    """
    return f"{PREFIX}{kind} {name} {next(_NUMBERS)}>"


def keep_source(code: CodeType, text: str) -> None:
    """Let `linecache` have the text of generated code's file until the code dies."""
    keep_lines(code.co_filename, text, code)
