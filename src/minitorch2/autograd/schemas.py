"""The aliasing and mutation that an operator's schema declares, and its functional form.

Everything here is read from the alias annotations of the operator's own schema: ``Tensor(a!) self``
is written, ``Tensor(a)`` as result is a view. Only the few operators whose functional form has
another name are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.node import Node
from minitorch2.graph.random_operators import bernoulli
from minitorch2.native.torch_internals.dispatch import DispatchKey
from minitorch2.native.torch_internals.operators import OpOverload as Operator

aten = torch.ops.aten

_OTHER_FUNCTIONAL_NAMES: Final[dict[Operator, Operator]] = {
    aten.bernoulli_.float: bernoulli,
    aten.normal_.default: aten.normal_functional.default,
    aten._index_put_impl_.default: aten._index_put_impl.default,
    aten.squeeze_.default: aten.squeeze.default,
}


@dataclass(frozen=True, slots=True)
class AliasFacts:
    """``written``: names of the arguments that the operator writes; ``is_view``: a result aliases
    an argument.
    """

    written: tuple[str, ...]
    is_view: bool
    changes_metadata: bool


@cache
def alias_facts(func: Operator) -> AliasFacts:
    """Return the alias annotations of one overload."""
    schema = func._schema
    written = tuple(
        a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
    )
    is_view = not written and any(result.alias_info is not None for result in schema.returns)
    return AliasFacts(written, is_view, torch.Tag.inplace_view in func.tags)


@cache
def is_composite(func: Operator) -> bool:
    """Return whether the operator is defined by other operators, its gradient included."""
    key = DispatchKey.CompositeImplicitAutograd
    return bool(func.has_kernel_for_dispatch_key(key))


@cache
def functional_form(func: Operator) -> Operator:
    """Return the overload that returns as a fresh result the values that ``func`` writes.

    ``add_.Tensor -> add.Tensor``, ``add.out -> add.Tensor``. Raises UnsupportedError if there is
    none.
    """
    if func in _OTHER_FUNCTIONAL_NAMES:
        return _OTHER_FUNCTIONAL_NAMES[func]
    wanted = _inputs(func)
    for candidate in _candidates(func):
        if not candidate._schema.is_mutable and _inputs(candidate) == wanted:
            return candidate
    raise UnsupportedError(f"{func} writes to its arguments and has no functional form")


def _candidates(func: Operator) -> list[Operator]:
    name = func._schema.name.split("::")[1]
    names = [name.removesuffix("_"), f"{name.removesuffix('_')}_functional"]
    packets = [getattr(getattr(torch.ops, func.namespace), n, None) for n in names]
    return [
        getattr(packet, overload) for packet in packets if packet for overload in packet.overloads()
    ]


def _inputs(func: Operator) -> list[tuple[str, str]]:
    """Return names and types of the arguments that the operator reads: all but ``out=`` ones."""
    return [
        (argument.name, str(argument.type))
        for argument in func._schema.arguments
        if not (
            argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write
        )
    ]


def bind_arguments(func: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the call's arguments by name, without defaults."""
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def functional_arguments(func: Operator, form: Operator, bound: dict[str, Any]) -> dict[str, Any]:
    """Return the functional form's arguments, with ``func``'s defaults where only it has them."""
    defaults = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    plain = {}
    for argument in form._schema.arguments:
        if argument.name in bound:
            plain[argument.name] = bound[argument.name]
        elif not argument.has_default_value() and argument.name in defaults:
            plain[argument.name] = defaults[argument.name]
    return plain


def memory_root(node: Node) -> Node:
    """Return the node whose memory ``node`` is a view of."""
    while node.op == "call_function" and isinstance(node.target, Operator):
        if not alias_facts(node.target).is_view:
            break
        node = node.args[0]
    return node
