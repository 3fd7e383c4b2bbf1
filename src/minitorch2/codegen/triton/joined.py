"""Several kernels in one launch."""

from __future__ import annotations

from minitorch2.loopir.schedule import KernelNode, Refusal


def why_alone(kernel: KernelNode) -> Refusal | None:
    """Why a kernel has a launch of its own."""
    return Refusal("not yet")
