"""The schedule for code generation: nodes in execution order, and the life of buffers.

    schedule ::= Schedule(nodes, removed, last_use, inplace, log)
    node     ::= SchedulerNode(buffer)                          one loop body: a kernel
              |  FusedSchedulerNode(nodes)                      several loop bodies in one kernel
              |  ExternKernelSchedulerNode(kernel)              a library call
              |  NopKernelSchedulerNode(buffer)                 no code: part of another's result
             |  JoinedSchedulerNode(kernels)                   kernels in one launch, in any order

The class names are those of the PyTorch 2 paper, section 4.4. A `SchedulerNode` has an iteration
domain (`ranges`, `reduction_ranges`) that starts as its buffer's loops without those of size 1; it
may be split, permuted and merged, and `run` translates back. Inside a fused node all domains agree:
each member covers all loops (`covers_reduction`), or the kept ones only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from minitorch2.loopir.buffers import Buffer, ComputedBuffer, ExternKernel, MultiOutput, Origins
from minitorch2.loopir.expressions import Expr, index_symbols, product, simplify
from minitorch2.loopir.handlers.recorder import RecordingHandler
from minitorch2.loopir.iteration import (
    Access,
    Sizes,
    Strides,
    linear_access,
    split_counts,
    split_strides,
)
from minitorch2.loopir.loops import Index, Reduction, Scan, Scatter
from minitorch2.loopir.ops import use_handler

Translate = Callable[[Index], list[Expr]]


@dataclass(frozen=True)
class Refusal:
    """The reason why two nodes are not fused; `is_of_loops` if other loops may help."""

    reason: str
    is_of_loops: bool = False


@dataclass(frozen=True)
class FusionDecision:
    """One line of the fusion log: two nodes, their score, and the refusal if there was one."""

    first: str
    second: str
    score: tuple[bool, bool, int, int] | None
    refusal: Refusal | None

    def __str__(self) -> str:
        verdict = self.refusal.reason if self.refusal else f"fused, score {self.score}"
        return f"{self.first} + {self.second}: {verdict}"


@dataclass(frozen=True)
class LaunchDecision:
    """One line of the launch log: kernels, and the reason to launch them together or apart."""

    kernels: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{' + '.join(self.kernels)}: {self.reason}"


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a code generator for fused nodes.

    A kernel can keep `row_scratch` elements of a row between its passes over that row. A value of a
    longer row needs memory if a later pass reads it, unless the code generator `recomputes_rows`.
    If a launch takes as long as a small kernel, the code generator `fuses_siblings`: small kernels
    with a producer or a consumer in common. A kernel reads at most `max_reads` buffers. A launch
    has `fewest_joined` to `joins` kernels of at most `join_elements` each, which touch at most
    `max_pointers` buffers.
    """

    fuses_reduction_broadcast_reduction: bool = True
    fuses_horizontally: bool = True
    reorders_loops: bool = True
    max_fusion_size: int = 64
    max_reads: int = 256
    row_scratch: int = 0
    recomputes_rows: bool = False
    fuses_siblings: bool = False
    joins: int = 1
    fewest_joined: int = 2
    join_elements: int = 1 << 18
    max_pointers: int = 2048


class BaseSchedulerNode:
    """One buffer of the graph in the schedule; `order` is its place in the graph."""

    def __init__(self, name: str, order: int) -> None:
        self.name = name
        self.order = order

    @cached_property
    def origins(self) -> Origins:
        """The graph nodes whose results the members compute."""
        return tuple(dict.fromkeys(o for node in self.members for o in node.origins))

    @property
    def members(self) -> list[BaseSchedulerNode]:
        """The nodes of single buffers inside this one; itself if it is not fused."""
        return [self]

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The buffers that are read."""
        raise NotImplementedError

    @cached_property
    def written_names(self) -> frozenset[str]:
        """The buffers that are written."""
        return frozenset((self.name,))

    @cached_property
    def touched_names(self) -> frozenset[str]:
        """The buffers that are read or written."""
        return self.read_names | self.written_names


class ExternKernelSchedulerNode(BaseSchedulerNode):
    """A library call, or an operator that runs as in eager PyTorch."""

    def __init__(self, kernel: ExternKernel, order: int) -> None:
        super().__init__(kernel.name, order)
        self.kernel = kernel
        self.origins = kernel.origins

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The buffers that the call gets."""
        return frozenset(view.name for view in self.kernel.views())


