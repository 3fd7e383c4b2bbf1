"""Filters of guards: a user gives up checks before each call, for facts that will not change.

A filter is asked once for each compiled entry, with a record of each guard, and says which to keep.
To drop a guard is a promise of the user's: if it is broken, the compiled code answers for the
values that it was made with. Guards that keep kernels inside the memory of their inputs (`KEPT`)
cannot be dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from minitorch2.bytecode.guards.guard import Guard
from minitorch2.bytecode.guards.sources import GlobalSource, Source
from minitorch2.bytecode.guards.values import TypeMatch
from minitorch2.errors import ConfigError
from minitorch2.graph.node import SourceLine

KEPT = frozenset({"TENSOR_MATCH", "SHAPE_ENV", "DISTINCT_STORAGES", "DUPLICATE_INPUT"})
"""Kinds of guards that are never dropped: a kernel may read and write where these allow it."""


@dataclass(frozen=True)
class GuardRecord:
    """The view of a guard that a filter gets.

    Attributes:
        guard_type: its kind, such as ``"TYPE_MATCH"``.
        name: the expression that it checks, such as ``"self.layers"``; empty for PyTorch's state.
        is_global: whether the expression starts at a global of the function's module.
        is_module: whether it looks at an `nn.Module` or at something inside one.
        layer: the part of the compiler that asked for it.
        user_line: the line that made it necessary.
    """

    guard_type: str
    name: str
    is_global: bool
    is_module: bool
    layer: str
    user_line: SourceLine | None


GuardFilter = Callable[[Sequence[GuardRecord]], Sequence[bool]]
"""Says for each record whether to keep its guard."""


def select_guards(guards: Sequence[Guard], keeps: GuardFilter) -> list[Guard]:
    """Return the guards that a filter keeps, and those that cannot be dropped.

    Raises:
        ConfigError: the filter does not answer once for each guard.
    """
    modules = {source for guard in guards for source in _modules(guard)}
    answers = list(keeps([record_of(guard, modules) for guard in guards]))
    if len(answers) != len(guards):
        cause = f"guard_filter_fn answered {len(answers)} times for {len(guards)} guards"
        raise ConfigError(cause, code="guard-filter", fix="return one bool for each record")
    return [g for g, kept in zip(guards, answers, strict=True) if kept or g.kind in KEPT]


def record_of(guard: Guard, modules: Iterable[Source] = ()) -> GuardRecord:
    """Return the record of a guard; `modules` are the sources of all `nn.Module` instances."""
    sources, known = guard.sources(), set(modules)
    paths = [list(source.path()) for source in sources]
    return GuardRecord(
        guard_type=guard.kind,
        name=str(sources[0]) if len(sources) == 1 else ", ".join(map(str, sources)),
        is_global=bool(paths) and all(isinstance(path[-1], GlobalSource) for path in paths),
        is_module=bool(paths) and all(known.intersection(path) for path in paths),
        layer=guard.layer,
        user_line=guard.user_line,
    )


def _modules(guard: Guard) -> tuple[Source, ...]:
    """Return the sources of a guard that says that its value is an `nn.Module`."""
    cls = guard.held.get() if isinstance(guard, TypeMatch) else None
    is_module = isinstance(cls, type) and issubclass(cls, torch.nn.Module)
    return guard.sources() if is_module or guard.kind == "MODULE_HOOKS" else ()


# Stock filters ------------------------------------------------------------------------------------


def keep_all(records: Sequence[GuardRecord]) -> list[bool]:
    """Drop nothing."""
    return [True for _ in records]


def skip_guards_on_modules(records: Sequence[GuardRecord]) -> list[bool]:
    """Drop guards on modules, which keep their class, hooks, submodules and plain attributes."""
    return [not record.is_module for record in records]


def skip_guards_on_globals(records: Sequence[GuardRecord]) -> list[bool]:
    """Drop guards on globals, which keep their values: functions, modules, settings."""
    return [not record.is_global for record in records]


def skip_all_guards(records: Sequence[GuardRecord]) -> list[bool]:
    """Drop all guards but those on the metadata of tensors."""
    return [False for _ in records]
