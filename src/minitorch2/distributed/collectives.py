"""Collectives as operators of a graph: the functions that capture evaluates in their place.

A collective is two nodes. One starts it, the other waits for its result::

    collective ::= start, wait
    start      ::= torch.ops._c10d_functional.NAME(tensor, ..., name of the group)
    wait       ::= torch.ops._c10d_functional.wait_tensor(start)

Functions that write to their argument start with a copy of it, and write the result into it when it
has come. They leave gradients alone, as the eager ones do: a write is nothing to differentiate.
Functions that return new tensors have the derivatives that PyTorch has registered for them.

Importing this module marks the functions, and registers the pass `overlap_collectives` and the
lowering of waits. Capture imports it in a process that belongs to a job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist

from minitorch2.distributed import lowering_of_waits
from minitorch2.distributed.groups import name_of, rank_in, rank_of, size_of
from minitorch2.distributed.overlap_collectives import overlap_collectives
from minitorch2.graph.pipeline import register_pass
from minitorch2.loopir.lowering.registry import lowering
from minitorch2.marks.controls import Substituted, assume_constant_result, graph_break, mark
from minitorch2.native.torch_internals.collectives import functional

start = torch.ops._c10d_functional
wait_tensor = start.wait_tensor

# Functions that return new tensors ----------------------------------------------------------------


def wait(tensor: torch.Tensor) -> torch.Tensor:
    """Return the result of a collective when it has come."""
    return wait_tensor(tensor)  # type: ignore[no-any-return]


def all_reduce(self: torch.Tensor, reduceOp: str, group: Any, tag: str = "") -> torch.Tensor:
    """Return the reduction of all ranks' tensors."""
    return wait(start.all_reduce(self, reduceOp.lower(), name_of(group, tag)))


def broadcast(self: torch.Tensor, src: int, group: Any, tag: str = "") -> torch.Tensor:
    """Return the tensor of one rank."""
    return wait(start.broadcast(self, src, name_of(group, tag)))


def all_gather(self: torch.Tensor, gather_dim: int, group: Any, tag: str = "") -> torch.Tensor:
    """Return the tensors of all ranks, one behind the other in a dimension."""
    name = name_of(group, tag)
    size = size_of(group, tag)
    gathered = wait(start.all_gather_into_tensor(self, size, name))
    return gathered if gather_dim == 0 else torch.cat(gathered.chunk(size), gather_dim)


