"""Reads graphs from their canonical text, which `print_ir` writes.

Text to graph to text is the identity. An attribute whose text does not say all of it, such as a
large tensor, becomes an `Opaque` with that text.
"""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.parse_type import (
    TextReader,
    number_of,
    parse_type,
    read_string,
    read_type,
)
from minitorch2.script.ir.print_ir import SUBGRAPH, Opaque, hint_of
from minitorch2.script.ir.types import Type
from minitorch2.script.syntax.source import NOWHERE, SourceFile, SourceRange

__all__ = ["parse_graph", "parse_type"]


class GraphReader(TextReader):
    """Reads one text: a graph, and the graphs that its nodes refer to."""

    def __init__(self, text: str) -> None:
        super().__init__(text, lines=True)
        self._values: dict[str, Value] = {}
        self._references: dict[str, list[tuple[Node, str]]] = {}
        self._ranges: dict[str, SourceRange] = {}

    def graphs(self) -> Graph:
        """Read all graphs of the text; return the first one."""
        self._skip_lines()
        self._expect_graph()
        first = self._graph("graph")
        self._skip_lines()
        while self.accept("with"):
            name = self._kind()
            self.expect("=")
            self._expect_graph()
            inner = self._graph(name)
            for node, attribute in self._references.pop(name, ()):
                node.attributes[attribute] = inner
            self._skip_lines()
        self.expect("end")
        self._restore_kinds()
        return first

    def _expect_graph(self) -> None:
        if not self.accept("graph"):
            raise self.error(f"graph is expected here, not {self.described()}")

    def _restore_kinds(self) -> None:
        """Let kinds that only look like references keep their names."""
        for name, uses in self._references.items():
            for node, attribute in uses:
                if attribute != SUBGRAPH or node.attributes[SUBGRAPH] is not None:
                    raise self.error(f"there is no graph {name}")
                del node.attributes[SUBGRAPH]
                node.kind = name

    def _skip_lines(self) -> None:
        while self.cur().kind in ("newline", "place"):
            self.next()

    def _graph(self, name: str) -> Graph:
        graph = Graph(name)
        self._values = {}
        self.expect("(")
        self._inputs(graph.block)
        self.expect(":")
        self._skip_lines()
        while not self.accept("return"):
            self._node(graph.block)
        self._outputs(graph.block)
        return graph

    def _inputs(self, block: Block) -> None:
        for name, type_ in self.listed(self._definition, ")"):
            self._define(name, block.add_input(hint_of(name), type_))

    def _outputs(self, block: Block) -> None:
        self.expect("(")
        for value in self.listed(self._use, ")"):
            block.add_output(value)
        self._skip_lines()

    def _definition(self) -> tuple[str, Type]:
        name = self.read("value")[1:]
        self.expect(":")
        return name, read_type(self)

    def _define(self, name: str, value: Value) -> None:
        if name in self._values:
            raise self.error(f"%{name} is defined twice")
        self._values[name] = value

    def _use(self) -> Value:
        name = self.read("value")[1:]
        if name not in self._values:
            raise self.error(f"%{name} is not defined")
        return self._values[name]

    def _node(self, block: Block) -> None:
        outputs: list[tuple[str, Type]] = []
        while self.cur().kind == "value":
            outputs.append(self._definition())
            if not self.accept(","):
                self.expect("=")
                break
        self.accept("=")
        kind = self._kind()
        node = block.graph.create(kind, (), 0)
        if self.accept("["):
            self.listed(lambda: self._read_attribute(node), "]")
        self._refer(node)
        self.expect("(")
        for value in self.listed(self._use, ")"):
            node.add_input(value)
        if self.cur().kind == "place":
            node.range = self._range(self.next().text)
        block.insert(node)
        self._skip_lines()
        self._blocks(node)
        for name, type_ in outputs:
            self._define(name, node.add_output(hint_of(name), type_))

    def _kind(self) -> str:
        return self.read("name")

    def _refer(self, node: Node) -> None:
        """Note that the kind of a node may name a graph that follows: ``prim::Kind_0``."""
        kind, _, number = node.kind.rpartition("_")
        if kind and number.isdigit():
            self._references.setdefault(node.kind, []).append((node, SUBGRAPH))
            node.attributes = {**node.attributes, SUBGRAPH: None}
            node.kind = kind

    def _blocks(self, node: Node) -> None:
        while self.cur().text.startswith("block") and self.cur().kind == "name":
            self.next()
            self.expect("(")
            block = node.add_block()
            self._inputs(block)
            self.expect(":")
            self._skip_lines()
            while not self.accept("->"):
                self._node(block)
            self._outputs(block)

    def _range(self, comment: str) -> SourceRange:
        """Return a range with the file, line and column of a comment; its text is not known."""
        text = comment.removeprefix("#").strip()
        if text not in self._ranges:
            name, line, column = text.rsplit(":", 2)
            at = SourceFile("", name, int(line), int(column)).range()
            self._ranges[text] = at if text != str(NOWHERE) else NOWHERE
        return self._ranges[text]

    # -- attributes -----------------------------------------------------------------------------

    def _read_attribute(self, node: Node) -> None:
        name = self.read("name")
        self.expect("=")
        node.attributes[name] = None
        if self.cur().text.startswith("@"):
            self._references.setdefault(self.next().text[1:], []).append((node, name))
        else:
            node.attributes[name] = self._attribute()

    def _attribute(self) -> Any:
        if self.accept("["):
            return self.listed(self._attribute, "]")
        if self.accept("("):
            return tuple(self.listed(self._attribute, ")"))
        match self.cur().kind:
            case "string":
                return read_string(self)
            case "number":
                return number_of(self.next().text)
            case "opaque":
                return Opaque(self.next().text[1:-1])
        return self._named(self.read("name"))

    def _named(self, name: str) -> Any:
        constants = {"None": None, "True": True, "False": False}
        if name in constants or name in ("inf", "nan"):
            return constants[name] if name in constants else float(name)
        if name.startswith("torch."):
            return getattr(torch, name.removeprefix("torch."))
        self.expect("(")
        if name == "type":
            found = read_type(self)
            self.expect(")")
            return found
        parts = self.listed(self._attribute, ")")
        makers: dict[str, Any] = {"complex": complex, "device": torch.device, "tensor": _tensor}
        if name not in makers:
            raise self.error("an attribute is expected")
        return makers[name](*parts)


def _tensor(values: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device="cpu")


def parse_graph(text: str) -> Graph:
    """Return the graph that a text stands for.

    Raises:
        ScriptError: the text is no graph; the place in it is shown.
    """
    return GraphReader(text).graphs()