class NopKernelSchedulerNode(BaseSchedulerNode):
    """A buffer that another node fills; it only orders the buffer's readers after that node."""

    def __init__(self, buffer: MultiOutput, order: int) -> None:
        super().__init__(buffer.name, order)
        self.buffer = buffer
        self.origins = buffer.origins

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The call whose result this is."""
        return frozenset((self.buffer.kernel.name,))


class _AccessRecorder(RecordingHandler):
    """The recorder of accesses, with `index_expr` as a read of the buffer without a name."""

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> None:
        self.reads["", expr] = None


class SchedulerNode(BaseSchedulerNode):
    """A loop body with its iteration domain."""

    def __init__(self, buffer: ComputedBuffer, order: int) -> None:
        super().__init__(buffer.name, order)
        self.buffer = buffer
        self.origins = buffer.origins
        self.is_scan = isinstance(buffer.loops, Scan)
        self.is_reduction = isinstance(buffer.loops, Reduction)
        self.has_inner_loops = self.is_scan or self.is_reduction
        self.scatters = [self] if isinstance(buffer.loops, Scatter) else []
        self.covers_reduction = True
        self.ranges, self._to_index = _without_ones(buffer.loops.ranges)
        self.reduction_ranges, self._to_reduction = _without_ones(buffer.loops.reduction_ranges)
        self.reads_of: tuple[Access, ...]
        self.writes_of: tuple[Access, ...]
        self.reads_of, self.writes_of = self.record_accesses()

    def record_accesses(self) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
        """(reads, writes) of the body over its domain, found by running it."""
        symbols = index_symbols("c", len(self.sizes))
        limits = tuple(zip(symbols, self.sizes, strict=True))
        recorder = _AccessRecorder()
        kept = len(self.ranges)
        with use_handler(recorder):
            self.run(symbols[:kept], symbols[kept:])

        def accesses(found: dict[tuple[str, Expr], None]) -> tuple[Access, ...]:
            return tuple(linear_access(n, simplify(i, limits), symbols) for n, i in found)

        return accesses(recorder.reads), accesses(recorder.writes)

    # -- what code generation uses --------------------------------------------------------------

    def run(self, index: Index, reduction_index: Index = ()) -> None:
        """Execute the body, with its store, once under the current ops handler.

        The indices are those of this node's domain. A member of a fused reduction that covers the
        kept loops only ignores `reduction_index`. A pointwise one that covers all loops gets its
        index in two parts.
        """
        if self.has_inner_loops:
            self.buffer.run(self._to_index(index), self._to_reduction(reduction_index))
        else:
            self.buffer.run(self._to_index((*index, *reduction_index)))

    @property
    def sizes(self) -> Sizes:
        """All loops of the domain."""
        return (*self.ranges, *self.reduction_ranges)

    @property
    def group(self) -> tuple[Expr, Expr]:
        """(number of outputs, number of elements reduced into each)."""
        return product(self.ranges), product(self.reduction_ranges)

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The buffers that must be there: those that the body loads from, and its base."""
        base = (self.buffer.base,) if self.buffer.base else ()
        return frozenset((*base, *(access.name for access in self.reads_of if access.name)))

    @property
    def own_loops(self) -> list[int]:
        """The loops that change the address of the store: each step writes other elements."""
        return [i for i, stride in enumerate(self.writes_of[0].strides) if stride not in (0, None)]

    @property
    def repeats_stores(self) -> bool:
        """True if two iterations may store to one element, so that their order matters."""
        loops = self.buffer.loops
        is_scatter = isinstance(loops, Scatter) and not loops.is_disjoint
        return is_scatter and len(self.own_loops) < len(self.ranges)

    # -- changes of the domain --------------------------------------------------------------------

    def set_domain(self, ranges: Sizes, reduction_ranges: Sizes, covers_reduction: bool) -> None:
        """Split the loops so that they are those of a group; all sizes must be refinements.

        A pointwise node that covers the reduction gets `(*ranges, *reduction_ranges)`.
        """
        own, before = (*ranges, *reduction_ranges) if covers_reduction else ranges, self.sizes
        if self.has_inner_loops:
            self._split(self.ranges, ranges, is_reduction_side=False)
            self._split(self.reduction_ranges, reduction_ranges, is_reduction_side=True)
        else:
            self._split(self.sizes, own, is_reduction_side=False)
        self.covers_reduction = covers_reduction
        self.ranges = ranges
        self.reduction_ranges = reduction_ranges if covers_reduction else ()
        is_linear = all(access.is_linear for access in (*self.reads_of, *self.writes_of))
        if self.sizes != before and not is_linear:  # along parts of a loop they may be
            self.reads_of, self.writes_of = self.record_accesses()

    def _split(self, coarse: Sizes, fine: Sizes, *, is_reduction_side: bool) -> None:
        if coarse == fine:
            return
        counts = split_counts(coarse, fine)
        if is_reduction_side:
            all_counts, all_sizes = (*(1,) * len(self.ranges), *counts), (*self.ranges, *fine)
            self._to_reduction = _after_split(self._to_reduction, counts, fine)
            self.reduction_ranges = fine
        else:
            rest = self.reduction_ranges if self.has_inner_loops else ()
            all_counts, all_sizes = (*counts, *(1,) * len(rest)), (*fine, *rest)
            self._to_index = _after_split(self._to_index, counts, fine)
            self.ranges = fine
        self._restride(lambda strides: split_strides(strides, all_counts, all_sizes))

    def _restride(self, change: Callable[[Strides], Strides]) -> None:
        self.reads_of, self.writes_of = (
            tuple(Access(a.name, change(a.strides), a.offset) for a in accesses)
            for accesses in (self.reads_of, self.writes_of)
        )

    def permute(self, order: Sequence[int]) -> None:
        """Reorder all loops: new loop i is the old loop `order[i]`; reduction loops stay last."""
        kept = len(self.ranges)
        sizes = self.sizes
        self._restride(lambda strides: tuple(strides[i] for i in order))
        self.ranges = tuple(sizes[i] for i in order[:kept])
        self.reduction_ranges = tuple(sizes[i] for i in order[kept:])
        if self.has_inner_loops:
            self._to_index = _after_permutation(self._to_index, order[:kept])
            inner = [i - kept for i in order[kept:]]
            self._to_reduction = _after_permutation(self._to_reduction, inner)
        else:
            self._to_index = _after_permutation(self._to_index, order)

    def merge(self, outer: int) -> None:
        """Make loops `outer` and `outer + 1` one, which `iteration.can_merge` must allow."""
        kept = len(self.ranges)
        self._restride(lambda strides: strides[:outer] + strides[outer + 1 :])
        if outer < kept:
            self.ranges = _merged(self.ranges, outer)
        else:
            self.reduction_ranges = _merged(self.reduction_ranges, outer - kept)
        if self.has_inner_loops and outer >= kept:
            self._to_reduction = _after_merge(self._to_reduction, outer - kept)
        else:
            self._to_index = _after_merge(self._to_index, outer)


