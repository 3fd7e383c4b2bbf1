"""Branches and loops that data decides about: functions recorded as graphs, called by one node.

The polyfills of `torch.cond` and its like call `branch`, `loop` and `scan_steps` with functions
whose results are lists of tensors in memory of their own. Here these functions are evaluated into
graphs. The values that they read from around them become inputs of the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from minitorch2.bytecode.polyfills import higher_order as primitives
from minitorch2.bytecode.trackers.base import Arguments, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.subgraph import Subgraph, new_input
from minitorch2.bytecode.trackers.torch_values.recorded import (
    Recorded,
    call_graphs,
    closed,
    tensors_of,
)
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.higher_order import Cond, Scan, WhileLoop
from minitorch2.graph.printer import type_text
from minitorch2.graph.symbols import expr_of

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
    functions = [_evaluated(evaluator, f, []) for f in (when_true, when_false)]
    _check_alike("the branches give", functions[0].tensors, functions[1].tensors)
    graphs, read = closed(evaluator, functions, [], True)
    made = call_graphs(evaluator, Cond(*graphs), [condition, *read])
    return TupleVariable([ListVariable(made), *(f.structure for f in functions)])


@handles(primitives.loop)
def loop(
    evaluator: Evaluator, goes_on: VariableTracker, step: VariableTracker, carried: VariableTracker
) -> VariableTracker:
    """`primitives.loop`"""
    first = tensors_of(_CODE, carried)
    own = [_stand_in(evaluator, tensor) for tensor in first]
    body = _evaluated(evaluator, step, own)
    condition = _evaluated(evaluator, goes_on, own, has_structure=False)
    _check_alike("what is carried, and what a step gives,", first, body.tensors)
    (after, before), read = closed(evaluator, [body, condition], own, True)
    made = call_graphs(evaluator, WhileLoop(after, len(own), 0, before), [*read, *first])
    return TupleVariable([ListVariable(made), body.structure])


@handles(primitives.scan_steps)
def scan_steps(
    evaluator: Evaluator, step: VariableTracker, slices: VariableTracker, carried: VariableTracker
) -> VariableTracker:
    """`primitives.scan_steps`"""
    along, first = tensors_of(_CODE, slices), tensors_of(_CODE, carried)
    lengths = {expr_of(tensor.fake.shape[0]) for tensor in along}
    if len(lengths) != 1 or lengths == {0}:
        unsupported(_CODE, "a scan along nothing, or along dimensions of several lengths")
    parts = [_stand_in(evaluator, tensor, tensor.fake[0]) for tensor in along]
    own = [_stand_in(evaluator, tensor) for tensor in first]
    body = _evaluated(evaluator, step, [ListVariable(parts), ListVariable(own)])
    _check_alike("what is carried, and what a step gives,", first, body.tensors[: len(first)])
    (graph,), read = closed(evaluator, [body], [*parts, *own], True)
    made = call_graphs(evaluator, Scan(graph, len(own), len(parts)), [*read, *along, *first])
    return TupleVariable([ListVariable(made), body.structure])


def _evaluated(
    evaluator: Evaluator, function: VariableTracker, args: Arguments, has_structure: bool = True
) -> Recorded:
    found = Recorded(evaluator, _CODE, function, args, has_structure)
    _check_effects(found.part)
    return found


def _stand_in(
    evaluator: Evaluator, tensor: TensorVariable, like: torch.Tensor | None = None
) -> TensorVariable:
    """Return a node for the value that a step is given in the place of a tensor."""
    fake: Any = torch.empty_like(tensor.fake if like is None else like)
    return new_input(evaluator, tensor.node.name, fake)


def _check_alike(what: str, one: Sequence[TensorVariable], other: Sequence[TensorVariable]) -> None:
    forms = [[(list(map(expr_of, t.fake.shape)), t.fake.dtype, t.fake.device) for t in each]
             for each in (one, other)]  # fmt: skip
    if forms[0] != forms[1]:
        texts = (", ".join(type_text(t.fake) for t in each) for each in (one, other))
        unsupported(_CODE, f"{what} ({') and ('.join(texts)})")


def _check_effects(part: Subgraph) -> None:
    """Refuse effects: a graph may run never or often, and again for its gradient."""
    needs_gradients = any(node.meta["val"].requires_grad for node in part.read())
    part.check_repeatable(_CODE, "where gradients are needed" if needs_gradients else None)
