"""Run a partitioned program: one autograd function per compiled graph.

The forward and backward graphs are called in the *boxed convention*: one list of arguments, which
the callee may empty. So a tensor is freed as soon as its last reader has run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from operator import itemgetter
from typing import Any, TypeAlias

import torch

from minitorch2 import config, stages
from minitorch2.autograd.epilogue import Epilogue
from minitorch2.autograd.plan import FunctionPlan, Layout
from minitorch2.autograd.second_derivatives import EagerGradients
from minitorch2.errors import BackendError, CheckError, MinitorchError, at_line
from minitorch2.foundation.compile_lock import COMPILING, AsBefore, put_garbage_off
from minitorch2.graph.compiled_graph import BoxedCall, CompiledGraph, compiled_graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.passes.simplify_sizes import settle_sizes
from minitorch2.logs import compile_id, compiling, get_logger
from minitorch2.native.torch_internals.gradients import (
    are_transforms_active,
    call_in_grad_mode,
    call_without_autocast,
    count_users_of_storage,
    is_batched,
    is_batched_by_autograd,
    keep_hooks,
)
from minitorch2.native.torch_internals.modes import DisableTorchFunction
from minitorch2.stages.progress import reported

Compiler: TypeAlias = Callable[[GraphModule, Sequence[Any]], BoxedCall | CompiledGraph]
"""``compiler(gm, fake_inputs)``, which gives the graph's function, or says more about it."""
CompiledBackward: TypeAlias = tuple[CompiledGraph, BoxedCall | None]
"""A backward graph, and the graph as it is, operator by operator, if that may be run instead."""
_LOGGER = get_logger(__name__)
_SPARE = "The gradients are computed"
_REFERENCES = 3
"""What refers to an element of a list, as `sys.getrefcount` counts in a function that got it."""


class LazilyCompiled:
    """A backward graph that is compiled when it first runs: inference after training mode never
    pays for it. The options are those with which forward was compiled.

    Args:
        make: compiles the graph, or finds it compiled; it is released after that.

    Attributes:
        call: the compiled graph, once there is one.
        written: the arguments to whose memory it writes, among those that the partition donates.
    """

    def __init__(self, make: Callable[[], CompiledBackward]) -> None:
        self._make: Callable[[], CompiledBackward] | None = make
        self.call: BoxedCall | None = None
        self.written: tuple[int, ...] = ()
        self._config = config.current()
        self._logs = stages.open_logs()
        self._id = compile_id()

    def compile(self) -> BoxedCall:
        """Return the compiled graph; other threads wait for it."""
        with (
            AsBefore(),
            AsBefore(),
            COMPILING,
            config.use(self._config),
            stages.collect_into(self._logs),
            compiling(self._id),
            DisableTorchFunction(),
        ):
            if self.call is None:
                assert self._make is not None
                put_garbage_off()
                with reported("its backward"), stages.phase("other"):
                    compiled, spare = self._make()
                call, self.written = compiled.call, compiled.written
                self.call, self._make = self._first(call, spare) if spare else call, None
        return self.call

    def runner(
        self, plan: FunctionPlan, forward: BoxedCall, again: EagerGradients
    ) -> Callable[..., Sequence[Any]]:
        """Return a function that gives the graph's outputs, with this backward graph.

        The argument ``again`` computes gradients that can be differentiated.
        """
        apply = applier(make_function(plan, forward, self, again))
        return _without_history(apply, plan.unused) if plan.unused else apply

    def _first(self, call: BoxedCall, spare: BoxedCall) -> BoxedCall:
        """Make the first call: if the compiled code does not work, run the graph uncompiled."""

        def run(arguments: list[Any]) -> list[Any]:
            given = [*arguments]
            try:
                results, self.call = call(arguments), call
            except CheckError:
                raise
            except MinitorchError as error:
                stages.note_backend_failure(_LOGGER, error, _SPARE)
                results, self.call = spare(given), spare
            return results

        return run


def compile_backward(compiler: Compiler, module: GraphModule) -> CompiledBackward:
    """Compile a backward graph.

    If it cannot be compiled, the graph runs uncompiled, and a warning says so.

    Raises:
        MinitorchError: the compiler failed, and that is not suppressed.
    """
    settle_sizes(module)
    arguments, spare = module.graph.placeholders, run_as_it_is(module.copy())
    options = config.current()
    is_suppressed = options.suppress_errors and not options.fullgraph
    try:
        with at_line("compiling gradients", None):
            compiled = compiler(module, [node.meta.get("val") for node in arguments])
    except MinitorchError as error:
        if not is_suppressed:
            raise
        stages.note_backend_failure(_LOGGER, error, _SPARE)
        return CompiledGraph(spare), None
    donated = tuple(i for i, node in enumerate(arguments) if node.meta.get("donated"))
    return compiled_graph(compiled, donated), spare if is_suppressed else None


def joined(parts: Sequence[LazilyCompiled]) -> LazilyCompiled | None:
    """Return a backward graph that may be cut in parts (`FunctionPlan.parts`); None if none is."""
    if len(parts) < 2:
        return parts[0] if parts else None
    # Deferred: an extension, for programs that send gradients while others are computed.
    module = import_module("minitorch2.distributed.backward_in_parts")
    return module.BackwardInParts(parts)  # type: ignore[no-any-return]


