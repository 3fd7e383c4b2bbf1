"""The state of autograd and of function transforms, and who else uses a tensor's memory."""

import torch
from torch._C import _autograd, _functorch

write_grad_mode = torch._C._set_grad_enabled
current_autograd_node = torch._C._current_autograd_node
write_multithreading = torch._C._set_multithreading_enabled
is_multithreading_enabled = torch._C._is_multithreading_enabled
innermost_saved_tensor_hooks = _autograd._top_saved_tensors_default_hooks
push_saved_tensor_hooks = _autograd._push_saved_tensors_default_hooks
pop_saved_tensor_hooks = _autograd._pop_saved_tensors_default_hooks
preserve_versions = torch.autograd.grad_mode._unsafe_preserve_version_counter
count_users_of_storage = torch._C._storage_Use_Count

are_transforms_active = torch._C._are_functorch_transforms_active
innermost_transform = _functorch.peek_interpreter_stack
is_batched = _functorch.is_batchedtensor
is_batched_by_autograd = _functorch.is_legacy_batchedtensor
is_wrapped_by_transform = _functorch.is_functorch_wrapped_tensor


def forward_level() -> int:
    """Return the level of forward-mode differentiation that is open; -1 if none is."""
    return torch.autograd.forward_ad._current_level


def call_hooks_of(tensor: torch.Tensor) -> None:
    """Let the operator that made a tensor call the hooks that the tensor keeps in its dict."""
    assert tensor.grad_fn is not None
    tensor.grad_fn._register_hook_dict(tensor)
