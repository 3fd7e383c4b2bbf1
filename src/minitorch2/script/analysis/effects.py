"""Effects of a node besides computing its outputs: the facts that passes must respect."""

from __future__ import annotations

from functools import cache
from typing import Final

import torch

from minitorch2.native.torch_internals.operators import OpOverload
from minitorch2.script.ir.graph import Node, Value
from minitorch2.script.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    LAYOUT,
    MEMORY_FORMAT,
    NONE,
    NUMBER,
    SCALAR_TYPE,
    STR,
    EnumType,
    FunctionType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    walk_types,
)
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.operators.schema import FunctionSchema


def kinds(namespace: str, names: str) -> frozenset[str]:
    """Return the kinds of a namespace with these names, which blanks separate."""
    return frozenset(f"{namespace}::{name}" for name in names.split())


PURE_PRIMITIVES: Final = kinds(
    "prim",
    "Constant ConstantChunk CreateObject DictConstruct EnumName EnumValue GetAttr If isinstance"
    " ListConstruct ListUnpack Loop TupleConstruct TupleIndex TupleSlice TupleUnpack Uninitialized"
    " unchecked_cast format number dtype device requires_grad layout is_cuda",
)
"""Kinds of the IR that do nothing but give outputs; their blocks are asked apart."""

MODE_CHANGES: Final = kinds("prim", "SetGradEnabled Enter Exit")
"""Kinds behind which an operator may mean another thing: gradients are off, or numbers are cast."""

EFFECTFUL: Final = kinds("aten", "wait warn manual_seed seed set_grad_enabled")
"""Operators that do more than their schemas say."""

RAISING: Final = kinds("aten", "__getitem__ item Int Float Bool") | kinds("prim", "ListUnpack")
"""Kinds that may raise for some values, tensors or not."""

NEVER_RAISING: Final = kinds(
    "aten",
    "add sub mul neg lt le gt ge eq ne __and__ __or__ __xor__ __not__ __is__ __isnot__ len abs"
    " max min str list dict keys values items copy __contains__",
)
"""Kinds of numbers, strings and containers that raise for no values."""

IMMUTABLE: Final[frozenset[Type]] = frozenset(
    (INT, FLOAT, BOOL, COMPLEX, STR, NONE, NUMBER, DEVICE, SCALAR_TYPE, LAYOUT, MEMORY_FORMAT)
)
TRANSPARENT: Final = (OptionalType, TupleType, FunctionType, EnumType)
"""Types that cannot be written to themselves; what they hold may be."""

FORM_CHANGES: Final = kinds(
    "aten", "resize_ resize_as_ set_ requires_grad_ detach_ swapaxes_ swapdims_ set_data"
)
"""Operators that change a tensor's sizes or flags in place; others have the tag inplace_view."""


def schema_of(node: Node) -> FunctionSchema | None:
    """Return the schema of the operator that a node calls; None for a kind without one.

    A schema that takes anything, as PyTorch has for kinds of its IR, says nothing.
    """
    operator = operator_of(node)
    return None if operator is None or operator.schema.is_varargs else operator.schema


def overload_of(node: Node) -> OpOverload | None:
    """Return PyTorch's operator that a node calls; None for all others."""
    operator = operator_of(node)
    if operator is None or operator.schema.is_varargs:
        return None
    return operator.function if isinstance(operator.function, OpOverload) else None


def tags_of(node: Node) -> frozenset[torch.Tag]:
    """Return what PyTorch says of the operator that a node calls."""
    overload = overload_of(node)
    return frozenset() if overload is None else frozenset(overload.tags)


def is_mutable(given: Type) -> bool:
    """Return whether values of a type can be written to, or contain such values."""
    return isinstance(given, TensorType) or holds_mutable(given)


@cache
def holds_mutable(given: Type) -> bool:
    """Return whether values of a type are, or contain, something else that can be written to."""
    held = (each for each in walk_types(given) if not isinstance(each, TRANSPARENT))
    return any(each not in IMMUTABLE for each in held)


def written_inputs(node: Node) -> tuple[Value, ...]:
    """Return the inputs that the operator of a node writes to; without those of its blocks."""
    schema = schema_of(node)
    if schema is None:
        return ()
    pairs = zip(schema.arguments, node.inputs, strict=False)
    return tuple(value for argument, value in pairs if argument.is_written)


def changes_form(node: Node) -> bool:
    """Return whether a node changes sizes, dtype or flags of its first input in place."""
    return torch.Tag.inplace_view in tags_of(node) or node.kind in FORM_CHANGES


def is_random(node: Node) -> bool:
    """Return whether a node draws from a random generator."""
    return torch.Tag.nondeterministic_seeded in tags_of(node)


def has_side_effects(node: Node) -> bool:
    """Return whether a node must stay though nobody reads it; without its blocks and its writes.

    Kinds that nobody knows have effects, and so have operators of other libraries.
    """
    if node.kind.startswith("prim::"):
        return node.kind not in PURE_PRIMITIVES
    known = node.kind.startswith(("aten::", "prims::")) and node.kind not in EFFECTFUL
    return not known or schema_of(node) is None or is_random(node)


def may_raise(node: Node) -> bool:
    """Return whether values of numbers or containers may make the node raise.

    Errors of tensor operators do not count, as in TorchScript: where nobody reads the result of an
    addition of tensors that cannot be added, no error is owed.
    """
    if node.kind in RAISING:
        return True
    if schema_of(node) is None or node.kind in NEVER_RAISING:
        return False
    return not any(isinstance(v.type, TensorType) for v in (*node.inputs, *node.outputs))


def is_pure(node: Node) -> bool:
    """Return whether a node only computes its outputs, from its inputs alone, without blocks."""
    return not (
        node.blocks
        or node.kind == "prim::GetAttr"
        or has_side_effects(node)
        or written_inputs(node)
    )
