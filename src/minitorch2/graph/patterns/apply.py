"""Put the right side of a rule where the left side was found.

A rewrite is made only where it is safe whatever else the graph does:

- values inside the match are read by nobody else, so that they are not computed any more;
- nothing is written, and no mode changes, between the first node of the match and its last;
- the new value has the size, dtype, device and strides of the old one, on fake tensors (where only
  the strides differ, it is copied);
- memory: a value that the caller gets is never an argument of the rule itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.effects import is_impure, is_random, may_be_returned
from minitorch2.graph.fake_tensor import FakeTensor, env_of
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Argument, Node, map_nodes
from minitorch2.graph.patterns.matcher import Match, match, pattern_operation
from minitorch2.graph.patterns.operation import operation
from minitorch2.graph.patterns.rule import Rule
from minitorch2.graph.rewriting import Rewrite
from minitorch2.graph.symbols import expr_of, numbers_of, same_sizes
from minitorch2.native.torch_internals.dispatch import enable_python_dispatcher
from minitorch2.native.torch_internals.operators import OpOverload


def apply_rules(module: GraphModule, rules: Iterable[Rule]) -> Iterator[Rewrite]:
    """Rewrite every node at which a rule fits, from the first to the last, the rules in order.

    The nodes that a rewrite inserts are tried, too.
    """
    by_name: dict[str, list[Rule]] = {}
    for rule in rules:
        root = pattern_operation(rule.before)
        assert root is not None, f"{rule.name}: the left side is no operator"
        by_name.setdefault(root.name, []).append(rule)
    for node in module.graph.nodes:
        yield from _apply_at(node, by_name)


def _apply_at(node: Node, rules: Mapping[str, Sequence[Rule]]) -> Iterator[Rewrite]:
    found = operation(node) if node.users else None
    for rule in rules.get(found.name, ()) if found else ():
        replacement = _Replacement.find(rule, node)
        if replacement is not None:
            yield Rewrite(f"{rule.name}: {rule.law}", node)
            for new in replacement.make(node.graph):
                yield from _apply_at(new, rules)
            return


class _Replacement:
    """A match that may be rewritten."""

    def __init__(self, rule: Rule, node: Node, found: Match, values: Mapping[Node, Any]) -> None:
        self.rule = rule
        self.node = node
        self.found = found
        self.values = values  # fake values of the right side, by its nodes

    @staticmethod
    def find(rule: Rule, node: Node) -> _Replacement | None:
        """Return the first match of the rule at this node that is safe to rewrite."""
        for found in match(rule.before, node):
            if not _may_go(rule, node, found) or not _holds(rule, found):
                continue
            values = _fake_values(rule, found)
            if values is not None and _fits(rule, node, found, values):
                return _Replacement(rule, node, found, values)
        return None

    def make(self, graph: Graph) -> list[Node]:
        """Insert the right side, let the readers read it, and erase nodes that became unread.

        Returns the new nodes.
        """
        made: dict[Node, Argument] = dict(self.found)
        with graph.inserting_before(self.node):
            for new in _new_nodes(self.rule, self.found):
                made[new] = value = self.values[new]
                if isinstance(value, torch.Tensor):  # numbers are computed here and now
                    args, kwargs = map_nodes((new.args, dict(new.kwargs)), made.__getitem__)
                    made[new] = graph.create_node(new.op, new.target, args, kwargs)
                    made[new].meta = self._meta(value)
            result = map_nodes(self.rule.after, lambda used: made[used])
            if not _same_strides(result.meta["val"], self.node.meta["val"]):
                result = graph.call_method("contiguous", (result,))
                result.meta = self._meta(self.node.meta["val"])
        self.node.replace_all_uses_with(result)
        for old in reversed(_inside(self.rule, self.found)):
            if not old.users:
                graph.erase(old)
        return [made[new] for new in made if new not in self.found and isinstance(made[new], Node)]

    def _meta(self, value: Any) -> dict[str, Any]:
        source = self.node.meta.get("source")
        return {"val": value} if source is None else {"val": value, "source": source}


def _inside(rule: Rule, found: Match) -> list[Node]:
    """Return the nodes that the left side matched, in the pattern's order; the root is last."""
    order = [node for node in rule.before.graph.nodes if node in found and node.op != "placeholder"]
    return list(dict.fromkeys(found[node] for node in order))


