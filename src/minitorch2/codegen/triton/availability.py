"""The availability of Triton kernels here: if they cannot run, one sentence says why."""

from __future__ import annotations

import importlib.util
import os
from functools import cache

import torch

INTERPRETER_VARIABLE = "TRITON_INTERPRET"


def is_interpreting() -> bool:
    """Return whether kernels run in Triton's interpreter, in Python, on CPU tensors.

    Triton reads the variable when it is imported, so it has to be set before.
    """
    return os.environ.get(INTERPRETER_VARIABLE, "0").lower() in ("1", "true", "on", "yes", "y")


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def why_unavailable(device: torch.device) -> str | None:
    """Return the reason why Triton kernels cannot run on tensors of `device`, or None."""
    if not _has_triton():
        return "Triton is not installed (pip install 'minitorch2[triton]', Linux only)"
    if is_interpreting():
        return None
    if device.type != "cuda":
        return (
            f"Triton kernels need a CUDA device, and these tensors are on {device.type} "
            f"({INTERPRETER_VARIABLE}=1 interprets the kernels in Python, slowly)"
        )
    if not torch.cuda.is_available():
        return "there is no CUDA device here, or this PyTorch was built without CUDA"
    if torch.cuda.get_device_capability(device) < (7, 0):
        return "Triton needs a GPU of compute capability 7.0 or later"
    return None
