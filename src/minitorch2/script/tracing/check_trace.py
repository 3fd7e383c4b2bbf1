"""The check of a trace: it is recorded again, and what the function reaches is compared.

A difference between two traces of the same inputs is not due to the inputs: random numbers of
Python, the order of a set, the time, a counter. A change in the function's
surroundings was written by the function, and a trace would not write it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch

from minitorch2.errors import MinitorchWarning, TraceError
from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.syntax.source import SourceRange
from minitorch2.script.tracing.structure import data_of
from minitorch2.script.tracing.surroundings import (
    changes,
    first_line,
    generator_states,
    line_with,
    reached,
)


@dataclass(frozen=True)
class Recorded:
    """A trace with what it is compared with.

    Attributes:
        trace: has the graph.
        data: what the function returned while it was recorded.
        eager: calls the function without recording.
    """

    trace: Any
    data: Any
    eager: Callable[[], Any]


def check(
    function: Callable[..., Any], recorded: Recorded, again: Callable[[], Recorded], strict: bool
) -> None:
    """Record a function again, run it without recording, and compare.

    Args:
        function: what was traced.
        recorded: its trace.
        again: records it once more.
        strict: raise where something differs; else warn.

    Raises:
        TraceError: the traces differ, or the function writes to what it reaches.
    """
    found = next(differences(function, recorded, again), None)
    if found is not None and strict:
        raise found
    if found is not None:
        warnings.warn(str(found), MinitorchWarning, stacklevel=3)


def differences(
    function: Callable[..., Any], recorded: Recorded, again: Callable[[], Recorded]
) -> Iterator[TraceError]:
    """Yield what makes a trace wrong, the cause that is told apart best first."""
    before, generators = reached(function), generator_states()
    graph = again().trace.graph
    if generator_states() != generators:
        yield _write(function, "random", "draws random numbers of Python or NumPy")
    for name in changes(before, reached(function)):
        yield _write(function, name)
    difference = first_difference(recorded.trace.graph, graph)
    if difference is not None:
        yield difference
    if not is_close(data_of(recorded.eager()), recorded.data):
        yield TraceError(
            "the function computes something else while it is recorded",
            code="trace-differs",
            fix="do not ask for the type of a size, which is symbolic there",
            user_line=first_line(function),
        )


def is_close(a: Any, b: Any) -> bool:
    """Return whether results are equal, except for rounding."""
    try:
        torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)
    except AssertionError:
        return False
    return True


def _write(function: Callable[..., Any], name: str, verb: str = "") -> TraceError:
    return TraceError(
        f"the traced function {verb or f'changes {name}'}, which a graph does not do",
        code="trace-writes",
        fix="return the new value, or script the function",
        user_line=line_with(function, name),
    )


def first_difference(graph: Graph, other: Graph) -> TraceError | None:
    """Return an error that names the first operator where two traces differ; None if none does."""
    for place, (node, its) in enumerate(zip_longest(operators(graph), operators(other))):
        if node is None or its is None or _key(node) != _key(its):
            return TraceError(
                f"two traces of the same inputs differ in operator {place}:\n"
                f"  {_described(node)}\n  {_described(its)}",
                code="traces-differ",
                fix="make the number an argument, or a tensor that PyTorch's operators compute",
            )
    return None


def operators(graph: Graph) -> Iterator[Node]:
    """Yield the nodes that compute something, in order; constants belong to their readers."""
    return (node for node in graph.nodes() if node.kind != "prim::Constant")


def _key(node: Node) -> Any:
    constants = [_constant_key(node, place) for place in range(len(node.inputs))]
    return node.kind, node.range, constants, node.attributes.get("name")


def _constant_key(node: Node, place: int) -> Any:
    value = node.constant(place)
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype, value.detach().cpu().numpy().tobytes()
    return repr(value)


def _described(node: Node | None) -> str:
    """Return an operator with its constants and its place."""
    if node is None:
        return "the trace has ended"
    source = node.inputs
    constants = [
        repr(v.node.attributes["value"]) for v in source if v.node.kind == "prim::Constant"
    ]
    where: SourceRange = node.range
    return f"{node.kind}({', '.join(constants)}) at {where.file.name}:{where.line}: {where.text()}"
