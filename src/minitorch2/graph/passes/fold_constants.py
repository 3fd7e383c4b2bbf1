"""Compute at compile time what depends on constants only.

Law::

    c = get_attr("w"); x = f(c)        -->        x = get_attr("folded_f")

Only small results are folded: a large one would trade run time for memory. A constant that anything
in the graph writes to, and parameters, which the user may change, are not constants.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from minitorch2.graph.effects import is_deterministic, is_mutating, may_be_returned
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.node import Node
from minitorch2.graph.passes.eliminate_dead_code import eliminate_dead_code

LARGEST_FOLDED: Final = 1 << 16
"""In elements."""


def fold_constants(module: GraphModule) -> bool:
    """Replace operations on constants by their value; return whether any was replaced.

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
        return False
    runner = Interpreter(module)
    folded = [node for node in module.graph.nodes if _compute(runner, node)]
    for node in folded:
        _replace(module, node, runner.values[node])
    if folded:
        eliminate_dead_code(module)
        module.recompile()
    return bool(folded)


def _compute(runner: Interpreter, node: Node) -> bool:
    """Keep the node's value if it is constant; say whether the node is an operation to replace."""
    if node.op == "get_attr":
        value = runner.run_node(node)
        if _is_small_constant(value):
            runner.values[node] = value
        return False
    if node.op not in ("call_function", "call_method") or not _depends_on_constants(runner, node):
        return False
    # A folded value that the caller got could be written to, and then be wrong in the next call.
    if not is_deterministic(node) or may_be_returned(node):
        return False
    value = runner.run_node(node)
    if _is_small_constant(value):
        runner.values[node] = value
    return node in runner.values


def _depends_on_constants(runner: Interpreter, node: Node) -> bool:
    inputs = node.all_input_nodes
    return bool(inputs) and all(used in runner.values for used in inputs)


def _is_small_constant(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.numel() <= LARGEST_FOLDED
        and not value.requires_grad
    )


def _replace(module: GraphModule, node: Node, value: torch.Tensor) -> None:
    graph = module.graph
    with graph.inserting_before(node):
        name = graph.unique_name(f"folded_{node.name}")
        constant = graph.create_node("get_attr", name)
    constant.name = name
    module.attributes[name] = value
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
