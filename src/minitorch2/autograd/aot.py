"""From a captured graph to a function: trace, partition, compile, run.

PyTorch's counterpart is AOTAutograd (PyTorch 2 paper, section 3.9). It works on any graph, so each
graph of a program with graph breaks gets its own forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from minitorch2 import config, stages
from minitorch2.autograd.decompositions import DECOMPOSITIONS, REQUIRED_DECOMPOSITIONS
from minitorch2.autograd.decompositions.randomness import RANDOM_DECOMPOSITIONS
from minitorch2.autograd.drawing import draw_cut
from minitorch2.autograd.frozen import FrozenProgram
from minitorch2.autograd.joint import TracedProgram, trace_program
from minitorch2.autograd.layouts import memory_order
from minitorch2.autograd.lift import lift_attributes
from minitorch2.autograd.partition import Partition, Partitioner, min_cut_partition
from minitorch2.autograd.runtime import (
    Compiler,
    FunctionPlan,
    Layout,
    LazilyCompiled,
    inference_runner,
    picker,
    training_runner,
    without_autocast,
    without_grad,
)
from minitorch2.autograd.second_derivatives import EagerGradients
from minitorch2.autograd.trace import Decompositions
from minitorch2.compile_lock import COMPILING
from minitorch2.errors import BackendError
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.pipeline import run_passes
from minitorch2.graph.verify import verify


def aot_autograd(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    forward_compiler: Compiler,
    backward_compiler: Compiler | None = None,
    inference_compiler: Compiler | None = None,
    partition: Partitioner = min_cut_partition,
    decompositions: Mapping[Any, Callable[..., Any]] = DECOMPOSITIONS,
) -> Callable[..., Sequence[Any]]:
    """Compile a captured graph with its gradients.

    Args:
        module: the graph; may call anything that runs on fake tensors, may mutate and alias.
        example_inputs: one value per placeholder; tensors tell shapes, strides and requires_grad.
        forward_compiler: compiles the forward graph of a differentiated program.
        backward_compiler: compiles the backward graph when first needed (default:
        forward_compiler).
        inference_compiler: compiles a graph without gradients (default: forward_compiler).
        partition: splits the joint graph.
        decompositions: operators to express by others while tracing.

    Returns: a function of the same inputs with the same results, effects and aliases.

    Raises UnsupportedError where the program cannot be traced (it needs data, or writes to
    overlapping inputs), and what the compilers raise.
    """
    compile_program = partial(
        _compile_program,
        forward_compiler=forward_compiler,
        backward_compiler=backward_compiler or forward_compiler,
        inference_compiler=inference_compiler or forward_compiler,
        partition=partition,
        decompositions=decompositions,
    )
    if config.current().freezing and not torch.is_grad_enabled():
        return FrozenProgram(module, example_inputs, compile_program)
    return compile_program(module, example_inputs)


def _compile_program(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    forward_compiler: Compiler,
    backward_compiler: Compiler,
    inference_compiler: Compiler,
    partition: Partitioner,
    decompositions: Mapping[Any, Callable[..., Any]],
) -> Callable[..., Sequence[Any]]:
    rewritten = module.copy()
    run_passes("pre_grad", rewritten)
    lifted, attributes = lift_attributes(rewritten)
    examples = [*example_inputs, *attributes]
    differentiate = torch.is_grad_enabled() and any(_requires_grad(value) for value in examples)
    drawn = {} if config.current().fallback_random else RANDOM_DECOMPOSITIONS
    table = {**REQUIRED_DECOMPOSITIONS, **drawn, **decompositions}
    with COMPILING:
        with stages.phase("joint"):
            program = trace_program(lifted, examples, table, differentiate=differentiate)
        if program.has_backward:
            # As captured: what was fused may be an operator without a second derivative.
            again = EagerGradients(lift_attributes(module)[0], program)
            run = _training(program, partition, forward_compiler, backward_compiler, again)
        else:
            run = _inference(program, inference_compiler, detached=differentiate)
    run = _with_same_duplicates(run, examples, bool(program.epilogue.mutations))
    run = _called_as_before(run, program, attributes)
    run.writes_last = True  # type: ignore[attr-defined]  # the epilogue writes to the inputs
    return run


def _with_same_duplicates(
    run: Callable[..., Sequence[Any]], examples: list[Any], mutates: bool
) -> Callable[..., Sequence[Any]]:
    """Check at each call that inputs which were one tensor still are, and that no others are now.

    Only needed where that matters: some were, or the program writes to an input.
    """
    tensors = picker([i for i, e in enumerate(examples) if isinstance(e, torch.Tensor)])
    pattern = _repeats(tensors(examples))
    if not mutates and pattern == (*range(len(pattern)),):
        return run

    def checked(*inputs: Any) -> Sequence[Any]:
        if _repeats(tensors(inputs)) != pattern:
            raise BackendError(
                "the graph was compiled for inputs that repeat in another way",
                code="aliasing-changed",
                fix="compile again for inputs of which the same ones are the same tensor",
            )
        return run(*inputs)

    return checked


def _repeats(values: Sequence[Any]) -> tuple[int, ...]:
    """For each value, the position where the same object first occurs."""
    first: dict[int, int] = {}
    return (*map(first.setdefault, map(id, values), count()),)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _inference(
    program: TracedProgram, compiler: Compiler, *, detached: bool
) -> Callable[..., Sequence[Any]]:
    """``detached``: inputs require gradients, but no result depends on them differentiably."""
    run_passes("post_grad", program.module)
    _record("aten graph", program.module)
    _mark_written(program)
    call = without_autocast(compiler(program.module, _example_values(program.module)))
    call = without_grad(call) if detached else call
    return inference_runner(call, program.epilogue, program.forward_outputs)


def _mark_written(program: TracedProgram) -> None:
    """Say which output each argument becomes: a compiler may compute it in the argument's memory.

    A recorded graph reads copies of its arguments, and one that is checked may fail at its end.
    """
    options = config.current()
    if options.cudagraphs or options.assert_no_nan:
        return
    for mutation in program.epilogue.mutations:
        node = program.module.graph.placeholders[mutation.input_index]
        is_whole = not mutation.views and memory_order(node.meta["val"]) is not None
        if is_whole and not mutation.differentiable:
            node.meta["becomes"] = mutation.output_index


def _training(
    program: TracedProgram,
    partition: Partitioner,
    forward_compiler: Compiler,
    backward_compiler: Compiler,
    again: EagerGradients,
) -> Callable[..., Sequence[Any]]:
    _record("joint graph", program.module)
    with stages.phase("partition"):
        parts = partition(program)
    run_passes("post_grad", parts.forward)
    run_passes("post_grad", parts.backward)
    _record("forward graph", parts.forward)
    _record("backward graph", parts.backward)
    if stages.wanted("cut.dot"):
        stages.record("cut.dot", draw_cut(parts))
    forward = without_autocast(forward_compiler(parts.forward, _example_values(parts.forward)))
    backward = LazilyCompiled(backward_compiler, parts.backward)
    return training_runner(_plan(program, parts, again), forward, backward, program.epilogue)


def _plan(program: TracedProgram, parts: Partition, again: EagerGradients) -> FunctionPlan:
    placeholders = program.module.graph.placeholders
    saved = parts.backward.graph.placeholders[: len(parts.saved)]
    return FunctionPlan(
        program.inputs,
        program.forward_outputs,
        parts.saved,
        tuple(i for i, n in enumerate(saved) if not isinstance(n.meta["val"], torch.Tensor)),
        program.tangent_outputs,
        tuple(Layout.of(node.meta["val"]) for node in placeholders[program.inputs :]),
        program.tangents_read(),
        again,
    )


def _example_values(module: GraphModule) -> list[Any]:
    return [node.meta.get("val") for node in module.graph.placeholders]


def _record(name: str, module: GraphModule) -> None:
    if config.current().verify:
        verify(module)
    if stages.wanted(f"{name}.py"):
        stages.record(f"{name}.py", module.code)


def _called_as_before(
    run: Callable[..., Sequence[Any]], program: TracedProgram, attributes: list[torch.Tensor]
) -> Callable[..., Sequence[Any]]:
    """Pass lifted attributes along, and give results the structure that the graph's output has."""
    flat = program.output_spec.is_leaf() or all(s.is_leaf() for s in program.output_spec.children())
    if flat and not attributes and program.output_spec.type in (tuple, list):
        return run
    spec = program.output_spec

    def call(*inputs: Any) -> Any:
        return tree_unflatten(run(*inputs, *attributes), spec)

    return call


__all__ = ["Compiler", "Decompositions", "LazilyCompiled", "aot_autograd"]
