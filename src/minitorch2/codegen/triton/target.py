"""The target of kernels for GPUs, or for Triton's interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from minitorch2 import config
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.codegen.spelling import quoted
from minitorch2.codegen.target import Definition, Kernel, Target
from minitorch2.codegen.triton import CAPABILITIES, KernelSource
from minitorch2.codegen.triton.availability import is_interpreting, why_unavailable
from minitorch2.codegen.triton.own_kernels import PLANNERS, OwnKernelNode
from minitorch2.errors import BackendError
from minitorch2.graph.compiled_graph import BoxedCall
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    JoinedSchedulerNode,
    KernelNode,
    Refusal,
    Schedule,
    kernels_in,
)


class TritonTarget(Target[KernelSource]):
    """Kernels that Triton compiles; those on CPU tensors are Numba's without its interpreter."""

    name = "triton"
    takes_stream = True

    def capabilities(self) -> Capabilities:
        """Return the limits, which the package states."""
        return CAPABILITIES

    def on(self, device: torch.device) -> Target[Any]:
        """Return the target for a device. Raises BackendError if Triton cannot run there."""
        if device.type == "cpu" and not is_interpreting():
            return NUMBA
        missing = why_unavailable(device)
        if missing is not None:
            raise BackendError(missing, code="triton-unavailable", fix="use the backend 'numba'")
        return self

    def planned(
        self, plan: Schedule, lowered: LoweredGraph, capabilities: Capabilities
    ) -> Schedule:
        """Return the schedule with the kernels that extensions print by themselves."""
        for planner in PLANNERS:
            plan = planner(lowered, plan, capabilities)
        return plan

    def why_alone(self, kernel: KernelNode, buffers: Mapping[str, Buffer]) -> Refusal | None:
        """Return the reason why a kernel cannot share a launch, or None if it can."""
        # Deferred: a process that finds its graphs in the cache prints no kernel.
        from minitorch2.codegen.triton.joined import why_alone

        return why_alone(kernel, buffers)

    def print(
        self, node: BaseSchedulerNode, plan: Schedule, buffers: Mapping[str, Buffer], name: str
    ) -> Kernel[KernelSource]:
        """Print the module of a kernel, or of several kernels in one."""
        from minitorch2.codegen.triton import joined, kernel  # deferred, as above

        for one in kernels_in(node):
            if isinstance(one, OwnKernelNode) or not kernel.can_write_in_place(one, buffers):
                plan.inplace = plan.inplace.without(one.written_names)
        inplace = {new: plan.inplace[new] for new in node.written_names & plan.inplace.keys()}
        removed = frozenset(plan.removed)
        if isinstance(node, JoinedSchedulerNode):
            printed = joined.print_joined_kernel(
                node, buffers, name=name, removed=removed, inplace=inplace
            )
        elif isinstance(node, OwnKernelNode):
            printed = node.print_kernel(buffers, name=name, removed=removed)
        else:
            (single,) = kernels_in(node)
            printed = kernel.print_triton_kernel(
                single, buffers, name=name, removed=removed, inplace=inplace
            )
        return replace(printed, buffers=tuple(map(plan.inplace.owner, printed.buffers)))

    def define(self, kernel: Kernel[KernelSource], device: torch.device) -> Definition:
        """Return the statement that loads a kernel on a GPU; the first one is not named."""
        source, place = kernel.source, f", device={device.index}" if device.index else ""
        return Definition(
            f"\n{source.name} = load_triton_kernel({source.name!r}, {quoted(source.text)}{place})",
            {"load_triton_kernel": "minitorch2.codegen.triton.launch"},
        )

    def load(self, text: str, names: Mapping[str, Any], lowered: LoweredGraph) -> BoxedCall:
        """Return the function of a wrapper's text; `cudagraphs` record and replay its launches."""
        call = super().load(text, names, lowered)
        if not config.current().cudagraphs:
            return call
        from minitorch2.codegen.replay import replayed  # only this option needs it

        return replayed(call, lowered)

    def variant(self) -> str:
        """Return whether kernels are interpreted."""
        return "interpreted" if is_interpreting() else ""

    def why_not_kept(self) -> str | None:
        """Return that launches are recorded, if they are."""
        return "its launches are recorded" if config.current().cudagraphs else None


TRITON: Final = TritonTarget()