def _new_nodes(rule: Rule, found: Match) -> list[Node]:
    """Return the operations of the right side that the left side does not have."""
    wanted: set[Node] = set()
    pending = [rule.after] if isinstance(rule.after, Node) else []
    while pending:
        node = pending.pop()
        if node not in found and node not in wanted:
            wanted.add(node)
            pending += node.all_input_nodes
    return [node for node in rule.before.graph.nodes if node in wanted]


def _may_go(rule: Rule, root: Node, found: Match) -> bool:
    inside = _inside(rule, found)
    kept = {found.get(rule.after)} if isinstance(rule.after, Node) else set()
    for node in inside:
        read_elsewhere = any(user not in inside for user in node.users)
        if node.meta.get("impure") or (node is not root and node not in kept and read_elsewhere):
            return False
    return not _something_happens(inside, root)


def _something_happens(inside: Sequence[Node], root: Node) -> bool:
    """Return whether a node outside the match, from its first node to the root, has an effect."""
    left = set(inside)
    node = root
    while left:
        if node not in inside and is_impure(node) and not is_random(node):
            return True
        left.discard(node)
        node = node.prev
    return False


def _holds(rule: Rule, found: Match) -> bool:
    if rule.condition is None:
        return True
    values = {name: _value(found[node]) for name, node in rule.parameters.items() if node in found}
    return rule.condition(**values)


def _value(argument: Argument) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _fake_values(rule: Rule, found: Match) -> dict[Node, Any] | None:
    """Return the fake values of the right side's nodes; None where PyTorch refuses to run them."""
    values: dict[Node, Any] = {node: _value(argument) for node, argument in found.items()}
    env = env_of(size for v in values.values() for size in getattr(v, "shape", ()))
    # The C++ form of some composite operators asks for sizes that are plain integers.
    dispatch: AbstractContextManager[None] = (
        nullcontext() if env is None else enable_python_dispatcher()
    )
    try:
        with torch.no_grad(), dispatch:
            for node in _new_nodes(rule, found):
                values[node] = _run(node, values, env)
    except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, UnsupportedError):
        return None
    return values


def _run(node: Node, values: Mapping[Node, Any], env: Any) -> Any:
    args, kwargs = map_nodes((node.args, dict(node.kwargs)), values.__getitem__)
    if env is not None:
        args, kwargs = numbers_of((args, kwargs), env)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _fits(rule: Rule, node: Node, found: Match, values: Mapping[Node, Any]) -> bool:
    """Return whether the new value looks like the old one, and its memory may be returned."""
    old = node.meta.get("val")
    new = values[rule.after] if isinstance(rule.after, Node) else rule.after
    if not isinstance(old, FakeTensor) or not isinstance(new, FakeTensor):
        return False
    if rule.after in found and may_be_returned(node):
        return False
    is_captured = not isinstance(node.target, OpOverload)  # functional graphs hold these only
    return (
        (old.dtype, old.fake_device) == (new.dtype, new.fake_device)
        and same_sizes(old.shape, new.shape)
        and (_same_strides(old, new) or (_is_contiguous(old) and is_captured))
    )


def _same_strides(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether strides are equal, except for dimensions with one element."""
    return all(
        expr_of(size) == 1 or expr_of(s) == expr_of(t)
        for size, s, t in zip(a.shape, a.stride(), b.stride(), strict=True)
    )


def _is_contiguous(value: FakeTensor) -> bool:
    return same_sizes(value.stride(), torch.empty(value.shape, device="meta").stride())
