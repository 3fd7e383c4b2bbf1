"""Run a partitioned program: one autograd function per compiled graph.

The forward and backward graphs are called in the *boxed convention*: one list of arguments, which
the callee may empty, so that a tensor is freed as soon as its last reader has run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from minitorch2.autograd.epilogue import Epilogue
from minitorch2.autograd.partition import SavedInput, SavedOutput
from minitorch2.autograd.second_derivatives import EagerGradients
from minitorch2.errors import BackendError

BoxedCall: TypeAlias = Callable[[list[Any]], list[Any]]
_REFERENCES = 3
"""What refers to an element of a list, as `sys.getrefcount` counts in a function that got it."""


@dataclass(frozen=True)
class Layout:
    """Strides and dtype that a tangent must have, as the backward graph was compiled for.

    ``stride`` is None where sizes are symbolic: then the tangent must be contiguous.
    """

    stride: tuple[Any, ...] | None
    dtype: torch.dtype


@dataclass(frozen=True)
class FunctionPlan:
    """All that a compiled autograd function does besides computing.

    ``outputs`` is the number of the program's own outputs; later ones of the forward graph are
    saved.
    ``saved`` says where each value for backward comes from, and ``donated`` which of these it may
    write to; ``tangents`` which outputs have gradients; ``reads`` on which of these each input's
    gradient depends; ``again`` gives gradients that can be differentiated.
    """

    inputs: int
    outputs: int
    saved: tuple[SavedInput | SavedOutput, ...]
    donated: tuple[int, ...]
    tangents: tuple[int, ...]
    tangent_layouts: tuple[Layout, ...]
    reads: tuple[frozenset[int], ...]
    again: EagerGradients


def inference_runner(
    compiled: BoxedCall, epilogue: Epilogue, outputs: int
) -> Callable[..., Sequence[Any]]:
    """The program's results, without any autograd history."""
    if epilogue.is_trivial(outputs):

        def run_plain(*inputs: Any) -> Sequence[Any]:
            return compiled(list(inputs))

        return run_plain

    def run(*inputs: Any) -> Sequence[Any]:
        return epilogue.run(inputs, compiled(list(inputs)))

    return run


def training_runner(
    plan: FunctionPlan, forward: BoxedCall, backward: BoxedCall, epilogue: Epilogue
) -> Callable[..., Sequence[Any]]:
    """The program's results, differentiable through the compiled backward graph."""
    apply = _applier(make_function(plan, forward, backward))
    if epilogue.is_trivial(plan.outputs):
        return apply

    def run(*inputs: Any) -> Sequence[Any]:
        return epilogue.run(inputs, apply(*inputs))

    return run


def _applier(function: type[torch.autograd.Function]) -> Callable[..., Sequence[Any]]:
    """``function.apply``, without what it does for functorch in Python, at each input.

    That is: unwrapping tensors that outlived their transform. Only those need it; they share the
    class of tensors, but not their dispatch keys.
    """
    with_functorch = function.apply
    without_functorch: Callable[..., Sequence[Any]] = super(torch.autograd.Function, function).apply  # type: ignore[misc]

    def apply(*inputs: Any) -> Sequence[Any]:
        if torch._C._are_functorch_transforms_active():
            return with_functorch(*inputs)  # type: ignore[no-any-return, no-untyped-call]
        return without_functorch(*inputs)

    return apply