def run_as_it_is(module: GraphModule, example_inputs: Sequence[Any] = ()) -> BoxedCall:
    """Return the graph as a function in the boxed convention that runs operator by operator."""

    def call(arguments: list[Any]) -> list[Any]:
        values = tuple(arguments)
        arguments.clear()
        return list(module(*values))

    return call


def inference_runner(
    compiled: BoxedCall, epilogue: Epilogue, outputs: int
) -> Callable[..., Sequence[Any]]:
    """Return a function that gives the program's results, without any autograd history."""
    if epilogue.is_trivial(outputs):

        def run_plain(*inputs: Any) -> Sequence[Any]:
            return compiled(list(inputs))

        return run_plain

    def run(*inputs: Any) -> Sequence[Any]:
        return epilogue.run(inputs, compiled(list(inputs)))

    return run


def with_epilogue(
    apply: Callable[..., Sequence[Any]], epilogue: Epilogue, outputs: int
) -> Callable[..., Sequence[Any]]:
    """Turn a function that gives the graph's outputs into one that gives the program's results."""
    if epilogue.is_trivial(outputs):
        return apply

    def run(*inputs: Any) -> Sequence[Any]:
        return epilogue.run(inputs, apply(*inputs))

    return run


def _without_history(
    apply: Callable[..., Sequence[Any]], unused: Sequence[int]
) -> Callable[..., Sequence[Any]]:
    """Detach the inputs that no output depends on, as no edge leads to them in eager PyTorch.

    The autograd engine runs the history of every input, also where the gradient is None; a history
    that another backward pass has used up would raise.
    """

    def apply_detached(*inputs: Any) -> Sequence[Any]:
        given = [*inputs]
        for i in unused:
            given[i] = given[i].detach()
        return apply(*given)

    return apply_detached


def applier(function: type[torch.autograd.Function]) -> Callable[..., Sequence[Any]]:
    """Return ``function.apply`` without its Python work for functorch at each input.

    That work unwraps tensors that outlived their transform. Only those need it: they share the
    class of tensors, but not their dispatch keys.
    """
    with_functorch = function.apply
    without_functorch: Callable[..., Sequence[Any]] = super(torch.autograd.Function, function).apply  # type: ignore[misc]

    def apply(*inputs: Any) -> Sequence[Any]:
        if are_transforms_active():
            return with_functorch(*inputs)  # type: ignore[no-any-return, no-untyped-call]
        return without_functorch(*inputs)

    return apply


def make_function(
    plan: FunctionPlan, forward: BoxedCall, backward: LazilyCompiled, again: EagerGradients
) -> type[torch.autograd.Function]:
    """Make the autograd function of one compiled graph.

    All decisions are made here, once, so that a short call costs little more than PyTorch's own
    part.
    """
    own, note = plan.outputs, again.note
    keep, arguments_of = keeper(plan), argument_maker(plan, backward)

    class CompiledFunction(torch.autograd.Function):
        """Forward and backward are compiled graphs."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            call = note(inputs) if again.plan.draws else None
            outputs = forward([*inputs])
            ctx.call = call or note(inputs)  # while a GPU is at work
            keep(ctx, (*inputs, *outputs))
            results = tuple(outputs[:own])
            if plan.without_gradient:
                unmarked = [results[i] for i in plan.without_gradient]
                ctx.mark_non_differentiable(*[t for t in unmarked if isinstance(t, torch.Tensor)])
            return results

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
            given = [gradients[i] for i in plan.tangents]
            unused = {k for k, gradient in enumerate(given) if gradient is None}
            if not unused:
                return CompiledFunction.gradients(ctx, given)
            unread = {i for i, read in enumerate(plan.reads) if read and read <= unused}
            found = CompiledFunction.gradients(ctx, given)
            if not unread:
                return found
            again.skip_hooks(unread, ctx.next_functions)  # eager calls none of them
            return tuple(None if i in unread else gradient for i, gradient in enumerate(found))

        @staticmethod
        def gradients(ctx: Any, given: list[Any]) -> tuple[torch.Tensor | None, ...]:
            """Return the gradient of each input; take the tangents out of the list."""
            needs_graph = torch.is_grad_enabled()
            if needs_graph or any(map(is_batch, given)):
                found = again.gradients(ctx.call, given)
                if found is not None:
                    return found
            call = backward.call or backward.compile()
            arguments = arguments_of(ctx, given)
            if not needs_graph:
                return tuple(call(arguments))
            sources = [t for t in arguments if isinstance(t, torch.Tensor)]
            if any(t.is_floating_point() for t in sources[: -len(plan.tangents)]):
                sources.append(torch.empty(0, requires_grad=True))  # copies have no history
            found = tuple(call_in_grad_mode(False, call, arguments))
            return differentiable_once(found, sources)

    # A derived class asks, at each call, which of several functions this one is.
    CompiledFunction._backward_cls.apply = CompiledFunction.backward  # type: ignore[attr-defined]
    return CompiledFunction


def keeper(plan: FunctionPlan) -> Callable[[Any, tuple[Any, ...]], None]:
    """Return ``keep(ctx, (*inputs, *outputs))``, which saves backward's values in the context."""
    places, own = plan.places(), plan.inputs
    tensors = picker([place for i, place in enumerate(places) if i not in plan.numbers])
    numbers = picker([places[i] for i in plan.numbers])

    def keep(ctx: Any, values: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*tensors(values))
        if plan.numbers:
            ctx.numbers = numbers(values)
        if plan.some_may_be_unused:
            ctx.set_materialize_grads(False)
            for i in plan.may_be_unread:
                keep_hooks(values[i])
            if plan.sizes_vary:
                ctx.sizes = [values[own + i].shape for i in plan.tangents]

    return keep


