"""Compiled graphs and the plan around them, as one function with the program's own results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import torch

from minitorch2.autograd.epilogue import Epilogue
from minitorch2.autograd.lift import lift_attributes
from minitorch2.autograd.plan import ProgramPlan
from minitorch2.autograd.runtime import (
    LazilyCompiled,
    inference_runner,
    picker,
    with_epilogue,
    without_autocast,
    without_views,
)
from minitorch2.autograd.second_derivatives import EagerGradients
from minitorch2.autograd.spent_history import spend
from minitorch2.errors import BackendError
from minitorch2.foundation.module_names import is_in_package
from minitorch2.graph.compiled_graph import BoxedCall
from minitorch2.graph.graph_module import GraphModule
from minitorch2.native.torch_internals.gradients import (
    call_in_grad_mode,
    innermost_saved_tensor_hooks,
)
from minitorch2.native.torch_internals.pytree import TreeSpec, tree_unflatten

Run: TypeAlias = Callable[..., Sequence[Any]]


@dataclass(eq=False)
class CompiledProgram:
    """A program's compiled graphs: ``forward`` computes its results, and ``backward`` gradients of
    those that are differentiable. Equal programs may share it.
    """

    plan: ProgramPlan
    forward: BoxedCall
    backward: LazilyCompiled | None = None

    def linked(self, module: GraphModule, attributes: Sequence[torch.Tensor] = ()) -> Run:
        """Return the function of the captured graph's inputs.

        It is to be called in the state of PyTorch (grad mode, autocast) that is in force now.

        Args:
            module: the captured graph; eager PyTorch runs it for second derivatives.
            attributes: the tensors that it holds, which are inputs of the compiled graphs.

        The function has the attribute ``writes_last``, since the epilogue writes to inputs. Its
        attribute ``compiled`` is this program if `attributes` is empty: then equal graphs can share
        it.
        """
        run = self._trained(module) if self.plan.function else self._inferred()
        if self.plan.checks_repeats:
            run = _repeating(run, self.plan)
        run = _called_as_before(run, self.plan.structure, attributes)
        if self.plan.function:
            run = _unless_hooked(run, module)
        if self.plan.function and not torch.is_grad_enabled():
            # It switches the mode on by itself; what it computed before is not differentiable.
            run = partial(call_in_grad_mode, True, run)
        run.writes_last = True  # type: ignore[attr-defined]
        run.compiled = None if attributes else self  # type: ignore[attr-defined]
        return run

    def _inferred(self) -> Run:
        call = without_autocast(self.forward)
        if self.plan.detached:
            call = without_views(partial(call_in_grad_mode, False, call), self.plan.outputs)
        call = spend(call, self.plan.spent)
        return inference_runner(call, self.plan.epilogue, self.plan.outputs)

    def _trained(self, module: GraphModule) -> Run:
        plan = self.plan
        assert plan.function is not None and plan.repetition is not None
        assert self.backward is not None
        # As captured: what was fused may be an operator without a second derivative.
        again = EagerGradients(lift_attributes(module)[0], plan.repetition)
        forward = without_views(without_autocast(self.forward), plan.outputs)
        if plan.epilogue.mutations:
            forward = _writing_early(forward, plan.epilogue)
        apply = self.backward.runner(plan.function, forward, again)
        return with_epilogue(spend(apply, plan.spent), plan.epilogue, plan.outputs)


def repeats(tensors: Sequence[Any]) -> tuple[int, ...]:
    """Return for each tensor the position where the same object first occurs."""
    first: dict[int, int] = {}
    return (*map(first.setdefault, map(id, tensors), count()),)


def _repeating(run: Run, plan: ProgramPlan) -> Run:
    """Check at each call that exactly those inputs are one tensor that were one at first."""
    tensors, pattern = picker(plan.tensors), plan.repeats

    def checked(*inputs: Any) -> Sequence[Any]:
        if repeats(tensors(inputs)) != pattern:
            raise BackendError(
                "the graph was compiled for inputs that repeat in another way",
                code="aliasing-changed",
                fix="compile again for inputs of which the same ones are the same tensor",
            )
        return run(*inputs)

    return checked


def _writing_early(forward: BoxedCall, epilogue: Epilogue) -> BoxedCall:
    """Write to inputs before tensors are saved, where hooks see them saved.

    A checkpoint that computes a program again ends it there; eager PyTorch has updated the
    statistics of a batch normalization by then: twice in all.
    """
    top = innermost_saved_tensor_hooks

    def call(arguments: list[Any]) -> list[Any]:
        if top(False) is None:
            return forward(arguments)
        inputs = [*arguments]
        outputs = forward(arguments)
        epilogue.write(inputs, outputs)
        return outputs

    return call


def _unless_hooked(run: Run, module: GraphModule) -> Run:
    """Run the captured graph while the program's own hooks see which tensors are saved.

    Hooks may change what they are given. The compiled graph saves other tensors than eager PyTorch
    does. The hooks of PyTorch's library (checkpoints, `save_on_cpu`) give back what they took.
    """
    top = innermost_saved_tensor_hooks

    def call(*inputs: Any) -> Any:
        hooks = top(False)
        if hooks is None or is_in_package(getattr(hooks[0], "__module__", ""), "torch"):
            return run(*inputs)
        return module(*inputs)

    return call


def _called_as_before(
    run: Run, structure: TreeSpec | None, attributes: Sequence[torch.Tensor]
) -> Run:
    """Pass lifted attributes along, and give results the structure that the graph's output has."""
    if structure is None and not attributes:
        return run

    def call(*inputs: Any) -> Any:
        results = run(*inputs, *attributes)
        return results if structure is None else tree_unflatten(results, structure)

    return call
