"""Compute matrix products that share an operand as one product, as unrolled loops leave them.

``x1 @ w, x2 @ w, ...`` are the parts of ``cat([x1, x2, ...]) @ w``. The library may add in another
order, so results can differ in the last bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import INT, TENSOR, ListType, Type
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.eliminate_common_subexpressions import changes_mode
from minitorch2.script.passes.rewriting import Rewrite, script_pass

SMALLEST: Final = 3
"""With fewer products the concatenation costs more than it saves."""


@script_pass
def batch_matmuls(graph: Graph) -> Iterator[Rewrite]:
    """Batch products of a block with the same right operand, then those with the same left one."""
    if changes_mode(graph.block):
        return
    for shared in (1, 0):
        yield from _batch(graph.block, shared, AliasDb(graph))


def _batch(block: Block, shared: int, aliases: AliasDb) -> Iterator[Rewrite]:
    products: defaultdict[Value, list[Node]] = defaultdict(list)
    for node in list(block.nodes):
        for inner in node.blocks:
            yield from _batch(inner, shared, aliases)
        if node.kind == "aten::mm" and _is_alone(node, aliases):
            group = products[node.inputs[shared]]
            if not group or node.inputs[1 - shared].node.is_before(group[0]):
                group.append(node)
    for group in products.values():
        if len(group) >= SMALLEST:
            yield Rewrite(f"is one of {len(group)} products of one operand", group[0])
            _multiply_once(group, shared)


def _is_alone(product: Node, aliases: AliasDb) -> bool:
    """Return whether nobody can tell a product from a part of a larger one."""
    values = (*product.inputs, product.output)
    return not aliases.escapes(product.output) and not any(map(aliases.has_writers, values))


def _multiply_once(group: list[Node], shared: int) -> None:
    """Replace products by the parts of one, along the dimension of the other operand."""
    first, graph = group[0], group[0].graph
    others = [node.inputs[1 - shared] for node in group]
    tensors, sizes = ListType(TENSOR), ListType(INT)

    def compute(kind: str, *inputs: Value, types: tuple[Type, ...] = (TENSOR,)) -> list[Value]:
        return graph.insert(graph.create(kind, inputs, types, range=first.range)).outputs

    with graph.inserting_before(first):
        dim = graph.constant(1 - shared, range=first.range)
        (items,) = compute("prim::ListConstruct", *others, types=(tensors,))
        (joined,) = compute("aten::cat", items, dim)
        operands = [joined, joined]
        operands[shared] = first.inputs[shared]
        (whole,) = compute("aten::mm", *operands)
        lengths = [compute("aten::size", other, dim, types=(INT,))[0] for other in others]
        (cuts,) = compute("prim::ListConstruct", *lengths, types=(sizes,))
        (parts,) = compute("aten::split_with_sizes", whole, cuts, dim, types=(tensors,))
        results = compute("prim::ListUnpack", parts, types=(TENSOR,) * len(group))
    for node, part in zip(group, results, strict=True):
        part.type, part.name = node.output.type, node.output.name
        replace_node(node, [part])
