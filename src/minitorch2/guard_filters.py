"""Filters for ``compile(..., options={"guard_filter_fn": ...})``: guards that one can do without.

    from minitorch2 import guard_filters

    options = {"guard_filter_fn": guard_filters.skip_guards_on_modules}
    fast = minitorch2.compile(model, options=options)

A filter is any ``(Sequence[GuardRecord]) -> Sequence[bool]``. Guards that protect the memory of a
kernel's inputs stay, whatever the filter returns.
"""

from __future__ import annotations

from minitorch2.bytecode.guards.filters import (
    KEPT,
    GuardFilter,
    GuardRecord,
    keep_all,
    skip_all_guards,
    skip_guards_on_globals,
    skip_guards_on_modules,
)

__all__ = [
    "KEPT",
    "GuardFilter",
    "GuardRecord",
    "keep_all",
    "skip_all_guards",
    "skip_guards_on_globals",
    "skip_guards_on_modules",
]
