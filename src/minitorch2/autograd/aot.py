"""From a captured graph to a function: trace, partition, compile, run.

PyTorch's counterpart is AOTAutograd (PyTorch 2 paper, section 3.9). It works on any graph, so each
graph of a program with graph breaks gets its own forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import torch

from minitorch2 import config, stages
from minitorch2.autograd.compiled_program import CompiledProgram, repeats
from minitorch2.autograd.decompositions import DECOMPOSITIONS, REQUIRED_DECOMPOSITIONS
from minitorch2.autograd.decompositions.randomness import RANDOM_DECOMPOSITIONS
from minitorch2.autograd.drawing import draw_cut
from minitorch2.autograd.frozen import FrozenProgram
from minitorch2.autograd.joint import TracedProgram, trace_program
from minitorch2.autograd.lift import lift_attributes
from minitorch2.autograd.partition import Partitioner, min_cut_partition, split_block
from minitorch2.autograd.plan import FunctionPlan, ProgramPlan, Repetition, tensor_positions
from minitorch2.autograd.runtime import Compiler, LazilyCompiled, compile_backward, joined
from minitorch2.autograd.trace import Decompositions
from minitorch2.autograd.wrappers import WrappedGradient, on_plain_tensors
from minitorch2.errors import UnsupportedError
from minitorch2.foundation.compile_lock import COMPILING
from minitorch2.graph.compiled_graph import BoxedCall, compiled_graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.history import enables_gradients
from minitorch2.graph.memory_order import memory_order
from minitorch2.graph.passes.simplify_sizes import settle_sizes
from minitorch2.graph.pipeline import run_passes
from minitorch2.graph.verify import verify
from minitorch2.graph.wrapper_tensors import is_wrapper
from minitorch2.logs import get_logger
from minitorch2.native.torch_internals.modes import DisableTorchFunction

_LOGGER = get_logger(__name__)


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
    return _on_plain_tensors(module, example_inputs, partial(_compile, compile_program), {})


def _on_plain_tensors(
    module: GraphModule,
    example_inputs: Sequence[Any],
    compile: Callable[..., Any],
    gradients: dict[int, WrappedGradient],
) -> Callable[..., Sequence[Any]]:
    """Compile a program whose tensors may be wrappers of plain tensors.

    Tracing finds out whether a gradient is a wrapper; then the program is compiled once more.
    """
    plain = on_plain_tensors(module, example_inputs, gradients)
    try:
        if plain is None:
            return compile(module, example_inputs)  # type: ignore[no-any-return]
        return plain.around(compile(plain.module, plain.open(example_inputs)))
    except NotImplementedError as error:
        if plain is None:
            raise
        cause = f"a class of tensors made of others has no {error}"
        raise UnsupportedError(cause, code="tensor-subclass") from error
    except WrappedGradient as found:
        index = found.index if plain is None else plain.input_of(found.index)
        if index in gradients or not found.is_fixed():
            raise
        return _on_plain_tensors(module, example_inputs, compile, {**gradients, index: found})


def _compile(
    compile_program: Callable[..., Any], module: GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Sequence[Any]]:
    is_inference = not (torch.is_grad_enabled() or enables_gradients(module.graph))
    if config.current().freezing and is_inference:
        return FrozenProgram(module, example_inputs, compile_program)
    return compile_program(module, example_inputs)  # type: ignore[no-any-return]


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
    if not any(is_wrapper(node.meta.get("val")) for node in module.graph.nodes):
        run_passes("pre_grad", rewritten)  # rules are about what operators do with plain tensors
    lifted, attributes = lift_attributes(rewritten)
    examples = [*example_inputs, *attributes]
    is_enabled = torch.is_grad_enabled() or enables_gradients(lifted.graph)
    differentiate = is_enabled and any(requires_grad(value) for value in examples)
    drawn = {} if config.current().fallback_random else RANDOM_DECOMPOSITIONS
    table = {**REQUIRED_DECOMPOSITIONS, **drawn, **decompositions}
    with COMPILING:
        with stages.phase("joint"):
            split = partial(split_block, partition)
            program = trace_program(
                lifted, examples, table, differentiate=differentiate, split=split
            )
        plan = _plan(program, examples, detached=differentiate and not program.has_backward)
        if program.has_backward:
            requiring = {i for i, value in enumerate(examples) if requires_grad(value)}
            compiled = _training(
                program, plan, partition, forward_compiler, backward_compiler, requiring
            )
        else:
            compiled = _inference(program, plan, inference_compiler)
    return compiled.linked(module, attributes)


def _plan(program: TracedProgram, examples: Sequence[Any], *, detached: bool) -> ProgramPlan:
    """Return the plan around the graphs, without the parts that depend on the minimum cut."""
    tensors = tensor_positions(examples)
    spec = program.output_spec
    is_flat = spec.type in (tuple, list) and all(part.is_leaf() for part in spec.children())
    return ProgramPlan(
        program.forward_outputs,
        program.epilogue,
        tensors,
        repeats([examples[i] for i in tensors]),
        None if is_flat else spec,
        detached,
        tuple(program.spent.items()),
    )


def requires_grad(value: Any) -> bool:
    """Return whether a value is a tensor whose gradient is recorded."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def _inference(program: TracedProgram, plan: ProgramPlan, compiler: Compiler) -> CompiledProgram:
    run_passes("post_grad", program.module)
    _record("aten graph", program.module)
    _mark_written(program)
    return CompiledProgram(plan, _compiled(compiler, program.module))


