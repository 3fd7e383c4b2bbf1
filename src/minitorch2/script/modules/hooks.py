"""The hooks of an `nn.Module` as methods of its type.

A graph calls a module with its hooks, as Python does; ``module.forward(x)`` calls none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, Final, NamedTuple

from torch import nn

from minitorch2.script.syntax.errors import ScriptError


class Hooks(NamedTuple):
    """The functions that are called before and behind `forward`, by the names of their methods."""

    before: dict[str, FunctionType]
    behind: dict[str, FunctionType]


NO_HOOKS: Final = Hooks({}, {})


def hooks_of(module: nn.Module) -> Hooks:
    """Return the hooks of a module; their names are of no other attribute.

    Raises:
        ScriptError: a hook of gradients, one that takes keywords or runs when `forward` raises, or
            one that is no function with a name.
    """
    tables = (module._forward_pre_hooks, module._forward_hooks)
    if not any((*tables, module._backward_hooks, module._backward_pre_hooks)):
        return NO_HOOKS
    special = (
        module._backward_hooks,
        module._backward_pre_hooks,
        module._forward_hooks_with_kwargs,
        module._forward_pre_hooks_with_kwargs,
        module._forward_hooks_always_called,
    )
    if any(special):
        raise _refused(module, "of gradients, with keywords, or that are always called")
    found = Hooks({}, {})
    for table, named in zip(tables, found):
        for hook in table.values():
            if not isinstance(hook, FunctionType) or not hook.__name__.isidentifier():
                raise _refused(module, "that are no functions with a name")
            named[_free_name(hook.__name__, module, found)] = hook
    return found


def _free_name(name: str, module: nn.Module, taken: tuple[Mapping[str, Any], ...]) -> str:
    """Return a name that no attribute and no other hook has."""
    while hasattr(module, name) or any(name in names for names in taken):
        name += "_"
    return name


def _refused(module: nn.Module, which: str) -> ScriptError:
    return ScriptError(
        f"a module of class {type(module).__qualname__} has hooks {which}, and no graph has",
        None,
        code="script-module-hooks",
        fix="remove the hooks, and register them on the scripted module",
    )
