"""The state of autograd and of function transforms, and who else uses a tensor's memory."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch._C import _autograd, _functorch

R = TypeVar("R")

write_grad_mode = torch._C._set_grad_enabled
InferenceSwitch = torch._C._InferenceMode
"""``torch.inference_mode(mode)`` as a context manager in C, which a signal does not cut off."""
current_autograd_node = torch._C._current_autograd_node
write_multithreading = torch._C._set_multithreading_enabled
is_multithreading_enabled = torch._C._is_multithreading_enabled
innermost_saved_tensor_hooks = _autograd._top_saved_tensors_default_hooks
push_saved_tensor_hooks = _autograd._push_saved_tensors_default_hooks
pop_saved_tensor_hooks = _autograd._pop_saved_tensors_default_hooks
CreationMeta, set_creation_meta = _autograd.CreationMeta, _autograd._set_creation_meta
preserve_versions = torch.autograd.grad_mode._unsafe_preserve_version_counter
count_users_of_storage = torch._C._storage_Use_Count

are_transforms_active = torch._C._are_functorch_transforms_active
innermost_transform = _functorch.peek_interpreter_stack
is_batched = _functorch.is_batchedtensor
is_batched_by_autograd = _functorch.is_legacy_batchedtensor
is_wrapped_by_transform = _functorch.is_functorch_wrapped_tensor


def call_in_grad_mode(mode: bool, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call a function in a grad mode; then the mode is as before, also after Ctrl-C.

    Python raises for a signal when a call has returned, so never between ``finally`` and the end
    of the first call there, if that calls a C function. ``torch.no_grad()`` is a Python class: cut
    off in its ``__exit__``, it leaves grad mode off.
    """
    enabled = torch.is_grad_enabled()
    try:
        write_grad_mode(mode)
        return function(*args, **kwargs)
    finally:
        write_grad_mode(enabled)


def call_without_autocast(device: str, function: Callable[..., R], *args: Any) -> R:
    """Call a function with autocast off for a type of device; then it is on, also after Ctrl-C."""
    try:
        torch.set_autocast_enabled(device, False)
        return function(*args)
    finally:
        torch.set_autocast_enabled(device, True)


def forward_level() -> int:
    """Return the level of forward-mode differentiation that is open; -1 if none is."""
    return torch.autograd.forward_ad._current_level


HOOKS = "minitorch2 hooks"
"""The entry in the metadata of an operator that holds the hooks of the tensor that it made."""


def skip_without_gradient(hooks: dict[int, Any]) -> None:
    """Call a tensor's hooks only with a gradient, until the backward pass that runs has ended.

    The engine also calls them with None, for an input that no used output depends on.
    """
    known = [*hooks]

    def restore() -> None:
        hooks.update({key: hooks[key].args[0] for key in known if key in hooks})

    hooks.update({key: partial(_call_with_gradient, hooks[key]) for key in known})
    torch.autograd.Variable._execution_engine.queue_callback(restore)


def _call_with_gradient(hook: Callable[[Any], Any], gradient: Any) -> Any:
    return None if gradient is None else hook(gradient)


def keep_hooks(tensor: torch.Tensor) -> None:
    """Let hooks that are set later be found although the tensor itself may be gone by then."""
    maker: Any = tensor.grad_fn
    if maker is not None and tensor._backward_hooks is None:
        tensor._backward_hooks = OrderedDict()
        call_hooks_of(tensor)
    elif maker is not None:
        maker.metadata[HOOKS] = tensor._backward_hooks


def call_hooks_of(tensor: torch.Tensor) -> None:
    """Let the operator that made a tensor call the hooks that the tensor keeps in its dict."""
    maker: Any = tensor.grad_fn
    maker._register_hook_dict(tensor)
    maker.metadata[HOOKS] = tensor._backward_hooks
