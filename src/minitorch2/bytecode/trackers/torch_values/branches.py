"""Branches on what a module counts in a tensor: ``if self.updates == 0``.

The number belongs to the model and changes seldom. So a guard computes the truth again from the
buffers, in front of the graph, which serves one side of the branch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import torch

from minitorch2.bytecode.guards.guard import Check
from minitorch2.bytecode.guards.relations import MembersGuard
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.symbols import free_symbols
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.modes import DisableTorchFunction


@dataclass(frozen=True)
class TruthOfBuffers(MembersGuard):
    """A tensor that a graph computes from buffers has this truth."""

    KIND = "TRUTH_OF_BUFFERS"
    code: str
    truth: bool
    compute: GraphModule = field(compare=False, repr=False)

    def checks(self) -> Iterable[Check]:
        return (Check("truth", Op.PYTHON, self.truth, (partial(_truth, self.compute),)),)


def _truth(compute: GraphModule, *buffers: torch.Tensor) -> bool:
    """Return the truth of the only result of a graph."""
    with torch.no_grad(), DisableTorchFunction():
        return bool(compute(*buffers)[0])


def truth_from_buffers(capture: Capture, result: Node) -> bool | None:
    """Return the truth of a tensor, with a guard; None if it is not computed from buffers alone.

    The buffers have one element each, on the CPU, and nothing was written to so far.
    """
    needed = {result}
    for node in reversed(result.graph.nodes):
        needed.update(node.all_input_nodes if node in needed else ())
    nodes = [node for node in result.graph.nodes if node in needed]
    entries = [entry for entry in capture.inputs if entry.node in nodes]
    if not entries or not all(map(_can_be_repeated, nodes)):
        return None
    graph, copies = Graph(), dict[Node, Node]()
    for node in nodes:
        copies[node] = graph.copy_node(node, copies.__getitem__)
        copies[node].meta.clear()
    graph.output((copies[result],))
    compute = GraphModule(graph)
    sources = tuple(entry.source for entry in entries)
    truth = _truth(compute, *(entry.value for entry in entries))
    capture.add_guard(TruthOfBuffers(sources, compute.code, truth, compute))
    return truth


def _can_be_repeated(node: Node) -> bool:
    """Return whether a node is a buffer's number, or computed from such, and never written to."""
    value = node.meta["val"]
    if not isinstance(value, FakeTensor) or value.is_inference() or value.last_write is not None:
        return False
    is_known = node.op != "placeholder" or bool(node.meta.get("buffer"))
    is_plain = not node.meta.get("impure") and not free_symbols((node.args, dict(node.kwargs)))
    return is_known and is_plain and value.numel() == 1 and value.device.type == "cpu"
