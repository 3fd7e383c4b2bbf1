"""Settings of PyTorch that belong to the process or the thread."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

are_algorithms_deterministic = torch._C._get_deterministic_algorithms
is_memory_filled = torch._C._get_deterministic_fill_uninitialized_memory
name_of_private_device = torch._C._get_privateuse1_backend_name
is_any_autocast_enabled = torch._C._is_any_autocast_enabled
autocast_devices = torch._C._autocast_supported_devices
enter_autocast = torch.amp.autocast_mode._enter_autocast
exit_autocast = torch.amp.autocast_mode._exit_autocast
is_tracing = torch._C._is_tracing
tracing_state = torch._C._get_tracing_state
log_usage_once = torch._C._log_api_usage_once
HAS_MKLDNN = torch._C._has_mkldnn


def current_gpu() -> int:
    """Return the number of the GPU of programs that name none; 0 before CUDA starts."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.current_device() if started else 0


def with_number(device: torch.device) -> torch.device:
    """Return the device that a tensor on it has: ``cuda`` is the current GPU, ``cpu:0`` the CPU."""
    is_open = device.type == "cuda" and device.index is None
    given = torch.device("cpu") if device.type == "cpu" else device
    return torch.device("cuda", current_gpu()) if is_open else given


def writers_and_readers(names: Iterable[str]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the function that reads a setting, by the function that writes it.

    Args:
        names: for each setting the reader's name and the writer's, separated by a blank. Those
            that this version of PyTorch does not have are left out.
    """
    pairs = [pair.split() for pair in names]
    return {
        getattr(torch._C, f"_set_{write}"): getattr(torch._C, f"_get_{read}")
        for read, write in pairs
        if hasattr(torch._C, f"_set_{write}") and hasattr(torch._C, f"_get_{read}")
    }
