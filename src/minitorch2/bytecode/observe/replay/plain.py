"""Values as JSON, and JSON as values.

    plain  ::= None | bool | int | float | str  |  {"at": number of an object}
    object ::= {kind: content}        kind is a type of `SIMPLE`, or one that `writing` names

An object that is met twice is one object again.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import torch

from minitorch2.errors import MinitorchError
from minitorch2.graph.names import resolve

Plain: TypeAlias = Any
"""A value that JSON can hold."""
FORMAT: Final = 2
CONSTANTS: Final = (bool, int, float, str, type(None))


class ReplayError(MinitorchError):
    """A call holds a value that a folder cannot: the message names the value and a remedy."""

    default_code = "replay"


def _torch_name(value: object) -> str:
    return str(value).removeprefix("torch.")


def _of_torch(name: str) -> Any:
    return getattr(torch, name)


Write: TypeAlias = Callable[[Any], list[Any]]
"""A value's parts, which are written one by one."""

SIMPLE: Final[Mapping[type, tuple[Write, Callable[..., Any]]]] = {
    torch.dtype: (lambda v: [_torch_name(v)], _of_torch),
    torch.layout: (lambda v: [_torch_name(v)], _of_torch),
    torch.memory_format: (lambda v: [_torch_name(v)], _of_torch),
    torch.device: (lambda v: [str(v)], torch.device),
    torch.Size: (list, lambda *sizes: torch.Size(sizes)),
    tuple: (list, lambda *items: items),
    set: (list, lambda *items: set(items)),
    frozenset: (list, lambda *items: frozenset(items)),
    slice: (lambda v: [v.start, v.stop, v.step], slice),
    range: (lambda v: [v.start, v.stop, v.step], range),
    complex: (lambda v: [v.real, v.imag], complex),
    bytes: (lambda v: [v.hex()], bytes.fromhex),
    type(...): (lambda v: [], lambda: ...),
    deque: (lambda v: [list(v), v.maxlen], deque),
    defaultdict: (lambda v: [v.default_factory, dict(v)], defaultdict),
    partial: (
        lambda v: [v.func, v.args, v.keywords],
        lambda function, args, keywords: partial(function, *args, **keywords),
    ),
}
"""The functions that take values of a type apart, and put them together again, by type."""
SIMPLE_NAMES: Final = {kind.__name__: make for kind, (_, make) in SIMPLE.items()}
FILLED: Final[tuple[type, ...]] = (list, OrderedDict, dict)
"""Types whose values may hold themselves, and are made before what they hold."""


def found(name: str) -> Any:
    """Return the object of a dotted name.

    Raises:
        ReplayError: it is not there.
    """
    try:
        return resolve(name)
    except (ImportError, AttributeError) as error:
        raise ReplayError(f"there is no {name} here: {error}", fix="install it") from error
