"""Gradients of gradients: eager autograd differentiates the captured graph.

A compiled backward graph has no derivative of its own. When a caller asks for gradients that can be
differentiated again (``create_graph=True``), eager PyTorch runs the captured graph once more on the
same inputs. Then ``torch.autograd.grad`` gives gradients of any order. It is the captured graph and
not the joint one, since only that still has ``detach``, ``no_grad`` and the user's own autograd
functions.

Only weak references to the inputs are kept for this: most inputs are parameters, are saved for
backward, or belong to the caller. If an input was freed or written to since, the compiled backward
graph gives the gradients, and their derivative is an error.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeAlias

import torch

from minitorch2 import config
from minitorch2.autograd.joint import Place
from minitorch2.autograd.plan import Repetition
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.history import functions_behind
from minitorch2.native.torch_internals.gradients import HOOKS, skip_without_gradient
from minitorch2.native.torch_internals.pytree import tree_leaves

Call: TypeAlias = tuple[list[Any], list[int], tuple[Any, ...], dict[torch.device, torch.Tensor]]
"""What a call of the forward graph was given: tensors as weak references, their versions, the
inputs that are no tensors, and the states of the random generators if it draws.
"""


class EagerGradients:
    """Differentiable gradients of a captured graph."""

    def __init__(self, module: GraphModule, plan: Repetition) -> None:
        self.module = module
        self.plan = plan
        self.all_tensors = len(plan.tensors) == plan.inputs
        self.draws_as_eager = config.current().fallback_random
        self.autocasts = {
            device: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in ("cpu", "cuda")
        }

    def note(self, inputs: tuple[Any, ...]) -> Call:
        """Remember a call, before it runs."""
        tensors = inputs if self.all_tensors else [inputs[i] for i in self.plan.tensors]
        try:
            versions = [tensor._version for tensor in tensors]
        except RuntimeError:
            versions = [*map(_version, tensors)]
        others = () if self.all_tensors else inputs
        numbers = tuple(None if isinstance(x, torch.Tensor) else x for x in others)
        states = _random_states(tensors) if self.plan.draws else {}
        return [*map(weakref.ref, tensors)], versions, numbers, states

    def skip_hooks(self, unread: Set[int], makers: Sequence[Any]) -> None:
        """Call no hook of these inputs, or of their leaves, without a gradient.

        Args: the positions of the inputs, and what has made each tensor among all inputs.
        """
        for index, (maker, _) in zip(self.plan.tensors, makers, strict=False):
            if index in unread and maker is not None:
                behind = [*functions_behind(maker)]
                dicts = [each.metadata.get(HOOKS) for each in behind]
                dicts += [f.variable._backward_hooks for f in behind if hasattr(f, "variable")]
                for hooks in {id(each): each for each in dicts if each}.values():
                    skip_without_gradient(hooks)

    def _given(self, call: Call) -> list[Any] | None:
        """Return the inputs of a call; None if one was freed, or written to although it matters."""
        references, versions, numbers, _ = call
        inputs: list[Any] = [None] * len(references) if self.all_tensors else [*numbers]
        for i, reference, version in zip(self.plan.tensors, references, versions, strict=True):
            inputs[i] = reference()
            if inputs[i] is None or (i not in self.plan.unread and _version(inputs[i]) != version):
                return None
        return inputs

    def gradients(
        self, call: Call, tangents: Sequence[torch.Tensor | None]
    ) -> tuple[torch.Tensor | None, ...] | None:
        """Return the gradient of each input, given those of the differentiable forward outputs.

        An output that was not used has None. The result is None if the call cannot be repeated.
        """
        inputs = self._given(call)
        if inputs is None or (self.plan.draws and not self.draws_as_eager):
            return None
        with self._state(call[-1]):
            # Each input is seen through an alias of its own, so that no gradient of it includes
            # what reaches it through another input.
            own = {id(x): self._own(index, x) for index, x in reversed([*enumerate(inputs)])}
            values = [own[id(x)] for x in inputs]
            results = tree_leaves(self.module(*values))
            used = [
                (p, t) for p, t in zip(self.plan.places, tangents, strict=True) if t is not None
            ]
            heads = [self._head(place, values, results) for place, _ in used]
            wanted = {id(v): v for v in values if isinstance(v, torch.Tensor) and v.requires_grad}
            given = [tangent for _, tangent in used]
            found = torch.autograd.grad(
                heads, [*wanted.values()], given, create_graph=True, allow_unused=True
            )
        gradients = dict(zip(wanted, found, strict=True))
        return tuple(gradients.pop(id(value), None) for value in values)

    def _own(self, index: int, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.clone() if index in self.plan.written else value.view_as(value)

    def _head(self, place: Place, values: list[Any], results: list[Any]) -> torch.Tensor:
        tensor: torch.Tensor = (values if place.of_input else results)[place.index]
        base = tensor._base if place.is_base else tensor
        assert base is not None
        return base

    @contextmanager
    def _state(self, random_states: dict[torch.device, torch.Tensor]) -> Iterator[None]:
        """Put PyTorch in its state at the time of the capture, or of the call."""
        with ExitStack() as stack:
            for context in self._contexts(random_states):
                stack.enter_context(context)
            for device, state in random_states.items():
                _generator(device).set_state(state)
            yield

    def _contexts(self, random_states: Any) -> Iterator[AbstractContextManager[Any]]:
        yield torch.enable_grad()
        for device, (enabled, dtype) in self.autocasts.items():
            if enabled or torch.is_autocast_enabled(device):
                yield torch.autocast(device, dtype, enabled, cache_enabled=False)
        if random_states:
            yield torch.random.fork_rng([d for d in random_states if d.type == "cuda"])


def _version(tensor: torch.Tensor) -> int:
    """Return the number of writes to a tensor; 0 if they are not counted."""
    return 0 if tensor.is_inference() else tensor._version


def _random_states(inputs: Sequence[torch.Tensor]) -> dict[torch.device, torch.Tensor]:
    devices = {torch.device("cpu")} | {x.device for x in inputs if x.is_cuda}
    return {device: _generator(device).get_state() for device in devices}


def _generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[device.index]