def _compiled(compiler: Compiler, module: GraphModule) -> BoxedCall:
    """Return a compiled aten graph; a default device does not affect the compiler's own tensors."""
    settle_sizes(module)
    with DisableTorchFunction():
        examples = [node.meta.get("val") for node in module.graph.placeholders]
        return compiled_graph(compiler(module, examples)).call


def _mark_written(program: TracedProgram) -> None:
    """Say which output each argument becomes: a compiler may compute it in the argument's memory.

    A recorded graph reads copies of its arguments, and one that is checked may fail at its end.
    """
    options = config.current()
    if options.cudagraphs or options.assert_no_nan or not options.donate_inputs:
        return
    placeholders = program.module.graph.placeholders
    for mutation in program.epilogue.mutations:
        node = placeholders[mutation.input_index]
        is_whole = not mutation.views and memory_order(node.meta["val"]) is not None
        if is_whole and not mutation.differentiable:
            node.meta["becomes"] = mutation.output_index


def _training(
    program: TracedProgram,
    plan: ProgramPlan,
    partition: Partitioner,
    forward_compiler: Compiler,
    backward_compiler: Compiler,
    requiring: Set[int],
) -> CompiledProgram:
    _record("joint graph", program.module)
    with stages.phase("partition"):
        parts = partition(program)
    _LOGGER.info("%d tensors are kept for backward", parts.saved_tensors)
    run_passes("post_grad", parts.forward)
    run_passes("post_grad", parts.backward)
    _record("forward graph", parts.forward)
    _record("backward graph", parts.backward)
    function, repetition = FunctionPlan.of(program, parts, requiring), Repetition.of(program)
    graphs, places = [parts.backward], tuple[Any, ...]()
    if config.current().bucket_bytes:
        module = import_module("minitorch2.distributed.cut_backward")  # deferred: an extension
        graphs, places = module.cut_backward(parts.backward, config.current().bucket_bytes)
        function = replace(function, parts=places)
    compiled = [LazilyCompiled(partial(compile_backward, backward_compiler, g)) for g in graphs]
    backward = joined(compiled)
    if stages.wanted("cut.dot"):
        stages.record("cut.dot", draw_cut(parts), subject=(parts, backward))
    forward = _compiled(forward_compiler, parts.forward)
    plan = replace(plan, function=function, repetition=repetition)
    return CompiledProgram(plan, forward, backward)


def _record(name: str, module: GraphModule) -> None:
    if config.current().verify:
        verify(module)
    if stages.wanted(f"{name}.py"):
        stages.record(f"{name}.py", module.code, subject=module)


__all__ = ["Compiler", "Decompositions", "LazilyCompiled", "aot_autograd"]
