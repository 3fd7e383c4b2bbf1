"""Compile a Python function of tensors through the autograd layer alone, and compare it with eager.

``check`` compares values, strides, requires_grad, mutations of inputs, memory shared between inputs
and results, the random generator's use, and gradients.
"""

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from minitorch2.autograd import (
    DECOMPOSITIONS,
    Partition,
    TracedProgram,
    aot_autograd,
    min_cut_partition,
    trace_program,
)
from minitorch2.autograd.runtime import run_as_it_is
from minitorch2.graph import Graph, GraphModule
from minitorch2.graph.verify import verify

Program = Callable[..., Any]


def graph_of(program: Program, inputs: int) -> GraphModule:
    """A graph with one node that calls the Python function."""
    graph = Graph()
    names = [
        p.name
        for p in inspect.signature(program).parameters.values()
        if p.kind == p.POSITIONAL_OR_KEYWORD
    ]
    names += [f"input_{i}" for i in range(len(names), inputs)]
    graph.output(
        graph.call_function(program, tuple(graph.placeholder(name) for name in names[:inputs]))
    )
    return GraphModule(graph)


def verified(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
    """A compiler that checks the graph it gets: valid, functional, with a value on each node."""
    verify(gm)
    for node in gm.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable, node.target
        assert node.op == "output" or "val" in node.meta, node
    return run_as_it_is(gm, example_inputs)


def compiled(program: Program, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    options.setdefault("forward_compiler", verified)
    return aot_autograd(graph_of(program, len(inputs)), list(inputs), **options)


def joint_of(program: Program, inputs: Sequence[Any], differentiate: bool = True) -> TracedProgram:
    module = graph_of(program, len(inputs))
    return trace_program(module, list(inputs), DECOMPOSITIONS, differentiate=differentiate)


def partition_of(
    program: Program,
    inputs: Sequence[Any],
    how: Callable[[TracedProgram], Partition] = min_cut_partition,
) -> Partition:
    return how(joint_of(program, inputs))


def operators(module: GraphModule) -> list[str]:
    """The short names of what a graph calls, in order."""
    calls = [n for n in module.graph.nodes if n.op == "call_function"]
    return [
        n.target._schema.name.split("::")[1]
        if isinstance(n.target, torch._ops.OpOverload)
        else n.target.__name__
        for n in calls
    ]


def copies(inputs: Sequence[Any]) -> list[Any]:
    return [
        x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
        for x in inputs
    ]


def check(program: Program, inputs: Sequence[Any], tolerance: float = 1e-5, **options: Any) -> None:
    ours, theirs = copies(inputs), copies(inputs)
    run = compiled(program, copies(inputs), **options)
    torch.manual_seed(5)
    expected = program(*theirs)
    state = torch.get_rng_state()
    torch.manual_seed(5)
    got = run(*ours)
    assert torch.equal(state, torch.get_rng_state()), "the random generator was used otherwise"
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        same(a, b, tolerance)
    for a, b in zip(ours, theirs, strict=True):
        same(a, b, tolerance)
    assert relations(ours, got) == relations(theirs, expected)
    assert written(theirs) <= written(ours)
    compare_gradients(ours, got, theirs, expected, tolerance)


def same(a: Any, b: Any, tolerance: float) -> None:
    if not isinstance(b, torch.Tensor):
        assert a == b
        return
    torch.testing.assert_close(
        a, b, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=True
    )
    assert a.requires_grad == b.requires_grad
    assert a.is_leaf == b.is_leaf, "one has a history of its own, the other has none"


def relations(inputs: Sequence[Any], results: Sequence[Any]) -> dict[Any, Any]:
    """Which pairs of tensors live in one memory, and how far apart."""
    values = [*inputs, *results]
    tensors = [(i, t) for i, t in enumerate(values) if isinstance(t, torch.Tensor) and t.numel()]
    return {
        (i, j): b.data_ptr() - a.data_ptr()
        for (i, a), (j, b) in itertools.combinations(tensors, 2)
        if a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    }


def written(inputs: Sequence[Any]) -> set[int]:
    """The inputs that autograd knows to have been written to."""
    return {i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x._version > 0}


def compare_gradients(
    ours: Sequence[Any],
    got: Sequence[Any],
    theirs: Sequence[Any],
    expected: Sequence[Any],
    tolerance: float,
) -> None:
    def differentiable(values: Sequence[Any]) -> list[torch.Tensor]:
        return [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]

    if not differentiable(expected):
        return
    tangents = [torch.randn_like(v) for v in differentiable(expected)]
    torch.autograd.backward(differentiable(got), tangents)
    torch.autograd.backward(differentiable(expected), [t.clone() for t in tangents])
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, torch.Tensor) and b.requires_grad and b.is_leaf:
            if b.grad is None:
                assert a.grad is None or not a.grad.any()
            else:
                torch.testing.assert_close(
                    a.grad, b.grad, rtol=tolerance, atol=tolerance, equal_nan=True
                )
