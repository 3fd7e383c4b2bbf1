"""Programs that see when an object dies: by a weak reference, or by a finalizer.

CPython drops an object with the last reference to it. Residual code holds what the graph gives as
long as it runs, and the rest of a frame runs inside of it. So a frame that sees when objects die is
captured to its end, or it runs in Python from its start.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import CodeType
from typing import Final

SEES_DEATH: Final = "weak-reference"
"""The reason of a break where capture cannot tell whether an object is alive."""

_OF_WEAKREF: Final = {id(weakref), *(id(v) for v in vars(weakref).values() if callable(v))}


def may_see_death(code: CodeType, namespace: Mapping[str, object]) -> bool:
    """Return whether code, with these globals, mentions `weakref` or a class or function of it."""
    named = (namespace.get(name) for name in code.co_names)
    return "weakref" in code.co_names or any(id(value) in _OF_WEAKREF for value in named)
