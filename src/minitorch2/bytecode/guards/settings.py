"""Settings that PyTorch keeps for the whole process: which function changes one, which reads it.

    write(*place, value); read(*place) == value

A graph changes those that operators ask for when they run, and restores them at its end. Residual
code then gives each the value that the program has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import torch

from minitorch2.native.torch_internals.global_state import writers_and_readers
from minitorch2.native.torch_internals.gradients import (
    is_multithreading_enabled,
    write_multithreading,
)

Place: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that writes, and what it is given in front of the value."""

_NAMES: Final = (
    "flash_sdp_enabled sdp_use_flash",
    "mem_efficient_sdp_enabled sdp_use_mem_efficient",
    "math_sdp_enabled sdp_use_math",
    "cudnn_sdp_enabled sdp_use_cudnn",
    "overrideable_sdp_enabled sdp_use_overrideable",
    "sdp_priority_order sdp_priority_order",
    "mkldnn_enabled mkldnn_enabled",
    "mkldnn_deterministic mkldnn_deterministic",
    "onednn_allow_tf32 onednn_allow_tf32",
    "nnpack_enabled nnpack_enabled",
    "cudnn_enabled cudnn_enabled",
    "cudnn_benchmark cudnn_benchmark",
    "cudnn_deterministic cudnn_deterministic",
    "cudnn_allow_tf32 cudnn_allow_tf32",
    "cudnn_depthwise_kernel cudnn_depthwise_kernel",
)


OF_OPERATORS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    **writers_and_readers(_NAMES),
    torch.set_autocast_enabled: torch.is_autocast_enabled,
    torch.set_autocast_dtype: torch.get_autocast_dtype,
    torch.set_float32_matmul_precision: torch.get_float32_matmul_precision,
}
"""What operators ask for when they run, by the function that writes."""


def set_anomaly(enabled: bool) -> None:
    """Set whether autograd looks for errors."""
    torch.set_anomaly_enabled(enabled, torch.is_anomaly_check_nan_enabled())


def set_anomaly_of_nan(enabled: bool) -> None:
    """Set whether NaN is an error where autograd looks for errors."""
    torch.set_anomaly_enabled(torch.is_anomaly_enabled(), enabled)


READERS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    torch.set_default_dtype: torch.get_default_dtype,
    write_multithreading: is_multithreading_enabled,
    torch.set_deterministic_debug_mode: torch.get_deterministic_debug_mode,
    set_anomaly: torch.is_anomaly_enabled,
    set_anomaly_of_nan: torch.is_anomaly_check_nan_enabled,
    **writers_and_readers(["fp32_precision_getter fp32_precision_setter"]),
    **OF_OPERATORS,
}
"""All settings."""


def restore(settings: Iterable[tuple[Place, Any]]) -> None:
    """Give settings their values, where they have others."""
    for (write, place), value in settings:
        if READERS[write](*place) != value:
            write(*place, value)
