"""Put the attributes of a module into the graph of its method, as constants.

An attribute that the graph sets or writes to stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import ListType, TensorType, is_module_type
from minitorch2.script.passes.constants import constant_before, is_immutable
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def freeze_module(graph: Graph, module: object) -> Iterator[Rewrite]:
    """Replace attributes of the object that the first input is, and of the objects inside it.

    Tensors are copied without their gradients. The first input goes when nothing reads it.
    """
    aliases = AliasDb(graph)
    written = {n.attributes["name"] for n in graph.nodes() if n.kind == "prim::SetAttr"}
    objects: dict[Value, object] = {graph.inputs[0]: module}
    copies: dict[int, torch.Tensor] = {}
    for node in [node for node in graph.nodes() if node.kind == "prim::GetAttr"]:
        name = node.attributes["name"]
        if node.inputs[0] not in objects or name in written:
            continue
        value = getattr(objects[node.inputs[0]], name)
        if is_module_type(node.output.type):
            objects[node.output] = value
        elif not aliases.has_writers(node.output):
            if isinstance(value, torch.Tensor):
                value = copies.setdefault(id(value), value.detach().clone())
            yield from _freeze(node, value)


def _freeze(node: Node, value: Any) -> Iterator[Rewrite]:
    kind = node.output.type
    if is_immutable(value) or isinstance(value, torch.Tensor):
        yield Rewrite(f"attribute {node.attributes['name']} is constant", node)
        constant = constant_before(node, value, node.output)
        if isinstance(value, torch.Tensor):
            constant.type = TensorType.of(value)
        replace_node(node, [constant])
    elif isinstance(kind, ListType) and isinstance(value, list) and all(map(is_immutable, value)):
        yield Rewrite(f"attribute {node.attributes['name']} is a constant list", node)
        graph = node.graph
        with graph.inserting_before(node):
            items = [graph.constant(item, type=kind.element) for item in value]
            made = graph.insert(graph.create("prim::ListConstruct", items, [kind]))
        replace_node(node, made.outputs)
