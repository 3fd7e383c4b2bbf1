"""`torch.utils.checkpoint`: its computation is one node, which runs again in backward."""

from __future__ import annotations

from collections.abc import Iterable

from torch.utils import checkpoint as checkpointing

from minitorch2.bytecode.operators.checkpoint import Checkpoint
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.constant import NONE
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.subgraph import Subgraph, record
from minitorch2.bytecode.trackers.torch_values.recorded import binders, call_graphs
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.effects import is_random, written_by
from minitorch2.graph.fake_tensor import FakeTensor, storage_key
from minitorch2.graph.node import Node


def _results(output: VariableTracker) -> list[VariableTracker]:
    return [*output.realized()] if isinstance(output, TupleVariable | ListVariable) else [output]


def _writes_outside(body: Subgraph) -> bool:
    """Return whether a checkpoint writes to tensors that it has not made, as running statistics."""
    written = (each for node in body.graph.nodes for each in written_by(node))
    return not _memories(body.read()).isdisjoint(_memories(written))


def _memories(nodes: Iterable[Node]) -> set[object]:
    values = (node.meta["val"] for node in nodes)
    return {storage_key(value) for value in values if isinstance(value, FakeTensor)}


@handles(checkpointing.checkpoint)
def checkpoint(
    evaluator: Evaluator,
    function: VariableTracker,
    *args: VariableTracker,
    use_reentrant: VariableTracker = NONE,
    preserve_rng_state: VariableTracker | None = None,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """``checkpoint(function, *args, use_reentrant=False)``: the computation is one node."""
    reentrant = use_reentrant.as_constant() if use_reentrant.is_constant() else None
    if reentrant is None:
        unsupported("checkpoint", "a checkpoint that does not say use_reentrant")
    if reentrant and (kwargs or not any(getattr(arg, "requires_grad", False) for arg in args)):
        unsupported("checkpoint", "a reentrant checkpoint whose arguments do not require grad")
    if kwargs.keys() & {"context_fn", "determinism_check", "debug", "early_stop"}:
        unsupported("checkpoint", "a checkpoint with more options than use_reentrant")
    body = record(evaluator, lambda: function.call(evaluator, list(args), kwargs))
    if _writes_outside(body):
        cause = "a checkpoint writes to a tensor, and does so again in backward"
        unsupported("side-effect-inside", cause, "write outside of it, or leave the break")
    keeps_state = preserve_rng_state is None or preserve_rng_state.truth(evaluator)
    if not keeps_state and any(map(is_random, body.graph.nodes)):
        unsupported("checkpoint", "a checkpoint that draws other random numbers the second time")
    outputs = _results(body.result)
    nodes = [output.node for output in outputs if isinstance(output, TensorVariable)]
    given = body.read(nodes)
    numbers = binders(evaluator, "checkpoint", body.symbols(), given)
    module, inputs = body.close(nodes, [*given, *numbers])
    options = {"use_reentrant": reentrant, "preserve_rng_state": keeps_state}
    taken = [TensorVariable(node, node.meta["val"]) for node in inputs]
    results = iter(call_graphs(evaluator, Checkpoint(module, options), taken))
    values = [next(results) if isinstance(o, TensorVariable) else o for o in outputs]
    if isinstance(body.result, TupleVariable | ListVariable):
        return body.result.make(values)
    return values[0]
