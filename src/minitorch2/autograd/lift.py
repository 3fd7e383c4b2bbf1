"""Make the tensors that a graph holds as attributes into inputs, so that they are differentiated
too.

Law::

    w = get_attr("w"); y = f(x, w)        -->        y = f(x, w_input)        with w passed along
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node


def lift_attributes(module: GraphModule) -> tuple[GraphModule, list[torch.Tensor]]:
    """Return the graph with one more placeholder for each tensor attribute, and those tensors.

    Parameters of submodules count as attributes; frozen tensors stay attributes. The result is the
    module itself if it holds no such tensor. A tensor reached twice is lifted once.
    """
    if not any(node.op in ("get_attr", "call_module") for node in module.graph.nodes):
        return module, []
    return _Lifting(module).run()


class _Lifting:
    def __init__(self, module: GraphModule) -> None:
        self.result = module.copy()
        self.tensors: list[torch.Tensor] = []
        self.placeholders: dict[int, Node] = {}

    def run(self) -> tuple[GraphModule, list[torch.Tensor]]:
        for node in list(self.result.graph.nodes):
            if node.op == "get_attr":
                self._lift_constant(node)
            elif node.op == "call_module":
                self._lift_call(node)
        return self.result, self.tensors

    def _lift_constant(self, node: Node) -> None:
        value = self.result.lookup(str(node.target))
        if isinstance(value, torch.Tensor) and not node.meta.get("frozen"):
            node.replace_all_uses_with(self._placeholder(str(node.target), value))
            self.result.graph.erase(node)

    def _lift_call(self, node: Node) -> None:
        """``module(x)`` becomes ``ModuleCall(module)(parameters, x)``."""
        submodule = self.result.lookup(str(node.target))
        if not isinstance(submodule, torch.nn.Module):
            return
        tensors = [*submodule.named_parameters(), *submodule.named_buffers()]
        nodes = [self._placeholder(f"{node.target}_{name}", tensor) for name, tensor in tensors]
        call = ModuleCall(submodule, tuple(name for name, _ in tensors))
        with self.result.graph.inserting_before(node):
            lifted = self.result.graph.call_function(call, (nodes, *node.args), node.kwargs)
        lifted.meta = dict(node.meta)
        node.replace_all_uses_with(lifted)
        self.result.graph.erase(node)

    def _placeholder(self, name: str, tensor: torch.Tensor) -> Node:
        if id(tensor) not in self.placeholders:
            graph = self.result.graph
            inputs = graph.placeholders
            position = inputs[-1].next if inputs else next(iter(graph.nodes))
            with graph.inserting_before(position):
                self.placeholders[id(tensor)] = graph.placeholder(name)
            self.tensors.append(tensor)
        return self.placeholders[id(tensor)]


class ModuleCall:
    """Calls a submodule with other tensors in the place of its parameters and buffers."""

    def __init__(self, module: torch.nn.Module, names: tuple[str, ...]) -> None:
        self.module = module
        self.names = names
        self.__name__ = type(module).__name__

    def __call__(self, tensors: list[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        """``module(*args, **kwargs)`` on ``tensors``, in the order of ``names``."""
        with self._holding(tensors):
            return self.module(*args, **kwargs)

    @contextmanager
    def _holding(self, tensors: list[torch.Tensor]) -> Iterator[None]:
        slots = [self._slot(name) for name in self.names]
        saved = [table[key] for table, key in slots]
        for (table, key), tensor in zip(slots, tensors, strict=True):
            table[key] = tensor
        try:
            yield
        finally:
            for (table, key), tensor in zip(slots, saved, strict=True):
                table[key] = tensor

    def _slot(self, name: str) -> tuple[dict[str, Any], str]:
        path, _, key = name.rpartition(".")
        owner = self.module.get_submodule(path)
        return (owner._parameters if key in owner._parameters else owner._buffers), key
