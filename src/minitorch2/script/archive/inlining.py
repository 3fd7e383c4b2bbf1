"""Choose the values of a graph that are printed inside of other expressions.

A value is printed where it is used if it has one use, and if nothing else would be evaluated
between its own place and that use. So the text evaluates in the order of the graph.
"""

from __future__ import annotations

from minitorch2.script.ir.graph import Block, Graph, Node, Value

_STATEMENTS = frozenset(
    {"prim::If", "prim::Loop", "prim::SetAttr", "prim::fork", "prim::Enter", "prim::PythonOp"}
    | {"prim::TupleUnpack", "prim::ListUnpack", "prim::SetGradEnabled"}
)


def inlined_values(graph: Graph) -> set[Value]:
    """Return the values that are printed inside of the expression that uses them."""
    found: set[Value] = set()
    _scan_block(graph.block, found)
    return found


def _scan_block(block: Block, found: set[Value]) -> None:
    _scan_from(block.returns, found)
    node = _previous(block.returns)
    while node is not None:
        for inner in node.blocks:
            _scan_block(inner, found)
        if not (node.outputs and node.outputs[0] in found):
            _scan_from(node, found)
        node = _previous(node)


def _scan_from(node: Node, found: set[Value]) -> Node:
    """Mark inputs of a node, last one first; return the first node that stands in its text."""
    first = node
    if node.kind == "prim::Loop":  # its condition is a variable that the body sets
        return first
    for value in reversed(node.inputs):
        if value.node is _previous(first) and _can_move(value, node):
            found.add(value)
            first = _scan_from(value.node, found)
    return first


def _can_move(value: Value, user: Node) -> bool:
    producer = value.node
    is_expression = len(producer.outputs) == 1 and producer.kind not in _STATEMENTS
    keeps_its_name = value.name and not _names_results(user)
    return is_expression and len(value.uses) == 1 and not keeps_its_name


def _names_results(user: Node) -> bool:
    """Tell whether the user is the end of a branch: the output of the `prim::If` has the name."""
    block = user.block
    owner = None if block is None else block.owner
    return user.kind == "prim::Return" and owner is not None and owner.kind == "prim::If"


def _previous(node: Node) -> Node | None:
    """Return the node before this one in its block that is not a constant."""
    before = node.previous
    while before is not None and before.kind == "prim::Constant":
        before = before.previous
    return None if before is None or before.kind == "prim::Param" else before
