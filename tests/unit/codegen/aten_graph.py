"""Record the aten operators of a functional program: the input of lowering, for tests."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from minitorch2.graph.fake_tensor import FakeTensor, run_fake, to_fake
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, SourceLine
from minitorch2.graph.symbols import ShapeEnv, expr_of
from tests.unit.loopir.trace_aten import decomposed


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.nodes: dict[int, Node] = {}
        self.alive: list[Any] = []
        self.attributes: dict[str, object] = {}

    def node_of(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(self.node_of(item) for item in value)
        if not isinstance(value, torch.Tensor):
            return expr_of(value) if isinstance(value, (torch.SymInt, torch.SymFloat)) else value
        if id(value) not in self.nodes:
            name = f"constant{len(self.attributes)}"
            self.attributes[name] = value
            node = self.graph.get_attr(name)
            node.meta["val"] = to_fake(value)
            self.remember(value, node)
        return self.nodes[id(value)]

    def remember(self, value: Any, node: Node) -> None:
        self.alive.append(value)
        self.nodes[id(value)] = node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = decomposed(self, func, args, kwargs)
        if result is not NotImplemented:
            return result
        result = run_fake(func, self._faked(args), self._faked(kwargs))
        if func is torch.ops.aten.detach.default:
            self.remember(result, self.node_of(args[0]))
            return result
        node = self.graph.call_function(
            func, self.node_of(tuple(args)), {k: self.node_of(v) for k, v in kwargs.items()}
        )
        node.meta["val"] = result
        node.meta["source"] = SourceLine("model.py", 1, str(func), "forward")
        if isinstance(result, torch.Tensor):
            self.remember(result, node)
        elif isinstance(result, (tuple, list)):
            for i, item in enumerate(result):
                part = self.graph.call_function(operator.getitem, (node, i))
                part.meta["val"] = item
                self.remember(item, part)
        return result

    def _faked(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(self._faked(item) for item in value)
        if isinstance(value, dict):
            return {k: self._faked(v) for k, v in value.items()}
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            self.node_of(value)
            return to_fake(value)
        return value


def record(
    program: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False
) -> GraphModule:
    """The aten graph of `program(*inputs)`; with `dynamic`, each size > 1 is a symbol."""
    recorder = _Recorder()
    env = ShapeEnv()
    fakes = []
    made: dict[int, Any] = {}
    for i, tensor in enumerate(inputs):
        sizes = None
        if dynamic:
            for size in tensor.shape:
                if size > 1 and size not in made:
                    made[size] = env.new_size(f"s{len(made)}", size)
                    node = recorder.graph.placeholder(f"s{len(made) - 1}")
                    node.meta["val"] = made[size]
            sizes = [made.get(size, size) for size in tensor.shape]
        fake = to_fake(tensor, sizes)
        node = recorder.graph.placeholder(f"arg{i}_1")
        node.meta["val"] = fake
        recorder.remember(fake, node)
        fakes.append(fake)
    with torch.no_grad(), recorder:
        result = program(*fakes)
    results = result if isinstance(result, (tuple, list)) else (result,)
    recorder.graph.output(tuple(recorder.node_of(r) for r in results))
    return GraphModule(recorder.graph, recorder.attributes)


def call_inputs(gm: GraphModule, *inputs: torch.Tensor) -> list[Any]:
    """The arguments of a compiled graph made by `record`: sizes before the tensors they are of."""
    values: list[Any] = []
    tensors = list(inputs)
    for node in gm.graph.placeholders:
        fake = node.meta["val"]
        if isinstance(fake, torch.Tensor):
            values.append(tensors.pop(0))
        else:
            symbol = expr_of(fake)
            for other, tensor in zip(
                (n for n in gm.graph.placeholders if isinstance(n.meta["val"], torch.Tensor)),
                inputs,
            ):
                for expr, size in zip(map(expr_of, other.meta["val"].shape), tensor.shape):
                    if expr == symbol:
                        found = size
            values.append(found)
    return values
