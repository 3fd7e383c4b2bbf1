"""Compute a node at compile time if its inputs are constants.

Law::

    c = get_attr("w"); x = f(c)        -->        x = get_attr("folded_f")

A large result is folded only if it takes no more memory than its inputs. Views stay: they cost
nothing. A tensor of symbolic size stays: its size differs from call to call, or is a count that the
graph reads. A tensor that the graph writes to does not count as a constant. Nor does a parameter,
which the user may change, unless it is frozen (``freeze_parameters``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from minitorch2.graph.effects import is_deterministic, is_mutating, is_view, may_be_returned
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.node import Node
from minitorch2.graph.rewriting import Rewrite, graph_pass
from minitorch2.graph.symbols import free_symbols

LARGEST_FOLDED: Final = 1 << 18
"""In bytes."""


@graph_pass
def fold_constants(module: GraphModule) -> Iterator[Rewrite]:
    """Replace operations on constants by their value.

    >>> from minitorch2.graph.graph import Graph
    >>> graph = Graph()
    >>> x, two = graph.placeholder("x"), graph.get_attr("two")
    >>> four = graph.call_function(torch.mul, (two, 2))
    >>> _ = graph.output((graph.call_function(torch.add, (x, four)),))
    >>> module = GraphModule(graph, {"two": torch.tensor(2)})
    >>> fold_constants(module), [node.name for node in graph.nodes], module(torch.tensor(1))
    (True, ['x', 'folded_mul', 'add', 'output'], (tensor(5),))
    """
    if any(is_mutating(node) for node in module.graph.nodes):
        return
    runner = Interpreter(module)
    for node in list(module.graph.nodes):
        if node.op == "get_attr":
            _keep(runner, node, runner.run_node(node))
        elif _is_constant(runner, node):
            _keep(runner, node, runner.run_node(node))
            if node in runner.values and not is_view(node):
                yield Rewrite("computed at compile time", node)
                value = runner.values[node]
                runner.values[_replace(module, node, value)] = value


def _is_constant(runner: Interpreter, node: Node) -> bool:
    if node.op not in ("call_function", "call_method") or not is_deterministic(node):
        return False
    sizes = getattr(node.meta.get("val"), "shape", ())
    if free_symbols((node.args, node.kwargs, tuple(sizes))):
        return False
    inputs = node.all_input_nodes
    # A folded value that the caller got could be written to, and then be wrong in the next call.
    known = inputs and all(used in runner.values for used in inputs)
    return bool(known) and not may_be_returned(node)


def _keep(runner: Interpreter, node: Node, value: Any) -> None:
    """Keep a constant tensor if it is small or takes no more memory than its inputs."""
    if not isinstance(value, torch.Tensor) or value.requires_grad:
        return
    read = sum(_memory(runner.values[used]) for used in node.all_input_nodes)
    if node.op == "get_attr" or is_view(node) or _memory(value) <= max(read, LARGEST_FOLDED):
        runner.values[node] = value


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _replace(module: GraphModule, node: Node, value: torch.Tensor) -> Node:
    graph = module.graph
    with graph.inserting_before(node):
        name = graph.unique_name(f"folded_{node.name}")
        constant = graph.create_node("get_attr", name)
    constant.name = name
    module.attributes[name] = value
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
    _erase(module, node)
    return constant


def _erase(module: GraphModule, node: Node) -> None:
    """Erase a constant that nothing reads any more, and then its inputs."""
    inputs = node.all_input_nodes
    module.graph.erase(node)
    for used in inputs:
        if not used.users:
            _erase(module, used)
    if node.op == "get_attr" and not any(n.target == node.target for n in module.graph.nodes):
        module.attributes.pop(str(node.target), None)
