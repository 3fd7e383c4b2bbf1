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
from minitorch2.bytecode.trackers.python_values.constant import literal
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.subgraph import Subgraph, record
from minitorch2.bytecode.trackers.torch_values.symbolic import from_number
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.symbol_nodes import rename
from minitorch2.graph.symbols import expr_of, free_symbols
from minitorch2.graph.symbols.shape_env import map_expressions
from minitorch2.graph.symbols.unbacked import making_symbols
from minitorch2.native.torch_internals.pytree import tree_leaves


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
    evaluator: Evaluator,
    functions: Sequence[Recorded],
    own: Sequence[TensorVariable],
    takes_numbers: bool = False,
) -> tuple[list[GraphModule], list[TensorVariable]]:
    """Return the graphs with the same inputs, and the other nodes they read, which come last.

    All inputs are tensors. With ``takes_numbers``, one of them may hold a number that varies.
    """
    last = [tensor.node for tensor in own]
    read = dict.fromkeys(node for f in functions for node in f.part.read(f.outputs))
    forms = [getattr(node.meta["val"], "shape", ()) for node in (*read, *last)]
    symbols = free_symbols(forms).union(*(f.part.symbols() for f in functions))
    bound = [*binders(evaluator, functions[0].code, symbols, [*read, *last])]
    values = {node: node.meta["val"] for node in bound}
    numbers = {n: expr_of(v) for n, v in values.items() if not isinstance(v, torch.Tensor)}
    inside = tree_leaves([node.meta["val"] for f in functions for node in f.part.graph.nodes])
    sizes = [tuple(value.shape) for value in inside if isinstance(value, torch.Tensor)]
    alone = {e for e in numbers.values() if isinstance(e, sympy.Symbol)} - free_symbols(sizes)
    if numbers and (not takes_numbers or len(alone) < len(numbers)):
        unsupported(functions[0].code, "a size that no input of the graph tells")  # only tensors
    held = {node: _held(evaluator, values[node]) for node in numbers}
    read |= dict.fromkeys(held[node].node if node in held else node for node in bound)
    inputs = [node for node in read if node not in last]
    modules = [f.part.close(f.outputs, [*inputs, *last])[0] for f in functions]
    for number, tensor in held.items():
        with making_symbols(evaluator.capture.sizes.env):
            taken = tensor.fake.item()
        for module in modules:
            _take_out(module, inputs.index(tensor.node), numbers[number], taken)
    for node in last:
        node.meta["inside"] = True  # it stands for something only while the graphs run
    return modules, [TensorVariable(node, node.meta["val"]) for node in inputs]


def _held(evaluator: Evaluator, number: Any) -> Any:
    """Return a tensor that holds a number."""
    dtype = torch.float64 if isinstance(number, torch.SymFloat) else torch.int64
    options = {"dtype": literal(dtype), "device": literal(torch.device("cpu"))}
    call = evaluator.capture.call_in_graph
    return call(evaluator, "call_function", torch.scalar_tensor, [from_number(number)], options)


def _take_out(module: GraphModule, place: int, number: sympy.Symbol, taken: Any) -> None:
    """Let a graph take a number out of its input at ``place``, and read that one."""
    graph, symbol = module.graph, expr_of(taken)
    for node in graph.nodes:
        arguments = (node.args, dict(node.kwargs))
        node.update_args(*map_expressions(arguments, lambda e: e.xreplace({number: symbol})))
    tensor = graph.placeholders[place]
    with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
        made = graph.create_node("call_method", "item", (tensor,))
    made.meta.update(val=taken, symbols=(symbol,), source=tensor.meta.get("source"), inside=True)
    rename(made, str(symbol))
    module.recompile()


def binders(
    evaluator: Evaluator, code: str, symbols: set[sympy.Symbol], inputs: Sequence[Node]
) -> Iterator[Node]:
    """Yield inputs of the whole graph that have the sizes and numbers that the given ones lack."""
    capture, missing = evaluator.capture, symbols - bound_symbols(inputs)
    known = [entry.node for entry in (*capture.inputs, *capture.numbers)]
    capture.size_inputs(missing - bound_symbols(known))
    told = [entry.node for entry in (*capture.numbers, *capture.inputs)]
    for node in (*told, *capture.symbol_nodes.values()):
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
