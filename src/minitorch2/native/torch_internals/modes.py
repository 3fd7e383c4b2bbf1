"""Modes and overrides: who sees calls of PyTorch's functions and operators before PyTorch does."""

from functools import partial

import torch
import torch.overrides
from torch.utils import _device, _python_dispatch

# Function modes and the overrides of classes (`__torch_function__`).
DisableTorchFunction = torch._C.DisableTorchFunction
DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass
EnableTorchFunction = torch._C._EnableTorchFunction
enable_torch_function = torch.overrides._enable_torch_function
no_torch_function = torch._C._disabled_torch_function_impl
are_overrides_enabled = torch._C._is_torch_function_enabled
are_function_modes_disabled = torch._C._is_torch_function_all_disabled
has_override_of = torch._C._has_torch_function_unary
has_any_override = torch._C._has_torch_function_variadic
has_any_override_in = torch._C._has_torch_function
count_function_modes = torch._C._len_torch_function_stack
function_mode_at = torch._C._get_function_stack_at
pop_function_mode = torch._C._pop_torch_function_stack
push_function_mode = torch._C._push_on_torch_function_stack
without_innermost_function_mode = torch.overrides._pop_mode_temporarily
DeviceContext = _device.DeviceContext
device_constructors = _device._device_constructors

# Dispatch modes.
TorchDispatchMode = _python_dispatch.TorchDispatchMode
count_dispatch_modes = torch._C._len_torch_dispatch_stack
pop_dispatch_mode = torch._C._pop_torch_dispatch_stack
innermost_dispatch_mode = _python_dispatch._get_current_dispatch_mode
current_dispatch_modes = _python_dispatch._get_current_dispatch_mode_stack
disable_all_modes = _python_dispatch._disable_current_modes
fake_mode_of_pytorch = partial(torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey.FAKE)


def set_state(of_classes: bool, of_modes: bool) -> None:
    """Switch the overrides of classes and of modes on or off."""
    states = torch._C._TorchFunctionState  # type: ignore[attr-defined]
    disabled = states.SUBCLASSES_DISABLED if of_modes else states.ALL_DISABLED
    state = states.ENABLED if of_classes else disabled
    torch._C._set_torch_function_state(state)  # type: ignore[attr-defined]