def make_function(
    plan: FunctionPlan, forward: BoxedCall, backward: BoxedCall
) -> type[torch.autograd.Function]:
    """The autograd function of one compiled graph."""
    number = plan.outputs
    without_gradient = [i for i in range(number) if i not in plan.tangents]
    some_may_be_unused = len(plan.tangents) > 1

    class CompiledFunction(torch.autograd.Function):
        """Forward and backward are compiled graphs."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            ctx.call = plan.again.note(inputs)
            outputs = forward(list(inputs))
            values = [
                (inputs if isinstance(p, SavedInput) else outputs)[p.index] for p in plan.saved
            ]
            numbers = [i for i, v in enumerate(values) if not isinstance(v, torch.Tensor)]
            ctx.numbers = [(i, values[i]) for i in numbers]
            for i in numbers:
                values[i] = None
            ctx.save_for_backward(*values)
            results = tuple(outputs[:number])
            if some_may_be_unused:
                ctx.set_materialize_grads(False)
                ctx.shapes = [(results[i].shape, results[i].device) for i in plan.tangents]
            if without_gradient:
                ctx.mark_non_differentiable(
                    *[results[i] for i in without_gradient if isinstance(results[i], torch.Tensor)]
                )
            return results

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
            given = [gradients[i] for i in plan.tangents]
            unused = {k for k, gradient in enumerate(given) if gradient is None}
            del gradients
            return _without_unread(CompiledFunction.gradients(ctx, given), plan.reads, unused)

        @staticmethod
        def gradients(ctx: Any, given: list[Any]) -> tuple[torch.Tensor | None, ...]:
            """The gradient of each input; takes the tangents out of the list."""
            needs_graph = torch.is_grad_enabled()
            if needs_graph or any(t is not None and _is_batched(t) for t in given):
                found = plan.again.gradients(ctx.call, given)
                if found is not None:
                    return found
            saved = list(ctx.saved_tensors)
            for i, number in ctx.numbers:
                saved[i] = number
            if some_may_be_unused:
                given[:] = _with_zeros(given, ctx.shapes, plan.tangent_layouts)
            tangents = list(map(_laid_out, given, plan.tangent_layouts))
            sources = [
                t for t in (*saved, *tangents) if needs_graph and isinstance(t, torch.Tensor)
            ]
            ctx.maybe_clear_saved_tensors()
            for i in plan.donated:
                if _is_seen_elsewhere(saved[i]):
                    saved[i] = saved[i].clone()
            arguments = [*saved, *tangents]
            given.clear()
            del saved, tangents
            if not needs_graph:
                return tuple(backward(arguments))
            return _differentiable_once(tuple(without_grad(backward)(arguments)), sources)

    return CompiledFunction


def _is_batched(tensor: torch.Tensor) -> bool:
    """Whether it is a batch of gradients (``is_grads_batched``), which no kernel can read."""
    functorch = torch._C._functorch
    return functorch.is_legacy_batchedtensor(tensor) or functorch.is_batchedtensor(tensor)


def _is_seen_elsewhere(tensor: torch.Tensor) -> bool:
    """Whether more than the caller's list refers to a tensor or to its memory: a graph that is kept
    (``retain_graph``), a hook on saved tensors, or someone who has asked for them.
    """
    if sys.getrefcount(tensor) > _REFERENCES or tensor._use_count() > 1:  # type: ignore[attr-defined]
        return True
    owners = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
    return bool(owners > 2 + (tensor._base is not None))


def _with_zeros(
    given: Sequence[torch.Tensor | None], shapes: Sequence[Any], layouts: Sequence[Layout]
) -> list[torch.Tensor]:
    """Zeros where an output was not used."""
    return [
        torch.zeros(shape, dtype=layout.dtype, device=device) if tangent is None else tangent
        for tangent, (shape, device), layout in zip(given, shapes, layouts, strict=True)
    ]


def _without_unread(
    found: tuple[torch.Tensor | None, ...], reads: Sequence[frozenset[int]], unused: set[int]
) -> tuple[torch.Tensor | None, ...]:
    """As in eager PyTorch, what only unused outputs depend on has no gradient: not even zeros."""
    if not unused:
        return found
    return tuple(
        None if read and read <= unused else gradient
        for gradient, read in zip(found, reads, strict=True)
    )


def _laid_out(tangent: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The tangent with the strides that backward was compiled for (autograd may pass any)."""
    if tangent.stride() == layout.stride and tangent.dtype == layout.dtype:
        return tangent
    if layout.stride is None:
        return tangent.contiguous()
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


def _differentiable_once(results: tuple[Any, ...], sources: list[torch.Tensor]) -> tuple[Any, ...]:
    """Results whose history says that they depend on ``sources``, in a way that is not
    differentiable.
    """
    present = [t for t in results if t is not None]
    marked = iter(_DifferentiableOnce.apply(len(present), *present, *sources))  # type: ignore[no-untyped-call]
    return tuple(None if t is None else next(marked) for t in results)


def autocast_disabled() -> AbstractContextManager[object] | None:
    """A context that switches autocast off, or None if it is off: the graphs hold the casts
    already.
    """
    devices = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
    if not devices:
        return None
    return _AutocastDisabled(tuple(devices))


class _AutocastDisabled(AbstractContextManager[object]):
    """Reusable, unlike ``torch.autocast`` instances that nest their own state."""

    def __init__(self, devices: tuple[str, ...]) -> None:
        self.devices = devices

    def __enter__(self) -> object:
        for device in self.devices:
            torch.set_autocast_enabled(device, False)
        return self

    def __exit__(self, *_: object) -> None:
        for device in self.devices:
            torch.set_autocast_enabled(device, True)


def without_grad(call: BoxedCall) -> BoxedCall:
    """``call`` run with grad mode off: what a graph computes has no history of its own."""

    def run(arguments: list[Any]) -> list[Any]:
        with torch.no_grad():
            return call(arguments)

    return run


def without_autocast(call: BoxedCall) -> BoxedCall:
    """``call`` run with autocast off, if it is on at compile time; the casts are in the graph."""
    off = autocast_disabled()
    if off is None:
        return call

    def run(arguments: list[Any]) -> list[Any]:
        with off:
            return call(arguments)

    return run
