"""A straight graph of tensor operators as a graph of `minitorch2.graph`, which backends take."""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from minitorch2.graph.fake_tensor import run_fake
from minitorch2.graph.graph import Graph as TensorGraph
from minitorch2.graph.node import Node as TensorNode
from minitorch2.graph.node import SourceLine
from minitorch2.native.torch_internals.operators import OpOverload
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.runtime.meanings import Makers, call_of
from minitorch2.script.syntax.source import NOWHERE

aten = torch.ops.aten
SYMBOLIC: Final[Mapping[Any, Any]] = {
    aten.size.int: aten.sym_size.int,
    aten.stride.int: aten.sym_stride.int,
    aten.numel.default: aten.sym_numel.default,
}
"""Operators that give a number, and those that give it as a symbol."""


def _refuse(graph: Graph) -> Callable[..., Any]:
    raise AssertionError("a region calls a graph")


NO_GRAPHS: Final = Makers(_refuse, _refuse, _refuse)


class TensorGraphWriter:
    """Writes a script graph without control flow into a graph of tensors."""

    def __init__(self) -> None:
        self.graph = TensorGraph()

    def placeholder(self, name: str, example: Any) -> Any:
        """Add an input with the fake value that it has."""
        node = self.graph.placeholder(name)
        node.meta["val"] = example
        return node

    def add(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Add the nodes of a graph; return what its outputs are."""
        values: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.block.nodes:
            results = self._node(node, [values[value] for value in node.inputs])
            values |= zip(node.outputs, results, strict=True)
        return [values[value] for value in graph.outputs]

    def _node(self, node: Node, args: list[Any]) -> Sequence[Any]:
        if "Subgraph" in node.attributes:
            return self.add(node.attributes["Subgraph"], args)
        if node.kind == "prim::Constant":
            return [node.attributes["value"]]
        if node.kind == "prim::ListConstruct":
            return [args]
        if node.kind == "prim::TupleConstruct":
            return [tuple(args)]
        if node.kind == "prim::ConstantChunk":
            attributes = node.attributes
            call = aten.chunk.default, (args[0], attributes["chunks"], attributes["dim"])
            return self._items(node, self._call(node, *call, {}))
        if node.kind in ("prim::ListUnpack", "prim::TupleUnpack"):
            is_written = isinstance(args[0], (list, tuple))
            return list(args[0]) if is_written else self._items(node, args[0])
        call_ = call_of(node, NO_GRAPHS)
        named = {name: args[k] for name, k in call_.keywords}
        function = SYMBOLIC.get(call_.function, call_.function)
        result = self._call(node, function, tuple(args[k] for k in call_.positional), named)
        return [result] if len(node.outputs) == 1 else self._items(node, result)

    def _items(self, node: Node, result: Any) -> list[Any]:
        count = len(node.outputs)
        return [self._call(node, operator.getitem, (result, k), {}) for k in range(count)]

    def _call(
        self, node: Node, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        made = self.graph.call_function(function, args, kwargs)
        run = run_fake if isinstance(function, OpOverload) else _run
        named = {name: _example(value) for name, value in kwargs.items()}
        made.meta["val"] = run(function, _example(args), named)
        if node.range is not NOWHERE:
            file, line = node.range.file.name, node.range.line
            made.meta["source"] = SourceLine(file, line, linecache.getline(file, line).strip())
        return made


def _run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _example(argument: Any) -> Any:
    """Return an argument with the fake values of nodes in their places."""
    if isinstance(argument, list | tuple):
        return type(argument)(map(_example, argument))
    return argument.meta["val"] if isinstance(argument, TensorNode) else argument
