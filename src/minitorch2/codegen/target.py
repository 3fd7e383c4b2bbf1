"""The protocol of targets: what turns scheduled kernels into text, and the text into a function.

    target     ::= capabilities    what the scheduler may put into one kernel
                   print           a node of the schedule -> Kernel
                   define          Kernel -> Definition
                   load            the module's text -> the function that runs the graph
    Kernel     ::= source, and what its call is given: iterations, buffers, sizes
    Definition ::= a statement of the wrapper's module, and the names that it imports

The compiler of graphs knows nothing else about a target. A new target is a folder with a subclass
of `Target`, and an entry in `backends.registry.BACKENDS`. A process that finds its graphs in the
cache prints none, so the module of a target imports its printers when they print.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import torch

from minitorch2.codegen.program import load_program
from minitorch2.graph.compiled_graph import BoxedCall
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    KernelNode,
    Refusal,
    Schedule,
)


class Source(Protocol):
    """The text of a kernel; ``key`` gives equal texts for kernels that do the same."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    def key(self) -> str: ...


S = TypeVar("S", bound=Source)


@dataclass(frozen=True)
class Kernel(Generic[S]):
    """A printed kernel and its call: `kernel(iterations, address of each buffer..., size...)`."""

    source: S
    iterations: Expr
    buffers: tuple[str, ...]
    sizes: tuple[Expr, ...]


@dataclass(frozen=True)
class Definition:
    """A statement of the wrapper's module; ``imports`` are its names, and the modules of these."""

    text: str
    imports: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """The wrapper's call of one kernel, or of several that are joined, with their arguments."""

    name: str
    kernels: tuple[Kernel[Any], ...]
    takes_stream: bool = False


class Target(Protocol[S]):
    """A code generator, and what runs its kernels.

    Attributes:
        name: the backend's name.
        takes_stream: whether kernels take the device's current stream after the iterations.
    """

    name: str
    takes_stream: bool = False

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Return the limits of the target's kernels, for the scheduler."""

    @abstractmethod
    def print(
        self, node: BaseSchedulerNode, plan: Schedule, buffers: Mapping[str, Buffer], name: str
    ) -> Kernel[S]:
        """Print a kernel of the schedule, or a launch, as a function called `name`.

        Raises:
            LoweringError: the target has no form for a primitive or a dtype.
        """

    @abstractmethod
    def define(self, kernel: Kernel[S], device: torch.device) -> Definition:
        """Return the statement that defines a kernel for tensors of a device."""

    def load(self, text: str, names: Mapping[str, Any], lowered: LoweredGraph) -> BoxedCall:
        """Return the function of a wrapper's text, which refers to objects by these names."""
        return load_program(text, names)

    def on(self, device: torch.device) -> Target[Any]:
        """Return the target for a device: this or another. Raises BackendError if there is none."""
        return self

    def planned(
        self, plan: Schedule, lowered: LoweredGraph, capabilities: Capabilities
    ) -> Schedule:
        """Return a schedule with the target's own changes."""
        return plan

    def why_alone(self, kernel: KernelNode, buffers: Mapping[str, Buffer]) -> Refusal | None:
        """Return the reason why a kernel cannot share a launch, or None if it can."""
        return None

    def parts(self, node: BaseSchedulerNode) -> Sequence[BaseSchedulerNode]:
        """Return the nodes of a launch that are printed one by one, for `define_launch`."""
        return [node]

    def define_launch(self, name: str, kernels: Sequence[str]) -> Definition:
        """Return the statement that joins kernels. Raises TypeError if `parts` gives no several."""
        raise TypeError(f"kernels of {self.name} are not joined by a statement")

    def main(self, kernel: Kernel[S], buffers: Mapping[str, Buffer]) -> str:
        """Return the end of a kernel's file, which runs the kernel alone; it may be empty."""
        return ""

    def variant(self) -> str:
        """Return what in this process, besides options, changes the programs of this target."""
        return ""

    def why_not_kept(self) -> str | None:
        """Return the reason why programs are not kept on disk under the present options."""
        return None
