"""Methods of texts and patterns in Python, where they call functions of the user's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def substitute(
    pattern: re.Pattern[Any], repl: Callable[[re.Match[Any]], Any], string: Any, count: int = 0
) -> Any:
    """``pattern.sub(repl, string, count)`` of a function that gives the text for each match"""
    parts, position = [], 0
    for found, match in enumerate(pattern.finditer(string)):
        if count and found >= count:
            break
        parts.append(string[position : match.start()])
        made = repl(match)
        if made is not None:
            parts.append(made)
        position = match.end()
    parts.append(string[position:])
    return string[:0].join(parts)
