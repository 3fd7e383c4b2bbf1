"""Conversion between our graphs and those of ``torch.fx``: the only place that knows ``torch.fx``.

Both IRs have the same six opcodes, so that a conversion is a copy of the nodes.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch
import torch.fx

from minitorch2.errors import UnsupportedError
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Argument, Node, map_nodes

Function = TypeVar("Function", bound=Callable[..., Any])
_MARK: Final = "_minitorch2_fx_backend"


def fx_backend(backend: Function) -> Function:
    """Mark a backend as one that takes a ``torch.fx.GraphModule``, if no annotation says so."""
    setattr(backend, _MARK, True)
    return backend


def wants_torch_fx(backend: Callable[..., Any]) -> bool:
    """Whether the backend is marked, or its first parameter is annotated
    ``torch.fx.GraphModule``.
    """
    if getattr(backend, _MARK, False):
        return True
    try:
        first = next(iter(inspect.signature(backend).parameters.values()), None)
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    if first is None or first.annotation is inspect.Parameter.empty:
        return False
    if isinstance(first.annotation, str):
        return _resolved(backend, first.name) is torch.fx.GraphModule or first.annotation.endswith(
            "fx.GraphModule"
        )
    return first.annotation is torch.fx.GraphModule


def _resolved(backend: Callable[..., Any], parameter: str) -> Any:
    try:
        return typing.get_type_hints(backend).get(parameter)
    except (
        NameError,
        TypeError,
        AttributeError,
    ):  # an annotation that names something not importable
        return None


def adapt_fx_backend(backend: Callable[..., Any]) -> Callable[..., Any]:
    """A backend for our graphs that converts them and calls one for ``torch.fx`` graphs."""

    def adapted(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = backend(to_torch_fx(gm), example_inputs)
        return compiled

    adapted.__name__ = getattr(backend, "__name__", "backend")
    return adapted


def to_torch_fx(module: GraphModule) -> torch.fx.GraphModule:
    """The same graph as a ``torch.fx.GraphModule``; ``meta["val"]`` becomes
    ``meta["example_value"]`` too.
    """
    graph = torch.fx.Graph()
    copies: dict[Node, torch.fx.Node] = {}
    for node in module.graph.nodes:
        args = map_nodes(node.args, copies.__getitem__)
        kwargs = map_nodes(dict(node.kwargs), copies.__getitem__)
        copy = graph.create_node(node.op, node.target, args, kwargs, name=node.name)
        copy.meta = dict(node.meta)
        if "val" in node.meta:
            copy.meta["example_value"] = node.meta["val"]
        copies[node] = copy
    root = torch.nn.Module()
    for name, value in module.attributes.items():
        if "." not in name:
            _attach(root, name, value)
    return torch.fx.GraphModule(root, graph)


def _attach(root: torch.nn.Module, name: str, value: object) -> None:
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


def from_torch_fx(module: torch.fx.GraphModule) -> GraphModule:
    """A ``torch.fx`` graph as ours. The module's own attributes stay shared, not copied.

    Raises UnsupportedError for opcodes or arguments that only ``torch.fx`` has.
    """
    graph = Graph()
    copies: dict[torch.fx.Node, Node] = {}
    attributes: dict[str, object] = {}
    for node in module.graph.nodes:
        args, kwargs = _from_fx(node.args, copies), _from_fx(dict(node.kwargs), copies)
        if node.op == "output":
            copies[node] = graph.output(args[0])
            continue
        if node.op == "placeholder":
            args, kwargs = (), {}
        if node.op in ("get_attr", "call_module"):
            attributes[str(node.target)] = _lookup(module, str(node.target))
        copies[node] = graph.create_node(node.op, node.target, args, kwargs, name=node.name)
    return GraphModule(graph, attributes)


def _from_fx(value: Any, copies: dict[torch.fx.Node, Node]) -> Argument:
    if isinstance(value, torch.fx.Node):
        return copies[value]
    if isinstance(value, (tuple, list)):
        items = [_from_fx(item, copies) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: _from_fx(item, copies) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_from_fx(item, copies) for item in (value.start, value.stop, value.step)))
    if isinstance(value, torch.fx.GraphModule):
        raise UnsupportedError("a graph that holds another graph as an argument")
    return value


def _lookup(module: torch.nn.Module, path: str) -> object:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value
