"""Filters of `warnings` in Python, for those that captured code has changed."""

from __future__ import annotations

import warnings
from typing import Any

_WARNINGS: Any = warnings


def warn_explicit(
    message: Any,
    category: type[Warning],
    filename: str,
    lineno: int,
    module: str,
    registry: dict[Any, Any],
    source: Any,
) -> None:
    """``warnings.warn_explicit`` of a `Warning`."""
    text = str(message)
    action = _action(text, category, module, lineno)
    if action == "error":
        raise message
    if action == "ignore" or (
        action not in ("always", "all") and _is_known(action, (text, category), lineno, registry)
    ):
        return
    _WARNINGS._showwarnmsg(
        warnings.WarningMessage(message, category, filename, lineno, source=source)
    )


def _action(text: str, category: type[Warning], module: str, lineno: int) -> str:
    for action, pattern, kind, place, line in _WARNINGS.filters:
        is_it = issubclass(category, kind) and matches(pattern, text)
        if is_it and matches(place, module) and line in (0, lineno):
            return str(action)
    return str(_WARNINGS.defaultaction)


def matches(pattern: Any, text: str) -> bool:
    """Return whether a text fits a pattern of the warnings' filters."""
    if pattern is None or isinstance(pattern, str):
        return pattern is None or pattern == text
    return pattern.match(text) is not None


def _is_known(action: str, key: Any, lineno: int, registry: dict[Any, Any]) -> bool:
    """Return whether the action has shown a warning at its place before; note it."""
    if action == "once":
        registry = _WARNINGS.onceregistry
    elif action == "module":
        key = (*key, 0)
    else:
        key = (*key, lineno)
    known = key in registry
    registry[key] = 1
    return known
