"""Modules called with other parameters, as the documentation of `torch.func` describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from minitorch2.bytecode.polyfills.transforms import refuse


def call_with(
    module: torch.nn.Module, tensors: dict[str, torch.Tensor], args: Any, kwargs: Any, options: Any
) -> Any:
    """Call a module that has other tensors in the place of its own, by their paths."""
    raise NotImplementedError("capture has a rule for this function")


def functional_call(
    module: torch.nn.Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: Any = True,
    strict: Any = False,
) -> Any:
    """``torch.func.functional_call``"""
    given = parameter_and_buffer_dicts
    parts = [given] if isinstance(given, dict) else given
    tensors: dict[str, torch.Tensor] = {}
    for part in parts:
        for name, tensor in part.items():
            if name in tensors or not isinstance(tensor, torch.Tensor):
                refuse("functional_call with a name given twice, or with what is no tensor")
            tensors[name] = tensor
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    options = {"tie_weights": tie_weights, "strict": strict}
    return call_with(module, tensors, args, {} if kwargs is None else kwargs, options)


def stack_module_state(models: Sequence[torch.nn.Module]) -> Any:
    """``torch.func.stack_module_state``"""
    models = list(models)
    if not models:
        refuse("stack_module_state of no model")
    if any(type(m) is not type(models[0]) or m.training != models[0].training for m in models):
        refuse("stack_module_state of models of several classes or modes")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: _stacked([part[name] for part in parameters]) for name in parameters[0]},
        {name: _stacked([part[name] for part in buffers]) for name in buffers[0]},
    )


def _stacked(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return a leaf of autograd that holds the tensors along a new first dimension."""
    required = [tensor.requires_grad for tensor in tensors]
    if any(required) != all(required):
        refuse("stack_module_state of tensors of which some require gradients")
    stacked = torch.stack(tensors).detach()
    return stacked.requires_grad_() if all(required) else stacked