def argument_maker(
    plan: FunctionPlan, backward: LazilyCompiled
) -> Callable[[Any, list[Any]], list[Any]]:
    """Return ``arguments_of(ctx, tangents)``, which collects the arguments of the backward graph.

    It removes them from the context and the list where it can, so that nothing else holds them.
    """

    def arguments_of(ctx: Any, given: list[Any]) -> list[Any]:
        arguments = [*ctx.saved_tensors]
        ctx.maybe_clear_saved_tensors()
        if plan.numbers:
            for i, number in zip(plan.numbers, ctx.numbers, strict=True):
                arguments.insert(i, number)
        for i in backward.written:
            if is_seen_elsewhere(arguments[i]):
                arguments[i] = arguments[i].clone()
        if any(tangent is None for tangent in given):
            given[:] = _with_zeros(given, getattr(ctx, "sizes", None), plan.tangent_layouts)
        arguments += map(_laid_out, given, plan.tangent_layouts)
        given.clear()
        return arguments

    return arguments_of


def picker(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that takes the elements at some places out of a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple(values[place] for place in places)


def is_batch(tensor: Any) -> bool:
    """Return whether a gradient is a batch (``is_grads_batched``), which no kernel can read."""
    return tensor is not None and (is_batched_by_autograd(tensor) or is_batched(tensor))


def is_seen_elsewhere(tensor: torch.Tensor) -> bool:
    """Return whether more than the caller's list refers to a tensor or to its memory.

    That may be a graph that is kept (``retain_graph``), a hook on saved tensors, or code that has
    asked for them.
    """
    if sys.getrefcount(tensor) > _REFERENCES or tensor._use_count() > 1:  # type: ignore[attr-defined]
        return True
    owners = count_users_of_storage(tensor.untyped_storage()._cdata)
    return bool(owners > 2 + (tensor._base is not None))


def _with_zeros(
    given: Sequence[torch.Tensor | None], sizes: Sequence[Any] | None, layouts: Sequence[Layout]
) -> list[torch.Tensor]:
    """Return zeros where an output was not used."""
    return [
        torch.zeros(size, dtype=layout.dtype, device=layout.device) if tangent is None else tangent
        for tangent, size, layout in zip(
            given, sizes or [layout.size for layout in layouts], layouts, strict=True
        )
    ]


def _laid_out(tangent: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return the tangent with the strides that backward was compiled for; it may have others."""
    if tangent.dtype != layout.dtype:
        tangent = tangent.to(layout.dtype)
    if layout.stride is None:
        return tangent.contiguous()
    if tangent.stride() == layout.stride:
        return tangent
    result = torch.empty_strided(
        tangent.shape, layout.stride, dtype=layout.dtype, device=tangent.device
    )
    return result.copy_(tangent.detach())


class _DifferentiableOnce(torch.autograd.Function):
    """The identity on gradients; its own derivative is an error."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> tuple[Any, ...]:
        return tuple(t.detach() for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise BackendError(
            "a second derivative of a compiled graph, one of whose inputs is gone or was written",
            code="double-backward",
            fix="keep the inputs as they are until then, or leave the function uncompiled",
        )


def differentiable_once(results: tuple[Any, ...], sources: list[torch.Tensor]) -> tuple[Any, ...]:
    """Mark results as dependent on ``sources``, in a way that is not differentiable."""
    present = [t for t in results if t is not None]
    marked = iter(_DifferentiableOnce.apply(len(present), *present, *sources))  # type: ignore[no-untyped-call]
    return tuple(None if t is None else next(marked) for t in results)


def without_autocast(call: BoxedCall) -> BoxedCall:
    """``call`` run with autocast off, if it is on at compile time; the casts are in the graph."""
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            call = partial(call_without_autocast, device, call)
    return call


def without_views(call: BoxedCall, count: int) -> BoxedCall:
    """``call`` whose first outputs are detached if they are views. None of them is an input.

    PyTorch lets nobody write to a view that was made without gradients. A detached tensor counts
    its versions with the tensor that backward may have saved.
    """

    def run(arguments: list[Any]) -> list[Any]:
        results = [*call(arguments)]
        results[:count] = map(_without_base, results[:count])
        return results

    return run


def _without_base(value: Any) -> Any:
    is_view = isinstance(value, torch.Tensor) and value._base is not None
    return value.detach() if is_view else value
