"""The memory of a wrapper's buffers: an arena, a tensor of their own, or one that is free.

    buf2 = torch_mm(buf1, arg1)
    del buf1                                       # buf1 is dead: its memory goes back, or
    buf4 = buf1; del buf1  # in its memory         # it is kept for the next result of its layout
    torch_mm(buf3, arg1, out=buf4)

Memory is kept for reuse only until the next allocation, so the peak does not grow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

import torch

from minitorch2 import config
from minitorch2.codegen.arena import ArenaPlan, Interval, plan_arenas
from minitorch2.codegen.extern import PRODUCTS
from minitorch2.loopir.buffers import Buffer, BufferView, ComputedBuffer, ExternKernel, HostCall
from minitorch2.loopir.expressions import product
from minitorch2.loopir.layout import FixedLayout
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    Schedule,
    bodies,
    buffers_of,
    kernels_in,
)


class Memory:
    """The memory of a scheduled graph.

    Attributes:
        buffers: what the graph makes, by name.
        device: where the graph computes: the first kernel's device, or the CPU.
        arenas: allocations for buffers that only kernels see; ``offsets`` are their places there.
        held: the layout of a tensor that is not made as its buffer says.
        reused: for a result, the dead tensor whose memory it gets.
        tensors: the lives of what is held outside arenas; None if a size varies.
        peak: the most bytes that intermediates hold at a time; None if a size varies.
    """

    def __init__(self, lowered: LoweredGraph, schedule: Schedule) -> None:
        self.schedule = schedule
        self.buffers = buffers_of(schedule.nodes)
        self.outputs = [o for o in lowered.outputs if isinstance(o, BufferView)]
        computed = (b for b in self.buffers.values() if isinstance(b, ComputedBuffer))
        self.device = next((b.device for b in computed), torch.device("cpu"))
        self.held = dict(self._as_they_are_read())
        hidden = [*self._hidden()] if config.current().arenas else []
        self.tensors = self._tensors({interval.name for interval in hidden})
        self.arenas, self.peak = plan_arenas(hidden, self.tensors)
        self.offsets = {k: v for arena in self.arenas for k, v in arena.offsets.items()}
        self.reused = dict(self._reused())

    def root(self, name: str) -> str:
        """Return the buffer that was allocated with the memory that `name` lives in."""
        return self.schedule.inplace.owner(name)

    @cached_property
    def last_use(self) -> dict[str, int]:
        """For each buffer that was allocated, the last node that uses its memory."""
        last: dict[str, int] = {}
        for name, position in self.schedule.last_use.items():
            root = self.root(name)
            last[root] = max(position, last.get(root, position))
        return last

    def is_arena(self, name: str) -> bool:
        """Return whether a buffer lives in an arena."""
        return self.root(name) in self.offsets

    def arena_at(self, position: int) -> ArenaPlan | None:
        """Return the arena that the node at this position is the first to need."""
        return next((arena for arena in self.arenas if arena.start == position), None)

    @cached_property
    def arena_ends(self) -> frozenset[int]:
        """The nodes that are the last to need an arena."""
        return frozenset(arena.end for arena in self.arenas)

    def layout_of(self, name: str) -> FixedLayout:
        """Return the layout with which the tensor of a buffer is made."""
        return self.held.get(name) or self.buffers[name].fixed_layout()

    def allocated(self, node: BaseSchedulerNode) -> list[str]:
        """Return the computed buffers that get a tensor when a node runs."""
        computed = [body.name for kernel in kernels_in(node) for body in bodies(kernel)]
        taken = self.schedule.removed, self.schedule.inplace, self.offsets
        return [name for name in computed if not any(name in names for names in taken)]

    def __str__(self) -> str:
        lines = [
            f"arena of {arena.bytes} bytes for nodes {arena.start} to {arena.end}, "
            f"{arena.bytes_without_reuse} if nothing shared it"
            for arena in self.arenas
        ]
        lines += [f"{new}: gets the memory of {old}" for new, old in self.reused.items()]
        if self.peak is not None:
            lines.append(f"intermediates take {self.peak} bytes at most")
        return "\n".join(lines)

    # -- what is planned ---------------------------------------------------------------------------

    def _hidden(self) -> Iterator[Interval]:
        """Yield the buffers of fixed size that no library call, caller or check sees."""
        if config.current().assert_no_nan:
            return
        visible = {self.root(view.name) for view in self.outputs}
        for node in self.schedule.nodes:
            if isinstance(node, ExternKernelSchedulerNode):
                visible |= {self.root(name) for name in (*node.read_names, node.name)}
        for position, node in enumerate(self.schedule.nodes):
            for name in sorted(node.written_names):
                buffer = self.buffers[name]
                is_ours = isinstance(buffer, ComputedBuffer) and name not in self.schedule.removed
                is_ours = is_ours and buffer.device == self.device
                is_ours = is_ours and self.root(name) == name and name not in visible
                nbytes = bytes_of(buffer) if is_ours else None
                if nbytes is not None:
                    yield Interval(name, nbytes, position, self.last_use[name])

    def _tensors(self, hidden: set[str]) -> list[Interval] | None:
        """Return the lifetimes of other intermediates and results; None if a size varies."""
        ends = {self.root(view.name): len(self.schedule.nodes) for view in self.outputs}
        found = []
        for position, node in enumerate(self.schedule.nodes):
            for name in sorted(node.written_names - self.schedule.removed - hidden):
                made = self.buffers[name]  # a library call with several results has no memory
                several = isinstance(made, ExternKernel) and bool(made.outputs)
                if self.root(name) != name or isinstance(made, HostCall) or several:
                    continue
                nbytes = bytes_of(self.buffers[name])
                if nbytes is None:
                    return None
                end = ends.get(name) or self.last_use[name]
                found.append(Interval(name, nbytes, position, end))
        return found

    def _as_they_are_read(self) -> Iterator[tuple[str, FixedLayout]]:
        """Yield the buffers that library calls and the caller all see as the same view.

        They are allocated in that form, since a view at the call takes half the time of a launch.
        """
        seen = defaultdict[str, set[FixedLayout]](set)
        calls = (n.kernel for n in self.schedule.nodes if isinstance(n, ExternKernelSchedulerNode))
        for view in (*self.outputs, *(view for kernel in calls for view in kernel.views())):
            seen[view.name].add(view.layout)
        for name, (layout, *others) in seen.items():
            buffer = self.buffers.get(name)
            if others or not isinstance(buffer, ComputedBuffer):
                continue
            if _extent(layout) == _extent(buffer.fixed_layout()):
                yield name, layout

    def _reused(self) -> Iterator[tuple[str, str]]:
        """Yield each result that gets the memory of a dead tensor: the next one that fits."""
        spare: dict[FixedLayout, str] = {}
        own: set[str] = set()
        for position, node in enumerate(self.schedule.nodes):
            call = node.kernel if isinstance(node, ExternKernelSchedulerNode) else None
            made = [node.name] if is_writable(node) else self.allocated(node)
            for name in made:
                old = spare.pop(self.layout_of(name), None)
                if old is not None:
                    yield name, old
            if made or call or self.arena_at(position) is not None:
                spare.clear()
            own |= set(made)
            own -= {self.root(name) for name in call.given_away().values()} if call else set[str]()
            dead = (name for name in self.dead_after(position) if self.root(name) in own)
            spare |= {self.layout_of(self.root(name)): name for name in dead}

    def dead_after(self, position: int) -> list[str]:
        """Return the names last used at a position whose memory no other buffer takes over."""
        return self._dead.get(position, [])

    @cached_property
    def _dead(self) -> dict[int, list[str]]:
        kept = self.schedule.inplace.taken | {view.name for view in self.outputs}
        dead = defaultdict[int, list[str]](list)
        for name, last in self.schedule.last_use.items():
            if name not in kept:
                dead[last].append(name)
        return dead


def is_writable(node: BaseSchedulerNode) -> bool:
    """Return whether a node is a library call that can write into given memory at no cost."""
    if not isinstance(node, ExternKernelSchedulerNode) or node.kernel.copies_result:
        return False
    return node.kernel.target in PRODUCTS and isinstance(node.kernel.layout, FixedLayout)


def bytes_of(buffer: Buffer) -> int | None:
    """Return the bytes that a buffer takes; None if its size varies."""
    size = buffer.fixed_layout().storage_size()
    return size * buffer.dtype.itemsize if isinstance(size, int) else None


def _extent(layout: FixedLayout) -> tuple[object, ...]:
    """Return the memory that a layout covers."""
    return layout.device, layout.dtype, layout.offset, layout.storage_size(), product(layout.size)
