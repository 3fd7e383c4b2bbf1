"""The canonical text of graphs; `parse_ir` reads it back.

    graph(%x : Tensor, %n : int):
      %2 : int = prim::Constant[value=1]()
      %y : Tensor = aten::add(%x, %n, %2) # file.py:3:4
      return (%y)

A value's name is its hint; a second one of the same name is `%y.1`. Values without a name are
numbered in the order of the text. Graphs in attributes follow the text, as `with prim::Kind_0 =`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from enum import Enum
from typing import Any, Final

import torch

from minitorch2.script.ir.graph import GRAPH_PRINTERS, Block, Graph, Node, Value
from minitorch2.script.ir.types import TensorType, Type
from minitorch2.script.syntax.source import NOWHERE

SUBGRAPH: Final = "Subgraph"
MOST_PRINTED_ELEMENTS: Final = 16


class Names:
    """Unique names of a graph's values, given in the order of the text."""

    def __init__(self, graph: Graph) -> None:
        self._counts: Counter[str] = Counter()
        self._numbered = 0
        self.texts: dict[Value, str] = {}
        self._name_block(graph.block)

    def _name_block(self, block: Block) -> None:
        for value in block.inputs:
            self._name(value)
        for node in block.nodes:
            for value in node.outputs:
                self._name(value)
            for inner in node.blocks:
                self._name_block(inner)

    def _name(self, value: Value) -> None:
        hint = hint_of(value.name)
        if not hint:
            self.texts[value] = f"%{self._numbered}"
            self._numbered += 1
            return
        count = self._counts[hint]
        self._counts[hint] += 1
        self.texts[value] = f"%{hint}.{count}" if count else f"%{hint}"


def hint_of(name: str) -> str:
    """Return a name without the number that makes it unique, in characters that the text allows."""
    hint = re.sub(r"[^\w.]", "_", re.sub(r"(\.\d+)+$", "", name)).strip(".")
    return "" if hint.isdigit() else hint


class GraphPrinter:
    """Prints a graph, and the graphs in attributes of its nodes after it."""

    def __init__(self, *, ranges: bool) -> None:
        self.ranges = ranges
        self.lines: list[str] = []
        self._queue: list[tuple[str, Graph]] = []
        self._counts: Counter[str] = Counter()
        self._names: dict[Value, str] = {}

    def print(self, graph: Graph) -> str:
        """Return the text of a graph."""
        self._graph("graph", graph)
        for name, inner in self._queue:  # grows while inner graphs are printed
            self._graph(f"with {name} = graph", inner)
        return "\n".join(self.lines) + "\n"

    def _graph(self, head: str, graph: Graph) -> None:
        self._names = Names(graph).texts
        inputs = ", ".join(map(self._definition, graph.inputs))
        self.lines.append(f"{head}({inputs}):")
        self._nodes(graph.block, "  ")
        self.lines.append(f"  return ({self._uses(graph.outputs)})")

    def _nodes(self, block: Block, indent: str) -> None:
        for node in block.nodes:
            self.lines.append(indent + self._node(node))
            for index, inner in enumerate(node.blocks):
                inputs = ", ".join(map(self._definition, inner.inputs))
                self.lines.append(f"{indent}  block{index}({inputs}):")
                self._nodes(inner, indent + "    ")
                self.lines.append(f"{indent}    -> ({self._uses(inner.outputs)})")

    def _node(self, node: Node) -> str:
        kind, attributes = node.kind, dict(node.attributes)
        if isinstance(attributes.get(SUBGRAPH), Graph):
            kind = self._refer(node.kind, attributes.pop(SUBGRAPH))
        parts = ", ".join(f"{name}={self._attribute(v)}" for name, v in attributes.items())
        text = f"{kind}[{parts}]" if parts else kind
        outputs = ", ".join(map(self._definition, node.outputs))
        left = f"{outputs} = " if outputs else ""
        return f"{left}{text}({self._uses(node.inputs)}){self._range(node)}"

    def _refer(self, kind: str, graph: Graph) -> str:
        name = f"{kind}_{self._counts[kind]}"
        self._counts[kind] += 1
        self._queue.append((name, graph))
        return name

    def _attribute(self, value: Any) -> str:
        if isinstance(value, Graph):
            return "@" + self._refer("prim::Graph", value)
        if isinstance(value, list | tuple):
            items = ", ".join(map(self._attribute, value))
            return f"[{items}]" if isinstance(value, list) else f"({items})"
        return attribute_text(value)

    def _range(self, node: Node) -> str:
        place = node.range
        if not self.ranges or place is NOWHERE:
            return ""
        return f" # {place.file.name}:{place.line}:{place.column}"

    def _definition(self, value: Value) -> str:
        return f"{self._names[value]} : {value.type}"

    def _uses(self, values: tuple[Value, ...]) -> str:
        return ", ".join(map(self._names.__getitem__, values))


class Opaque:
    """Stands for an attribute whose text does not say all of it, in a graph read from text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def attribute_text(value: Any) -> str:
    """Return the text of an attribute that is neither a graph nor a list."""
    match value:
        case bool() | None | int() | float():
            return repr(value)
        case complex():
            return f"complex({value.real}, {value.imag})"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case torch.dtype() | torch.layout() | torch.memory_format():
            return str(value)
        case torch.device():
            return f'device("{value}")'
        case Enum():
            return f"<{type(value).__qualname__}.{value.name}>"
        case torch.Tensor():
            return _tensor_text(value)
        case Type():
            return f"type({value})"
        case Opaque():
            return f"<{value.text}>"
    return f"<{_object_name(value)}>"


def _tensor_text(tensor: torch.Tensor) -> str:
    kind = TensorType.of(tensor)
    if tensor.numel() > MOST_PRINTED_ELEMENTS or tensor.requires_grad or not _is_plain(tensor):
        return f"<{kind}>"
    return f"tensor({tensor.tolist()}, {tensor.dtype})"


def _is_plain(tensor: torch.Tensor) -> bool:
    dtypes = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)
    return tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.dtype in dtypes


def _object_name(value: Any) -> str:
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else type(value).__name__


def print_graph(graph: Graph, *, ranges: bool = True) -> str:
    """Return the canonical text of a graph.

    Args:
        graph: what is printed.
        ranges: whether each node is followed by its place in the user's program.
    """
    return GraphPrinter(ranges=ranges).print(graph)


GRAPH_PRINTERS.append(print_graph)
