"""Extensions of this target: nodes of a schedule whose kernel is not a printed loop nest.

An extension adds a planner to `PLANNERS`. The planner puts nodes with kernels of their own in the
place of other nodes of a schedule. This package knows neither the planners nor the kernels.

    planner ::= planner(graph, schedule, capabilities) -> schedule
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minitorch2.codegen.target import Kernel
from minitorch2.codegen.triton import KernelSource
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    FusedSchedulerNode,
    Schedule,
)

Planner = Callable[[LoweredGraph, Schedule, Capabilities], Schedule]
PLANNERS: Final[list[Planner]] = []
"""What extensions do with each schedule, in this order."""


class OwnKernelNode(FusedSchedulerNode, ABC):
    """A node that prints its kernel by itself, with the work of other nodes in it.

    Attributes:
        absorbed: the nodes whose work the kernel does besides its bodies.
    """

    absorbed: tuple[BaseSchedulerNode, ...]

    @abstractmethod
    def print_kernel(
        self, buffers: Mapping[str, Buffer], *, name: str, removed: Iterable[str] = ()
    ) -> Kernel[KernelSource]:
        """Return the kernel, which stores no buffer in `removed`.

        Raises LoweringError if Triton has no such dtype or index arithmetic.
        """

    @property
    def members(self) -> list[BaseSchedulerNode]:
        """The nodes that are computed on the way, and the bodies."""
        return [*self.absorbed, *self.nodes]

    @property
    def read_names(self) -> frozenset[str]:
        """The buffers that any of the members reads."""
        return super().read_names.union(*(node.read_names for node in self.absorbed))

    @property
    def written_names(self) -> frozenset[str]:
        """The buffers that the bodies write; the others need no memory."""
        return super().written_names.union(node.name for node in self.absorbed)
