"""``torch.compile(model, backend="minitorch2")``: our compiler under PyTorch's own capture.

PyTorch finds :func:`minitorch2_backend` through the entry point group ``torch_dynamo_backends``.
Sizes that its capture leaves symbolic stay symbolic (`torch_sizes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from minitorch2 import config, stages
from minitorch2.backends.fx_interop import from_torch_fx
from minitorch2.backends.registry import default_backend, lookup_backend
from minitorch2.backends.torch_sizes import VaryingSizes
from minitorch2.errors import UnsupportedError
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
Run = Callable[..., Any]


def minitorch2_backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Run:
    """Compile a graph that ``torch.compile`` captured, training included.

    The real tensors come with the first call (capture shows only its own fakes), so that call
    compiles the graph. A call that the compiled graph does not serve compiles again. A graph that
    cannot be compiled runs as it is, with a warning, unless the option `suppress_errors` is off.
    """
    return PerSignature(gm)


class PerSignature:
    """Compiled graphs by the fixed properties of their inputs; each graph has a guard."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self.gm = gm
        self.compiled: dict[Any, list[tuple[Callable[[Sequence[Any]], bool], Run]]] = {}
        self.sizes = VaryingSizes.of(gm)
        self.numbers: list[int] | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self.numbers is None:
            self.numbers = _numbers_as_tensors(self.gm)
        values = tuple(inputs[position].item() for position in self.numbers)
        parts = [self.sizes.signature(at, value) for at, value in enumerate(inputs)]
        key = (torch.is_grad_enabled(), _repeats(inputs), values, *parts)
        entries = self.compiled.setdefault(key, [])
        for serves, run in entries:
            if serves(inputs):
                return run(*inputs)
        entries.append(self._compile_or_leave(list(inputs)))
        return entries[-1][1](*inputs)

    def _compile_or_leave(self, inputs: list[Any]) -> tuple[Callable[[Sequence[Any]], bool], Run]:
        """Return a compiled graph with its guard, or the graph itself if it cannot be compiled."""
        try:
            return self._compile(inputs, self.sizes.can_vary(inputs))
        except Exception as error:
            if not config.current().suppress_errors:
                raise
            stages.note_backend_failure(_LOGGER, error, "A graph of torch.compile runs")
        return _always, self.gm

    def _compile(
        self, inputs: list[Any], varies: bool
    ) -> tuple[Callable[[Sequence[Any]], bool], Run]:
        module = from_torch_fx(self.gm)
        for position in self.numbers or ():
            for item in list(module.graph.placeholders[position].users):
                item.replace_all_uses_with(inputs[position].item())
                item.graph.erase(item)
        backend = lookup_backend(config.current().backend or default_backend(module, inputs))
        if not varies:
            wanted = self.sizes.values(inputs)
            return (lambda given: self.sizes.values(given) == wanted), backend(module, inputs)
        env = self.sizes.mark(module, inputs)
        try:
            run = backend(module, inputs)
        except UnsupportedError:  # it needs to know a size
            return self._compile(inputs, varies=False)
        serves = self.sizes.guard(env)
        env.freeze()
        return serves, run


def _always(inputs: Sequence[Any]) -> bool:
    return True


def _numbers_as_tensors(gm: torch.fx.GraphModule) -> list[int]:
    """Return the inputs that are only asked for ``item()``, as Python floats are passed."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return [
        position
        for position, node in enumerate(placeholders)
        if node.users and all(user.target == "item" for user in node.users)
    ]


def _repeats(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Return for each input the first position of the same object."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(value), index) for index, value in enumerate(inputs))
