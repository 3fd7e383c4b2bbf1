"""Branches and loops that data decides about: functions recorded as graphs, called by one node.

The polyfills of `torch.cond` and its like call `branch`, `loop` and `scan_steps` with functions
whose results are lists of tensors in memory of their own. Here these functions are evaluated into
graphs; what they read from around them become inputs of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from minitorch2.bytecode.polyfills import higher_order as primitives
from minitorch2.bytecode.subgraph import Subgraph, new_input, record
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.effects import is_random, written_by
from minitorch2.graph.fake_tensor import same_storage
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import Cond, HigherOrder, Scan, WhileLoop
from minitorch2.graph.node import Node
from minitorch2.graph.printer import symbol_sizes, type_text
from minitorch2.graph.symbols import bindings, expr_of

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator

_CODE: Final = "higher-order"


@handles(primitives.branch)
def branch(
    evaluator: Evaluator,
    condition: VariableTracker,
    when_true: VariableTracker,
    when_false: VariableTracker,
) -> VariableTracker:
    """`primitives.branch`"""
    assert isinstance(condition, TensorVariable)
    if condition.fake.numel() != 1:
        unsupported(_CODE, "a condition that is no single element")
    functions = [_Recorded(evaluator, f, []) for f in (when_true, when_false)]
    _check_alike("the branches give", functions[0].tensors, functions[1].tensors)
    graphs, read = _closed(evaluator, functions, [])
    made = _call(evaluator, Cond(*graphs), [condition, *read])
    return TupleVariable([ListVariable(made), *(f.structure for f in functions)])


@handles(primitives.loop)
def loop(
    evaluator: Evaluator, goes_on: VariableTracker, step: VariableTracker, carried: VariableTracker
) -> VariableTracker:
    """`primitives.loop`"""
    first = _tensors(carried)
    own = [_stand_in(evaluator, tensor) for tensor in first]
    body = _Recorded(evaluator, step, own)
    condition = _Recorded(evaluator, goes_on, own, has_structure=False)
    _check_alike("what is carried, and what a step gives,", first, body.tensors)
    (after, before), read = _closed(evaluator, [body, condition], own)
    made = _call(evaluator, WhileLoop(after, len(own), 0, before), [*read, *first])
    return TupleVariable([ListVariable(made), body.structure])


@handles(primitives.scan_steps)
def scan_steps(
    evaluator: Evaluator, step: VariableTracker, slices: VariableTracker, carried: VariableTracker
) -> VariableTracker:
    """`primitives.scan_steps`"""
    along, first = _tensors(slices), _tensors(carried)
    lengths = {expr_of(tensor.fake.shape[0]) for tensor in along}
    if len(lengths) != 1 or lengths == {0}:
        unsupported(_CODE, "a scan along nothing, or along dimensions of several lengths")
    parts = [_stand_in(evaluator, tensor, tensor.fake[0]) for tensor in along]
    own = [_stand_in(evaluator, tensor) for tensor in first]
    body = _Recorded(evaluator, step, [ListVariable(parts), ListVariable(own)])
    _check_alike("what is carried, and what a step gives,", first, body.tensors[: len(first)])
    (graph,), read = _closed(evaluator, [body], [*parts, *own])
    made = _call(evaluator, Scan(graph, len(own), len(parts)), [*read, *along, *first])
    return TupleVariable([ListVariable(made), body.structure])


class _Recorded:
    """A function evaluated into a graph.

    Attributes:
        part: the graph; its result is a list of tensors and, unless it is one tensor, a structure.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        function: VariableTracker,
        args: Sequence[VariableTracker],
        has_structure: bool = True,
    ) -> None:
        self.part: Subgraph = record(evaluator, lambda: function.call(evaluator, args, {}))
        result = self.part.result
        self.structure = result
        if has_structure:
            result, self.structure = result.items(evaluator)
        self.tensors = _tensors(result if has_structure else ListVariable([result]))
        _check_effects(self.part)

    @property
    def outputs(self) -> list[Node]:
        """The nodes of the results."""
        return [tensor.node for tensor in self.tensors]


def _tensors(values: VariableTracker) -> list[TensorVariable]:
    assert isinstance(values, ListVariable | TupleVariable)
    found = [value for value in values.realized() if isinstance(value, TensorVariable)]
    if len(found) != len(values.elements):
        unsupported(_CODE, "values that are no tensors are carried, or results")
    return found


def _stand_in(
    evaluator: Evaluator, tensor: TensorVariable, like: torch.Tensor | None = None
) -> TensorVariable:
    """A node for what a step will be given in the place of a tensor."""
    fake: Any = torch.empty_like(tensor.fake if like is None else like)
    return new_input(evaluator, tensor.node.name, fake)


def _check_alike(what: str, one: Sequence[TensorVariable], other: Sequence[TensorVariable]) -> None:
    forms = [[(list(map(expr_of, t.fake.shape)), t.fake.dtype, t.fake.device) for t in each]
             for each in (one, other)]  # fmt: skip
    if forms[0] != forms[1]:
        texts = (", ".join(type_text(t.fake) for t in each) for each in (one, other))
        unsupported(_CODE, f"{what} ({') and ('.join(texts)})")


def _check_effects(part: Subgraph) -> None:
    """A graph may run never or often, and again for its gradient."""
    outside = [node.meta["val"] for node in part.read()]
    for node in part.graph.nodes:
        values = [used.meta["val"] for used in written_by(node)]
        if any(same_storage(value, other) for value in values for other in outside):
            unsupported(_CODE, f"{node.name} writes to a tensor from outside")
        if is_random(node) and any(value.requires_grad for value in outside):
            unsupported(_CODE, f"{node.name} draws random numbers where gradients are needed")


def _closed(
    evaluator: Evaluator, functions: Sequence[_Recorded], own: Sequence[TensorVariable]
) -> tuple[list[GraphModule], list[TensorVariable]]:
    """The graphs with the same inputs, and what they read besides their own."""
    last = [tensor.node for tensor in own]
    read = dict.fromkeys(node for f in functions for node in f.part.read(f.outputs))
    symbols = set().union(*(f.part.symbols() for f in functions))
    read |= dict.fromkeys(_binders(evaluator, symbols, [*read, *last]))
    inputs = [node for node in read if node not in last]
    modules = [f.part.close(f.outputs, [*inputs, *last])[0] for f in functions]
    return modules, [TensorVariable(node, node.meta["val"]) for node in inputs]


def _binders(
    evaluator: Evaluator, symbols: set[sympy.Symbol], inputs: Sequence[Node]
) -> Iterator[Node]:
    """Inputs of the whole graph that have the sizes that the given ones do not have."""
    missing = symbols - _bound(inputs)
    for node in (entry.node for entry in evaluator.capture.inputs):
        if not missing.isdisjoint(found := _bound([node])):
            missing -= found
            yield node
    if missing:
        unsupported(_CODE, "a size that no input of the graph tells")


def _bound(nodes: Sequence[Node]) -> set[sympy.Symbol]:
    return {symbol for symbol, _ in bindings(size for n in nodes for size in symbol_sizes(n))}


def _call(
    evaluator: Evaluator, target: HigherOrder, inputs: Sequence[TensorVariable]
) -> list[VariableTracker]:
    return evaluator.capture.call_in_graph(evaluator, "call_function", target, inputs).items(
        evaluator
    )