def reduce_scatter(
    self: torch.Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> torch.Tensor:
    """Return this rank's part, in a dimension, of the reduction of all ranks' tensors."""
    name = name_of(group, tag)
    size = size_of(group, tag)
    if self.size(scatter_dim) % size != 0:
        graph_break("the size does not divide by the number of ranks")
    if scatter_dim != 0:
        self = torch.cat(self.chunk(size, scatter_dim))
    return wait(start.reduce_scatter_tensor(self, reduceOp.lower(), size, name))


def all_to_all_single(
    self: torch.Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> torch.Tensor:
    """Return the parts that all ranks have for this one: rows, as many as the sizes say."""
    name = name_of(group, tag)
    if input_split_sizes is None and output_split_sizes is None:
        size = size_of(group, tag)
        output_split_sizes = input_split_sizes = [self.shape[0] // size] * size
    return wait(start.all_to_all_single(self, output_split_sizes, input_split_sizes, name))


def all_reduce_coalesced(
    self: Sequence[torch.Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[torch.Tensor]:
    """Return the reductions of several tensors, in one collective."""
    started = start.all_reduce_coalesced(self, reduceOp.lower(), name_of(group, tag))
    return [wait(each) for each in started]


FUNCTIONAL: Final[dict[str, Callable[..., Any]]] = {
    "wait_tensor": wait,
    "all_reduce": all_reduce,
    "broadcast": broadcast,
    **dict.fromkeys(["all_gather_tensor", "all_gather_single"], all_gather),
    **dict.fromkeys(["all_gather_tensor_autograd", "all_gather_single_autograd"], all_gather),
    **dict.fromkeys(["reduce_scatter_tensor", "reduce_scatter_single"], reduce_scatter),
    "reduce_scatter_tensor_autograd": reduce_scatter,
    "reduce_scatter_single_autograd": reduce_scatter,
    **dict.fromkeys(["all_to_all_single", "all_to_all_single_autograd"], all_to_all_single),
    "all_reduce_coalesced": all_reduce_coalesced,
}
"""The functions of PyTorch that these stand for, by name; versions differ in which there are."""

# Functions that write to an argument --------------------------------------------------------------


@assume_constant_result
def name_of_reduction(op: Any) -> str:
    """Return a reduction's name as operators have it; a number to multiply with has none."""
    return str(op).rpartition(".")[2].lower()


@assume_constant_result
def has_name(op: Any) -> bool:
    """Return whether a reduction is one of those with a name and without a number."""
    return isinstance(op, dist.ReduceOp.RedOpType)


def must_break(group: Any, async_op: bool, op: Any = dist.ReduceOp.SUM) -> bool:
    """Return whether Python must make a call: it gives a handle, or is not of this rank."""
    return async_op or rank_of(group) < 0 or not has_name(op)


def write(target: torch.Tensor, result: torch.Tensor) -> None:
    """Write a result into an argument, past the gradients."""
    with torch.no_grad():
        target.copy_(result)


def all_reduce_into(
    tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> None:
    """Write the reduction of all ranks' tensors to the tensor."""
    group = group or dist.group.WORLD
    if must_break(group, async_op, op):
        graph_break("a handle is asked for, or the reduction has no name")
    write(tensor, all_reduce(tensor.detach(), name_of_reduction(op), group))


def broadcast_into(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> None:
    """Write the tensor of one rank to that of all."""
    group = group or dist.group.WORLD
    source = group_src if src is None else rank_in(group, src)
    if source is None or must_break(group, async_op):
        graph_break("a handle is asked for, or there is no source")
    else:
        write(tensor, broadcast(tensor.detach(), source, group))


def all_gather_into(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: Any = None,
    async_op: bool = False,
) -> None:
    """Write the tensors of all ranks to a tensor, in which they follow or are stacked."""
    group = group or dist.group.WORLD
    if must_break(group, async_op):
        graph_break("a handle is asked for")
    gathered = all_gather(input_tensor.detach(), 0, group)
    write(output_tensor, gathered.view(output_tensor.shape))


def reduce_scatter_into(
    output: torch.Tensor,
    input: torch.Tensor,
    op: Any = dist.ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> None:
    """Write this rank's part of the reduction of all ranks' tensors to a tensor."""
    group = group or dist.group.WORLD
    if must_break(group, async_op, op):
        graph_break("a handle is asked for, or the reduction has no name")
    rows = input.detach().view(-1, *output.shape[1:])
    write(output, reduce_scatter(rows, name_of_reduction(op), 0, group))


def get_rank(group: Any = None) -> int:
    """Return the number of this process in a group."""
    return rank_of(group or dist.group.WORLD)


def get_world_size(group: Any = None) -> int:
    """Return the number of processes of a group."""
    return size_of(group or dist.group.WORLD)


IN_PLACE: Final[dict[str, Callable[..., Any]]] = {
    "get_rank": get_rank,
    "get_world_size": get_world_size,
    "all_reduce": all_reduce_into,
    "broadcast": broadcast_into,
    **dict.fromkeys(["all_gather_into_tensor", "all_gather_single"], all_gather_into),
    **dict.fromkeys(["reduce_scatter_tensor", "reduce_scatter_single"], reduce_scatter_into),
}
"""The functions of `torch.distributed` that these stand for."""


def substitute(module: Any, bodies: dict[str, Callable[..., Any]]) -> None:
    """Let capture evaluate bodies in place of the functions that a module has."""
    for name, body in bodies.items():
        if hasattr(module, name):
            mark(getattr(module, name), Substituted(body))


substitute(functional, FUNCTIONAL)
substitute(dist, IN_PLACE)
register_pass("post_grad")(overlap_collectives)
lowering(wait_tensor.default)(lowering_of_waits.wait_tensor)