def _merged(sizes: Sizes, outer: int) -> Sizes:
    return (*sizes[:outer], product(sizes[outer : outer + 2]), *sizes[outer + 2 :])


def _without_ones(ranges: Sizes) -> tuple[Sizes, Translate]:
    kept = [i for i, size in enumerate(ranges) if size != 1]

    def translate(index: Index) -> list[Expr]:
        full: list[Expr] = [0] * len(ranges)
        for position, value in zip(kept, index, strict=True):
            full[position] = value
        return full

    return tuple(ranges[i] for i in kept), translate


def _after_split(translate: Translate, counts: Sequence[int], fine: Sizes) -> Translate:
    def joined(index: Index) -> list[Expr]:
        coarse: list[Expr] = []
        position = 0
        for count in counts:
            value: Expr = 0
            for part in range(position, position + count):
                value = value * fine[part] + index[part]
            coarse.append(value)
            position += count
        return translate(coarse)

    return joined


def _after_permutation(translate: Translate, order: Sequence[int]) -> Translate:
    places = {old: new for new, old in enumerate(order)}
    return lambda index: translate([index[places[old]] for old in range(len(order))])


def _after_merge(translate: Translate, outer: int) -> Translate:
    return lambda index: translate([*index[:outer], 0, *index[outer:]])


