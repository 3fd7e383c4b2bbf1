"""Functions that capture evaluates into graphs of their own, and the node that calls the graphs.

The values that such a function reads from around it, and its sizes, become inputs of its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy
import torch

from minitorch2.bytecode.operators.blocks import bound_symbols
from minitorch2.bytecode.trackers.base import Arguments, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.subgraph import Subgraph, record
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node


class Recorded:
    """A function evaluated into a graph.

    Attributes:
        code: the code of the reason for which capture refuses a function.
        part: the graph; its result is a list of tensors and, unless it is one tensor, a structure.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        code: str,
        function: VariableTracker,
        args: Arguments,
        has_structure: bool = True,
    ) -> None:
        self.code = code
        self.part: Subgraph = record(evaluator, lambda: function.call(evaluator, args, {}))
        result = self.part.result
        self.structure = result
        if has_structure:
            result, self.structure = result.items(evaluator)
        self.tensors = tensors_of(code, result if has_structure else ListVariable([result]))

    @property
    def outputs(self) -> list[Node]:
        """The nodes of the results."""
        return [tensor.node for tensor in self.tensors]


def tensors_of(code: str, values: VariableTracker) -> list[TensorVariable]:
    """Return the elements of a list or tuple, which must be tensors."""
    assert isinstance(values, ListVariable | TupleVariable)
    found = [value for value in values.realized() if isinstance(value, TensorVariable)]
    if len(found) != len(values.elements):
        unsupported(code, "values that are no tensors are carried, or results")
    return found


def closed(
    evaluator: Evaluator, functions: Sequence[Recorded], own: Sequence[TensorVariable]
) -> tuple[list[GraphModule], list[TensorVariable]]:
    """Return the graphs with the same inputs, and the other nodes they read, which come last."""
    last = [tensor.node for tensor in own]
    read = dict.fromkeys(node for f in functions for node in f.part.read(f.outputs))
    symbols = set().union(*(f.part.symbols() for f in functions))
    bound = [*binders(evaluator, functions[0].code, symbols, [*read, *last])]
    if not all(isinstance(node.meta["val"], torch.Tensor) for node in bound):
        unsupported(functions[0].code, "a size that no input of the graph tells")  # only tensors
    read |= dict.fromkeys(bound)
    inputs = [node for node in read if node not in last]
    modules = [f.part.close(f.outputs, [*inputs, *last])[0] for f in functions]
    for node in last:
        node.meta["inside"] = True  # it stands for something only while the graphs run
    return modules, [TensorVariable(node, node.meta["val"]) for node in inputs]


def binders(
    evaluator: Evaluator, code: str, symbols: set[sympy.Symbol], inputs: Sequence[Node]
) -> Iterator[Node]:
    """Yield inputs of the whole graph that have the sizes and numbers that the given ones lack."""
    capture, missing = evaluator.capture, symbols - bound_symbols(inputs)
    known = [entry.node for entry in (*capture.inputs, *capture.numbers)]
    capture.size_inputs(missing - bound_symbols(known))
    for node in (entry.node for entry in (*capture.numbers, *capture.inputs)):
        if not missing.isdisjoint(found := bound_symbols([node])):
            missing -= found
            yield node
    if missing:
        unsupported(code, "a size that no input of the graph tells")


def call_graphs(
    evaluator: Evaluator, target: Callable[..., Any], inputs: Sequence[TensorVariable]
) -> list[VariableTracker]:
    """Record a node that calls graphs; return the trackers of its results."""
    made = evaluator.capture.call_in_graph(evaluator, "call_function", target, inputs)
    return made.items(evaluator)
