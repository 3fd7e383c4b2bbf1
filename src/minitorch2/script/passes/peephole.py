"""Replace a node by something simpler that gives the same: small laws, one a kind.

Every law holds to the last bit, and keeps gradients (TorchScript overview, "Derivative Preserving
Optimization").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import NOT_CONSTANT, Graph, Node, Value
from minitorch2.script.ir.types import (
    ANY,
    FLOAT,
    INT,
    NONE,
    OptionalType,
    TensorType,
    VariableType,
    is_subtype_of,
)
from minitorch2.script.passes.constants import constant_before, key_of
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass
from minitorch2.script.passes.shapes import known_length

Law: TypeAlias = Callable[[Node, AliasDb], Any]
LAWS: Final[dict[str, Law]] = {}
"""For each kind, what gives a Value or a constant in its place, or NOT_CONSTANT."""


@script_pass
def peephole(graph: Graph) -> Iterator[Rewrite]:
    """Apply each node's law once, in program order."""
    aliases = AliasDb(graph)
    for node in list(graph.nodes()):
        law = LAWS.get(node.kind)
        found = NOT_CONSTANT if law is None else law(node, aliases)
        if found is NOT_CONSTANT:
            continue
        yield Rewrite(f"is {found!r}", node)
        if not isinstance(found, Value):
            found = constant_before(node, found, node.output)
        replace_node(node, [found])


def law(*kinds: str) -> Callable[[Law], Law]:
    """Register a law for kinds; a decorator."""

    def register(function: Law) -> Law:
        LAWS.update(dict.fromkeys(kinds, function))
        return function

    return register


def _is(value: Value, number: Any) -> bool:
    constant = value.constant()
    return constant is not NOT_CONSTANT and key_of(constant) == key_of(number)


@law("aten::mul")
def one_time(node: Node, aliases: AliasDb) -> Any:
    """``x * 1`` of numbers of one type, and of tensors of floating-point numbers, is ``x``."""
    left, right = node.inputs[:2]
    if left.type in (INT, FLOAT) and left.type == right.type:
        one = 1 if left.type == INT else 1.0
        return left if _is(right, one) else right if _is(left, one) else NOT_CONSTANT
    dtype = left.type.dtype if isinstance(left.type, TensorType) else None
    is_one = _is(right, 1) or _is(right, 1.0)
    if is_one and dtype is not None and dtype.is_floating_point:
        return left if aliases.may_replace([left], [node.output]) else NOT_CONSTANT
    return NOT_CONSTANT


@law("aten::add", "aten::sub")
def nothing_added(node: Node, aliases: AliasDb) -> Any:
    """``n + 0`` and ``n - 0`` of integers are ``n``; of floats they may change ``-0.0``."""
    left, right = node.inputs[:2]
    if left.type != INT or right.type != INT:
        return NOT_CONSTANT
    if _is(right, 0):
        return left
    return right if node.kind == "aten::add" and _is(left, 0) else NOT_CONSTANT


@law("aten::__not__")
def not_not(node: Node, aliases: AliasDb) -> Any:
    """``not not b`` is ``b``."""
    inner = node.inputs[0].node
    return inner.inputs[0] if inner.kind == node.kind else NOT_CONSTANT


@law("aten::t")
def transposed_twice(node: Node, aliases: AliasDb) -> Any:
    """``x.t().t()`` is ``x``, where nobody can tell the two tensors apart."""
    inner = node.inputs[0].node
    if inner.kind != node.kind or not aliases.may_replace(inner.inputs, node.outputs):
        return NOT_CONSTANT
    return inner.inputs[0]


@law("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout")
def dropout_of_evaluation(node: Node, aliases: AliasDb) -> Any:
    """Dropout that does not train gives its very input."""
    return node.inputs[0] if node.constant(2) is False else NOT_CONSTANT


@law("aten::__is__", "aten::__isnot__")
def compared_with_none(node: Node, aliases: AliasDb) -> Any:
    """The type of a value tells whether it is None, unless the type is optional."""
    known = [_is_none(value) for value in node.inputs]
    if None in known or True not in known:
        return NOT_CONSTANT
    return all(known) == (node.kind == "aten::__is__")


def _is_none(value: Value) -> bool | None:
    if value.type == NONE:
        return True
    unknown = isinstance(value.type, OptionalType | VariableType) or value.type == ANY
    return None if unknown else False


@law("prim::unchecked_cast", "aten::_unwrap_optional")
def cast_to_known(node: Node, aliases: AliasDb) -> Any:
    """A cast to a type that the value has is the value."""
    value = node.inputs[0]
    return value if is_subtype_of(value.type, node.output.type) else NOT_CONSTANT


@law("aten::len")
def known_length_of_list(node: Node, aliases: AliasDb) -> Any:
    """The length of a list that nobody writes to is known from what made the list."""
    value = node.inputs[0]
    if value.node.kind != "prim::ListConstruct":
        return _known(known_length(value, aliases))
    return NOT_CONSTANT if aliases.has_writers(value) else len(value.node.inputs)


@law("aten::__getitem__")
def item_of_literal(node: Node, aliases: AliasDb) -> Any:
    """An item of a list that nobody writes to is the value that was put there."""
    items, index = node.inputs[0], node.constant(1)
    if items.node.kind != "prim::ListConstruct" or aliases.has_writers(items):
        return NOT_CONSTANT
    count = len(items.node.inputs)
    inside = isinstance(index, int) and -count <= index < count
    return items.node.inputs[index] if inside else NOT_CONSTANT


def _form(node: Node, aliases: AliasDb) -> TensorType:
    """Return what is known of the first input, a tensor, at any time."""
    value = node.inputs[0]
    known = isinstance(value.type, TensorType) and not aliases.changes_form(value)
    return value.type if known else TensorType()  # type: ignore[return-value]


def _known(fact: Any) -> Any:
    return NOT_CONSTANT if fact is None else fact


@law("aten::dim")
def known_rank(node: Node, aliases: AliasDb) -> Any:
    """The rank of a tensor is in its type."""
    sizes = _form(node, aliases).sizes
    return NOT_CONSTANT if sizes is None else len(sizes)


@law("aten::size")
def known_size(node: Node, aliases: AliasDb) -> Any:
    """A size of a tensor may be in its type."""
    sizes = _form(node, aliases).sizes
    index = node.constant(1) if len(node.inputs) == 2 else NOT_CONSTANT
    if sizes is None or not isinstance(index, int) or not -len(sizes) <= index < len(sizes):
        return NOT_CONSTANT
    return sizes[index] if isinstance(sizes[index], int) else NOT_CONSTANT


@law("prim::dtype")
def known_dtype(node: Node, aliases: AliasDb) -> Any:
    """The dtype of a tensor is in its type."""
    return _known(_form(node, aliases).dtype)


@law("prim::device")
def known_device(node: Node, aliases: AliasDb) -> Any:
    """The device of a tensor is in its type."""
    return _known(_form(node, aliases).device)


@law("aten::is_floating_point")
def known_to_float(node: Node, aliases: AliasDb) -> Any:
    """The dtype of a tensor tells whether it has floating-point numbers."""
    dtype = _form(node, aliases).dtype
    return NOT_CONSTANT if dtype is None else dtype.is_floating_point
