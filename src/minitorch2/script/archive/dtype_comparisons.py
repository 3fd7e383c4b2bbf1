"""Comparisons of element types in the code of files, which calls them ints.

A file says ``torch.eq(ops.prim.dtype(x), 6)`` and ``def f(kind: int)``. Here a tensor's
element type is an object of PyTorch, and so is what a caller passes. Both sides become numbers:

    aten::eq(%dtype, %6)  -->  aten::eq(prim::number(%dtype), prim::number(%6))
"""

from __future__ import annotations

from typing import Final

from minitorch2.script.analysis.effects import kinds
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import INT, SUBTYPES, ListType, Type

_COMPARISONS: Final = kinds("aten", "eq ne __is__ __isnot__ __contains__")
_CALLS: Final = kinds("prim", "CallFunction CallMethod")


def compare_as_numbers(graph: Graph) -> Graph:
    """Make numbers of the operands wherever one may be an element type, a layout or a format."""
    for node in list(graph.nodes()):
        if node.kind in _COMPARISONS and any(may_be_dtype(v, set()) for v in node.inputs):
            for index, value in enumerate(node.inputs):
                wanted = ListType(INT) if isinstance(value.type, ListType) else INT
                if _element(value.type) in (INT, *SUBTYPES[INT]):
                    made = graph.create("prim::number", (value,), (wanted,), range=node.range)
                    node.replace_input(index, made.insert_before(node).output)
    return graph


def may_be_dtype(value: Value, seen: set[Value]) -> bool:
    """Tell whether a value of the graph may be an element type, although its type may be int.

    Args:
        seen: values that are being looked at, whose answer depends on others.
    """
    node, block = value.node, value.node.block
    if _element(value.type) in SUBTYPES[INT]:
        return True
    if value.type != INT or value in seen:
        return False
    seen.add(value)
    sources = list[Value]()
    if node.kind == "prim::If":
        sources = [inner.outputs[value.index] for inner in node.blocks]
    elif node.kind == "prim::Loop":
        sources = [node.inputs[value.index + 2], node.blocks[0].outputs[value.index + 1]]
    elif node.kind == "prim::unchecked_cast":
        sources = [node.inputs[0]]
    elif node.kind == "prim::Param" and block is not None and block.owner is not None:
        at = value.index  # the first one counts the iterations
        sources = [block.owner.inputs[at + 1], block.outputs[at]] if at else []
    given = node.kind in _CALLS or value in value.node.graph.inputs
    return given or any(may_be_dtype(source, seen) for source in sources)


def _element(given: Type) -> Type:
    return given.element if isinstance(given, ListType) else given
