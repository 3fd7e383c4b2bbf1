"""Kinds of nodes without a schema: control flow, containers, attributes, calls, profiles.

Each has a rule that says what is wrong with the types of a node; for other kinds, the schemas do.
`ir.verify` follows both. The runtimes say what the kinds compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import (
    BOOL,
    INT,
    NONE,
    DictType,
    FunctionType,
    FutureType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    erase_facts,
    is_subtype_of,
    match_type,
    substitute,
    type_of,
)
from minitorch2.script.ir.verify import NODE_RULES
from minitorch2.script.operators.registry import operator_of, overloads

# Gives a sentence for each thing that is wrong.
Rule: TypeAlias = Callable[[Node], Iterator[str]]


def _no_rule(node: Node) -> Iterator[str]:
    return iter(())


def _fits(given: Type, wanted: Type, what: str) -> Iterator[str]:
    # A guard that tells a fact of a tensor may be gone, and the fact still be known elsewhere.
    if not is_subtype_of(erase_facts(given), erase_facts(wanted)):
        yield f"{what} is {given}, and {wanted} is expected"


def _all_fit(given: Sequence[Value], wanted: Sequence[Type], what: str) -> Iterator[str]:
    if len(given) != len(wanted):
        yield f"there are {len(given)} of {what}, and {len(wanted)} are expected"
        return
    for index, (value, type_) in enumerate(zip(given, wanted)):
        yield from _fits(value.type, type_, f"{what} {index}")


def _types(values: Sequence[Value]) -> list[Type]:
    return [value.type for value in values]


def _shape(node: Node, inputs: int | None, outputs: int, blocks: int = 0) -> Iterator[str]:
    if inputs is not None and len(node.inputs) != inputs:
        yield f"it has {len(node.inputs)} inputs, and {inputs} are expected"
    if len(node.outputs) != outputs:
        yield f"it has {len(node.outputs)} outputs, and {outputs} are expected"
    if len(node.blocks) != blocks:
        yield f"it has {len(node.blocks)} blocks, and {blocks} are expected"


def _constant(node: Node) -> Iterator[str]:
    yield from _shape(node, 0, 1)
    if "value" not in node.attributes:
        yield "it has no attribute `value`"
    elif isinstance(node.attributes["value"], bool | int | float | str | None):
        given, wanted = type_of(node.attributes["value"]), node.output.type
        if not isinstance(wanted, FunctionType):
            yield from _fits(given, wanted, "its value")


def _if(node: Node) -> Iterator[str]:
    if len(node.inputs) != 1 or len(node.blocks) != 2:
        yield f"it has {len(node.inputs)} inputs and {len(node.blocks)} blocks, not 1 and 2"
        return
    yield from _fits(node.inputs[0].type, BOOL, "its condition")
    for block in node.blocks:
        if block.inputs:
            yield "a branch has inputs"
        yield from _all_fit(block.outputs, _types(node.outputs), "a branch's outputs")


def _loop(node: Node) -> Iterator[str]:
    if len(node.inputs) < 2 or len(node.blocks) != 1:
        yield f"it has {len(node.inputs)} inputs and {len(node.blocks)} blocks"
        return
    (body,) = node.blocks
    yield from _all_fit(node.inputs[:2], [INT, BOOL], "the limits")
    yield from _all_fit(body.inputs[:1], [INT], "the counter")
    carried = _types(body.inputs[1:])
    yield from _all_fit(node.inputs[2:], carried, "the carried inputs")
    yield from _all_fit(body.outputs, [BOOL, *carried], "the body's outputs")
    yield from _all_fit(body.inputs[1:], _types(node.outputs), "the outputs")


def _list_construct(node: Node) -> Iterator[str]:
    yield from _shape(node, None, 1)
    kind = node.output.type
    if not isinstance(kind, ListType):
        yield f"its output is {kind}, and no list"
        return
    yield from _all_fit(node.inputs, [kind.element] * len(node.inputs), "the elements")


def _list_unpack(node: Node) -> Iterator[str]:
    kind = node.inputs[0].type
    if not isinstance(kind, ListType):
        yield f"its input is {kind}, and no list"
        return
    for value in node.outputs:
        yield from _fits(kind.element, value.type, "an output")


def _tuple_construct(node: Node) -> Iterator[str]:
    yield from _shape(node, None, 1)
    kind = node.output.type
    if not isinstance(kind, TupleType):
        yield f"its output is {kind}, and no tuple"
        return
    yield from _all_fit(node.inputs, kind.elements, "the elements")


def _tuple_unpack(node: Node) -> Iterator[str]:
    kind = node.inputs[0].type
    if not isinstance(kind, TupleType):
        yield f"its input is {kind}, and no tuple"
        return
    if len(kind.elements) != len(node.outputs):
        yield f"a tuple of {len(kind.elements)} is unpacked to {len(node.outputs)}"
        return
    for value, element in zip(node.outputs, kind.elements):
        yield from _fits(element, value.type, "an output")


def _dict_construct(node: Node) -> Iterator[str]:
    yield from _shape(node, None, 1)
    kind = node.output.type
    if not isinstance(kind, DictType) or len(node.inputs) % 2:
        yield f"its output is {kind}, and it has {len(node.inputs)} keys and values"
        return
    pairs = [kind.key, kind.value] * (len(node.inputs) // 2)
    yield from _all_fit(node.inputs, pairs, "the keys and values")


def _attribute(name: str, inputs: int | None = None) -> Rule:
    def rule(node: Node) -> Iterator[str]:
        if name not in node.attributes:
            yield f"it has no attribute `{name}`"
        if inputs is not None and len(node.inputs) != inputs:
            yield f"it has {len(node.inputs)} inputs, and {inputs} are expected"

    return rule


def _one_to_one(node: Node) -> Iterator[str]:
    return _shape(node, 1, 1)


def _subgraph(node: Node) -> Iterator[str]:
    inner = node.attributes.get("Subgraph")
    if not isinstance(inner, Graph):
        yield "it has no attribute `Subgraph` with a graph"
        return
    if len(inner.inputs) != len(node.inputs):
        yield f"{len(node.inputs)} inputs are given to a graph of {len(inner.inputs)}"


def _bailout(node: Node) -> Iterator[str]:
    yield from _subgraph(node)
    if len(node.outputs) > len(node.inputs):
        yield f"{len(node.outputs)} tensors are checked, and {len(node.inputs)} are given"


def _region(node: Node) -> Iterator[str]:
    yield from _subgraph(node)
    inner = node.attributes.get("Subgraph")
    if isinstance(inner, Graph) and len(inner.outputs) != len(node.outputs):
        yield f"it has {len(node.outputs)} outputs, and its graph {len(inner.outputs)}"


def _fork(node: Node) -> Iterator[str]:
    yield from _shape(node, None, 1)
    if not isinstance(node.output.type, FutureType):
        yield f"its output is {node.output.type}, and no future"


def _unwrap(node: Node) -> Iterator[str]:
    yield from _shape(node, 1, 1)
    given = node.inputs[0].type
    inner = given.element if isinstance(given, OptionalType) else given
    if given != NONE:
        yield from _fits(inner, node.output.type, "its input")


def _tensor_to_tensor(node: Node) -> Iterator[str]:
    yield from _shape(node, 1, 1)
    for value in (*node.inputs, *node.outputs):
        if not isinstance(value.type, TensorType | OptionalType):
            yield f"{value.type} is no tensor"


def _chunk(node: Node) -> Iterator[str]:
    yield from _attribute("chunks", 1)(node)
    yield from _attribute("dim")(node)
    if len(node.outputs) != node.attributes.get("chunks"):
        yield f"it has {len(node.outputs)} outputs for {node.attributes.get('chunks')} chunks"


PRIMS: Final[dict[str, Rule]] = {
    "prim::Constant": _constant,
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::With": _no_rule,
    "prim::ListConstruct": _list_construct,
    "prim::ListUnpack": _list_unpack,
    "prim::TupleConstruct": _tuple_construct,
    "prim::TupleUnpack": _tuple_unpack,
    "prim::TupleIndex": _no_rule,
    "prim::TupleSlice": _no_rule,
    "prim::DictConstruct": _dict_construct,
    "prim::CreateObject": lambda node: _shape(node, 0, 1),
    "prim::EnumName": _one_to_one,
    "prim::EnumValue": _one_to_one,
    "prim::GetAttr": _attribute("name", 1),
    "prim::SetAttr": _attribute("name", 2),
    "prim::CallFunction": _attribute("function"),
    "prim::CallMethod": _attribute("name"),
    "prim::PythonOp": _attribute("function"),
    "prim::RaiseException": _no_rule,
    "prim::Print": _no_rule,
    "prim::Uninitialized": lambda node: _shape(node, 0, 1),
    "prim::unchecked_cast": _one_to_one,
    "prim::unchecked_unwrap_optional": _unwrap,
    "prim::tolist": lambda node: _shape(node, 1, 1),
    "prim::isinstance": _attribute("types", 1),
    "prim::fork": _fork,
    "prim::profile": _tensor_to_tensor,
    "prim::guard": _tensor_to_tensor,
    "prim::bailout": _bailout,
    "prim::DifferentiableGraph": _region,
    "prim::FusionGroup": _region,
    "prim::ConstantChunk": _chunk,
    "prim::SetGradEnabled": _one_to_one,
    "prim::Enter": _no_rule,
    "prim::Exit": _no_rule,
    "prim::format": _no_rule,
    # Only between the frontend's steps:
    "prim::Store": _attribute("name", 1),
    "prim::Load": _attribute("name", 0),
    "prim::Break": _no_rule,
    "prim::Continue": _no_rule,
    "prim::Return": _no_rule,
}


def complaints(node: Node) -> list[str]:
    """Return what is wrong with the types of a node: by its rule, or by the schemas of its kind."""
    if node.kind in PRIMS:
        return list(PRIMS[node.kind](node))
    return list(_schema_rule(node)) if overloads(node.kind) else []


def _schema_rule(node: Node) -> Iterator[str]:
    found = operator_of(node)
    if found is None:
        yield f"no overload takes ({', '.join(str(value.type) for value in node.inputs)})"
        return
    schema, bindings = found.schema, dict[str, Type]()
    for argument, value in zip(schema.arguments, node.inputs):
        match_type(argument.type, value.type, bindings)
    if len(schema.returns) != len(node.outputs) and not schema.is_varret:
        yield f"it has {len(node.outputs)} outputs, and its schema is {schema}"
    for result, value in zip(schema.returns, node.outputs):
        wanted = substitute(result.type, bindings)
        if not is_subtype_of(value.type, wanted):
            yield from _fits(wanted, value.type, "a result")


NODE_RULES.append(complaints)
