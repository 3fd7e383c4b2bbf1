"""Take tuples apart: their elements travel through branches and loops as values of their own."""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import TupleType
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass

TUPLE = "prim::TupleConstruct"
UNINITIALIZED = "prim::Uninitialized"


@script_pass
def lower_tuples(graph: Graph) -> Iterator[Rewrite]:
    """Flatten the tuples that branches give and loops carry; read elements where tuples are made.

    Inputs and outputs of the graph stay: they are the caller's.
    """
    for node in list(graph.nodes()):
        if node.kind == "prim::If":
            yield from _flatten(node, first_input=None)
        elif node.kind == "prim::Loop":
            yield from _flatten(node, first_input=2)
    for node in list(graph.nodes()):
        elements = _elements_read(node)
        if elements is not None:
            yield Rewrite("the tuple is made here", node)
            replace_node(node, elements)


def _elements_read(node: Node) -> list[Value] | None:
    """Return the values that a node takes out of a tuple which the graph makes; None for others."""
    made = node.inputs[0].node if node.inputs else None
    if made is None or made.kind != TUPLE:
        return None
    if node.kind == "prim::TupleUnpack":
        return list(made.inputs)
    index = node.constant(1) if node.kind == "prim::TupleIndex" else None
    count = len(made.inputs)
    return [made.inputs[index]] if isinstance(index, int) and -count <= index < count else None


def _flatten(node: Node, first_input: int | None) -> Iterator[Rewrite]:
    index = 0
    while index < len(node.outputs):
        kind = node.outputs[index].type
        if not isinstance(kind, TupleType) or not _are_of(kind, node, index, first_input):
            index += 1
            continue
        yield Rewrite(f"output {index} is a tuple", node)
        _flatten_output(node, index, kind)
        for block in node.blocks:
            _flatten_result(block, index + (first_input is not None), kind)
        if first_input is not None:
            _flatten_carried(node, index, kind)


def _are_of(kind: TupleType, node: Node, index: int, first_input: int | None) -> bool:
    """Return whether every value for an output is a tuple of as many elements."""
    if first_input is None:
        values = [block.outputs[index] for block in node.blocks]
    else:
        body = node.blocks[0]
        values = [node.inputs[index + 2], body.inputs[index + 1], body.outputs[index + 1]]
    types = [value.type for value in values]
    return all(isinstance(t, TupleType) and len(t.elements) == len(kind.elements) for t in types)


def _insert_outputs(node: Node, index: int, kind: TupleType, name: str) -> list[Value]:
    """Insert outputs behind the one at a position, one for each element of its type."""
    new = [node.add_output(name, element) for element in kind.elements]
    del node.outputs[len(node.outputs) - len(new) :]
    node.outputs[index + 1 : index + 1] = new
    return new


def _flatten_output(node: Node, index: int, kind: TupleType) -> None:
    """Give the elements instead of a tuple, which is made again behind the node."""
    output = node.outputs[index]
    elements = _insert_outputs(node, index, kind, output.name)
    made = node.graph.create(TUPLE, elements, [kind], range=node.range).insert_after(node)
    made.output.name = output.name
    output.replace_all_uses_with(made.output)
    node.remove_output(index)


def _flatten_result(block: Block, index: int, kind: TupleType) -> None:
    """Let a block give the elements of one of its outputs."""
    elements = _unpacked_before(block.returns, block.outputs[index], kind)
    block.remove_output(index)
    for offset, element in enumerate(elements):
        block.returns.insert_input(index + offset, element)


def _flatten_carried(loop: Node, index: int, kind: TupleType) -> None:
    """Let a loop take and carry elements; the body makes the tuple of them."""
    body = loop.blocks[0]
    first = _unpacked_before(loop, loop.inputs[index + 2], kind)
    loop.remove_input(index + 2)
    for offset, element in enumerate(first):
        loop.insert_input(index + 2 + offset, element)
    carried = body.inputs[index + 1]
    elements = _insert_outputs(body.parameters, index + 1, kind, carried.name)
    made = loop.graph.create(TUPLE, elements, [kind], range=loop.range)
    made.insert_after(body.parameters)
    carried.replace_all_uses_with(made.output)
    body.remove_input(index + 1)


def _unpacked_before(node: Node, value: Value, kind: TupleType) -> list[Value]:
    """Insert the unpacking of a tuple before a node; return the elements.

    A value that no way reads has elements that no way reads.
    """
    graph = node.graph
    if value.node.kind == UNINITIALIZED:
        made = [graph.create(UNINITIALIZED, (), [e], range=node.range) for e in kind.elements]
        return [each.insert_before(node).output for each in made]
    unpack = graph.create("prim::TupleUnpack", [value], kind.elements, range=node.range)
    return unpack.insert_before(node).outputs