class FusedSchedulerNode(BaseSchedulerNode):
    """Loop bodies over one domain, in an order in which they can run, as one kernel."""

    def __init__(self, nodes: Sequence[SchedulerNode]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.order)
        super().__init__("_".join(node.name for node in self.nodes), self.nodes[-1].order)
        self._widest = next((n for n in self.nodes if n.has_inner_loops), self.nodes[0])
        self.has_inner_loops = self._widest.has_inner_loops
        self.scatters = [scatter for node in self.nodes for scatter in node.scatters]

    @property
    def members(self) -> list[BaseSchedulerNode]:
        """The nodes of single buffers."""
        return list(self.nodes)

    @property
    def ranges(self) -> Sizes:
        """The kept loops."""
        return self._widest.ranges

    @property
    def reduction_ranges(self) -> Sizes:
        """The reduction loops."""
        return self._widest.reduction_ranges

    @property
    def group(self) -> tuple[Expr, Expr]:
        """(number of outputs, number of elements reduced into each)."""
        return self._widest.group

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The buffers that any body reads, those of the other bodies included."""
        return frozenset().union(*(node.read_names for node in self.nodes))

    @cached_property
    def written_names(self) -> frozenset[str]:
        """The buffers that the bodies write."""
        return frozenset(node.name for node in self.nodes)


KernelNode = SchedulerNode | FusedSchedulerNode


class JoinedSchedulerNode(BaseSchedulerNode):
    """Kernels that do not depend on each other, each over its own domain, in one launch."""

    def __init__(self, kernels: Sequence[KernelNode]) -> None:
        self.kernels = tuple(kernels)
        name = " ".join(node.name for node in kernels)
        super().__init__(name, min(node.order for node in kernels))

    @property
    def members(self) -> list[BaseSchedulerNode]:
        """The nodes of single buffers."""
        return [member for kernel in self.kernels for member in kernel.members]

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The buffers that any of the kernels reads."""
        return frozenset().union(*(kernel.read_names for kernel in self.kernels))

    @cached_property
    def written_names(self) -> frozenset[str]:
        """The buffers that the kernels write."""
        return frozenset().union(*(kernel.written_names for kernel in self.kernels))


def kernels_in(node: BaseSchedulerNode) -> tuple[KernelNode, ...]:
    """Return the kernels that a node launches: several, one, or none."""
    if isinstance(node, JoinedSchedulerNode):
        return node.kernels
    return (node,) if isinstance(node, SchedulerNode | FusedSchedulerNode) else ()


def bodies(node: KernelNode) -> list[SchedulerNode]:
    """Return the loop bodies of a kernel, in order."""
    return node.nodes if isinstance(node, FusedSchedulerNode) else [node]


class InPlace(dict[str, str]):
    """A map from each buffer that takes over a dying buffer's memory to the dying buffer.

    It does not change.
    """

    def __init__(self, pairs: Mapping[str, str] | None = None) -> None:
        super().__init__(pairs or {})
        self._owners: dict[str, str] = {}

    @cached_property
    def taken(self) -> frozenset[str]:
        """The buffers whose memory is taken over."""
        return frozenset(self.values())

    def owner(self, name: str) -> str:
        """Return the buffer that was allocated with the memory that `name` lives in."""
        path = []
        while name in self and name not in self._owners:
            path.append(name)
            name = self[name]
        owner = self._owners.get(name, name)
        self._owners |= dict.fromkeys(path, owner)
        return owner

    def without(self, names: Collection[str]) -> InPlace:
        """Return the map without these buffers."""
        return InPlace({new: old for new, old in self.items() if new not in names})


@dataclass
class Schedule:
    """The order of work and the life of buffers.

    `removed` are buffers that live inside one kernel and need no memory. `last_use` gives for each
    buffer the index in `nodes` of the last node that reads or writes it. `inplace` maps a buffer to
    the dying buffer whose memory it may take over.
    """

    nodes: list[BaseSchedulerNode]
    removed: set[str] = field(default_factory=set)
    last_use: dict[str, int] = field(default_factory=dict)
    inplace: InPlace = field(default_factory=InPlace)
    log: list[FusionDecision] = field(default_factory=list)
    launches: list[LaunchDecision] = field(default_factory=list)

    def memory_decisions(self) -> list[str]:
        """List the buffers that need no memory, and those that take over another's memory."""
        removed = [f"{name}: no memory, one kernel keeps it" for name in sorted(self.removed)]
        return removed + [f"{new}: takes over {old}" for new, old in self.inplace.items()]

    def kernels(self) -> list[KernelNode]:
        """Return the nodes for which code is generated."""
        return [kernel for node in self.nodes for kernel in kernels_in(node)]


def buffers_of(nodes: Sequence[BaseSchedulerNode]) -> dict[str, Buffer]:
    """Return the buffer of each member of the nodes, by name."""
    result: dict[str, Buffer] = {}
    for node in nodes:
        for member in node.members:
            if isinstance(member, (SchedulerNode, NopKernelSchedulerNode)):
                result[member.name] = member.buffer
            elif isinstance(member, ExternKernelSchedulerNode):
                result[member.name] = member.kernel
    return result
