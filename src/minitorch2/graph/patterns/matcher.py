"""Find the places of a graph that compute the same as a pattern.

A pattern is a graph; its placeholders stand for anything of their kind. Matching follows the
arguments from the root upwards and yields every way that fits, so that operands of a sum or a
product may come in either order::

    match(pattern, node) ::= {placeholder: argument, operation of the pattern: node}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import torch

from minitorch2.graph.node import Argument, Node
from minitorch2.graph.patterns.operation import Operation, fake_of, operation, value_of
from minitorch2.graph.patterns.rule import Constant

Match: TypeAlias = Mapping[Node, Argument]
"""What each node of the pattern stands for."""

COMMUTATIVE: Final = frozenset(["add", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or"])


def match(pattern: Node, node: Node) -> Iterator[Match]:
    """Find every way in which ``node`` computes what the pattern's node ``pattern`` computes."""
    return _match(pattern, node, {})


def _match(pattern: Argument, subject: Argument, found: Match) -> Iterator[Match]:
    if isinstance(pattern, Node):
        yield from _match_node(pattern, subject, found)
    elif isinstance(pattern, (tuple, list)):
        if isinstance(subject, (tuple, list)) and len(subject) == len(pattern):
            yield from _match_all(list(zip(pattern, subject, strict=True)), found)
    elif type(pattern) is type(subject) and pattern == subject:
        yield found


def _match_all(pairs: list[tuple[Argument, Argument]], found: Match) -> Iterator[Match]:
    """Yield every way in which all pairs match at once."""
    if not pairs:
        yield found
        return
    (pattern, subject), *rest = pairs
    for step in _match(pattern, subject, found):
        yield from _match_all(rest, step)


def _match_node(pattern: Node, subject: Argument, found: Match) -> Iterator[Match]:
    if pattern in found:
        if _same(found[pattern], subject):
            yield found
    elif pattern.op == "placeholder":
        value = value_of(subject) if pattern.meta["kind"] in _NUMBERS else subject
        if _is_of_kind(value, pattern.meta["kind"]):
            yield {**found, pattern: value}
    elif isinstance(subject, Node):
        wanted, given = pattern_operation(pattern), operation(subject)
        if wanted and given and wanted.name == given.name:
            for pairs in _pairs(wanted, given):
                yield from _match_all(pairs, {**found, pattern: subject})


@cache
def pattern_operation(pattern: Node) -> Operation | None:
    """Return the operation of a pattern's node; it is cached, since patterns do not change."""
    return operation(pattern)


def _pairs(wanted: Operation, given: Operation) -> Iterator[list[tuple[Argument, Argument]]]:
    """Yield the arguments side by side, in each order that computes the same."""
    if wanted.arguments.keys() != given.arguments.keys():
        return
    pairs = [(value, given.arguments[name]) for name, value in wanted.arguments.items()]
    yield pairs
    if wanted.name in COMMUTATIVE:
        (a, x), (b, y), *rest = pairs
        yield [(a, y), (b, x), *rest]


_NUMBERS: Final = (int, float)
_TYPES: Final[dict[Any, Any]] = {float: (int, float)}


def _is_of_kind(value: Argument, kind: Any) -> bool:
    """Return whether an argument has the kind that a placeholder's annotation demands."""
    if kind is Any:
        return True
    if isinstance(value, bool) and kind is not bool:
        return False
    if isinstance(value, Node):
        tensor = isinstance(fake_of(value), torch.Tensor)
        return tensor and (kind is torch.Tensor or (kind is Constant and value.op == "get_attr"))
    return kind not in (Constant, torch.Tensor) and isinstance(value, _TYPES.get(kind, kind))


def _same(a: Argument, b: Argument) -> bool:
    return a is b or (not isinstance(a, Node) and type(a) is type(b) and bool(a == b))
