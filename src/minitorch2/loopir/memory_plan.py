"""The life of buffers: buffers that need no memory, last uses, and reuse of memory in place.

A buffer whose readers are all in the kernel that computes it needs no memory, unless a later pass
over a long row reads it back. This is buffer removal (PyTorch 2 paper, section 4.4). A dying buffer
of equal size is reused in place if each iteration reads it only at the address that the iteration
then writes. The same kernel may have written it in an earlier pass.
"""

from __future__ import annotations

from minitorch2.graph.raising import may_raise
from minitorch2.graph.symbols import free_symbols
from minitorch2.loopir.buffers import Buffer, ComputedBuffer, ExternKernel, InputBuffer
from minitorch2.loopir.expressions import Expr, equal, product
from minitorch2.loopir.handlers.effects import INDIRECT_PREFIX
from minitorch2.loopir.loop_order import reduces_across
from minitorch2.loopir.loops import Reduction
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    InPlace,
    KernelNode,
    Schedule,
    SchedulerNode,
    bodies,
    buffers_of,
    kernels_in,
)

SCRATCH_COLUMNS = 64
"""How many neighbouring outputs a kernel works on at a time if it keeps all their elements."""


def plan_memory(schedule: Schedule, lowered: LoweredGraph, capabilities: Capabilities) -> Schedule:
    """Fill `removed`, `last_use` and `inplace` of a schedule whose nodes are in order."""
    schedule.removed = _find_removed(schedule, lowered.output_names, capabilities)
    schedule.last_use = _find_last_uses(schedule)
    schedule.inplace = _find_inplace(schedule, lowered)
    return schedule


# -- removal ---------------------------------------------------------------------------------------


def _find_removed(
    schedule: Schedule, outputs: frozenset[str], capabilities: Capabilities
) -> set[str]:
    readers: dict[str, set[int]] = {}
    for position, node in enumerate(schedule.nodes):
        for name in node.read_names:
            readers.setdefault(name, set()).add(position)
    removed: set[str] = set()
    shared = _shared_memory(schedule)
    outputs = outputs | shared.keys() | set(shared.values())
    for position, node in enumerate(schedule.nodes):
        for kernel in kernels_in(node):
            left = capabilities.row_scratch
            for body in bodies(kernel) if isinstance(kernel, FusedSchedulerNode) else ():
                if not readers.get(body.name, set()) <= {position} or body.name in outputs:
                    continue
                needed = 0 if capabilities.recomputes_rows else _scratch_elements(body, kernel)
                if isinstance(needed, int) and needed <= left:
                    left -= needed
                    removed.add(body.name)
            removed |= kernel.written_names - {body.name for body in bodies(kernel)}
    return removed


def _shared_memory(schedule: Schedule) -> dict[str, str]:
    """Return, for each scatter, the buffer whose memory it stores into."""
    computed = [body for node in schedule.kernels() for body in bodies(node)]
    return {body.name: body.buffer.base for body in computed if body.buffer.base}


def _scratch_elements(body: SchedulerNode, node: KernelNode) -> Expr:
    """Return the elements that a kernel must keep to have a body's value until its last reader."""
    if body.is_reduction or not body.covers_reduction:
        return 0
    if not outlives_pass(body, node):
        return 0
    length = product(node.reduction_ranges)
    return product((length, SCRATCH_COLUMNS)) if reduces_across(node) else length


def outlives_pass(body: SchedulerNode, node: KernelNode) -> bool:
    """Return whether a later pass, or a search for a position, reads a body's values.

    The search runs along the row after the pass that computes the values.
    """
    level = passes(node)
    readers = [reader for reader in bodies(node) if body.name in reader.read_names]
    is_searched = not reduces_across(node) and any(map(searches, readers))
    return is_searched or any(level[reader.name] > level[body.name] for reader in readers)


def searches(body: SchedulerNode) -> bool:
    """Return whether a body looks for a position, which along a row is a loop after the pass."""
    loops = body.buffer.loops
    return isinstance(loops, Reduction) and loops.kind in ("argmax", "argmin")


def passes(node: KernelNode) -> dict[str, int]:
    """Return for each body the number of its pass over the reduction loops.

    A body that covers the loops and needs a reduction's result runs in a later pass than that
    reduction. A body that does not cover them runs once, after the pass of its number (-1: before
    all).
    """
    level: dict[str, int] = {}
    by_name = {body.name: body for body in bodies(node)}
    for body in bodies(node):
        producers = [by_name[name] for name in body.read_names if name in level]
        first = 0 if body.covers_reduction else -1  # -1: before the first pass
        level[body.name] = max([first, *(_after(p, body, level) for p in producers)])
    return level


def _after(producer: SchedulerNode, consumer: SchedulerNode, level: dict[str, int]) -> int:
    """Return the first pass in which the consumer can read the producer's value."""
    waits = producer.is_reduction or producer.is_scan or not producer.covers_reduction
    return level[producer.name] + (1 if waits and consumer.covers_reduction else 0)


# -- lives -----------------------------------------------------------------------------------------


def _find_last_uses(schedule: Schedule) -> dict[str, int]:
    last: dict[str, int] = {}
    for position, node in enumerate(schedule.nodes):
        for name in sorted(node.read_names | node.written_names):  # the same text in every run
            last[name] = position
    return last


def _find_inplace(schedule: Schedule, lowered: LoweredGraph) -> InPlace:
    """Find for each new buffer one that dies in the same kernel and has as much memory."""
    buffers = {**buffers_of(schedule.nodes), **lowered.donated}
    outputs = lowered.output_names
    inplace = {**_shared_memory(schedule), **_written_back(schedule, lowered)}
    taken = set(inplace.values())
    for position, node in enumerate(schedule.nodes):
        for kernel, body in _bodies_in(node):
            if body.name in schedule.removed or body.name in inplace:
                continue
            read = kernel.read_names - {body.name} - schedule.removed - taken - outputs
            for name in sorted(read):
                dies = schedule.last_use[name] == position and _is_owned(buffers.get(name))
                if dies and _can_take_over(body, kernel, node, buffers[name]):
                    inplace[body.name] = name
                    taken.add(name)
                    break
    return InPlace(inplace)


def _bodies_in(node: BaseSchedulerNode) -> list[tuple[KernelNode, SchedulerNode]]:
    """Return each body that a node runs, with its kernel."""
    return [(kernel, body) for kernel in kernels_in(node) for body in bodies(kernel)]


def _written_back(schedule: Schedule, lowered: LoweredGraph) -> dict[str, str]:
    """Return outputs computed in the memory of the arguments to which the caller copies them.

    This is legal only where nothing can fail any more: a graph that raises must not have changed an
    argument.
    """
    found: dict[str, str] = {}
    rewritten = lowered.rewritten
    for position, node in reversed([*enumerate(schedule.nodes if rewritten else ())]):
        if may_raise_at(node):
            break
        for kernel, body in _bodies_in(node):
            argument = rewritten.get(body.name)
            if argument is None or body.name in schedule.removed or body.buffer.base:
                continue
            is_last = schedule.last_use.get(argument.name, position) <= position
            if is_last and _can_take_over(body, kernel, node, argument):
                found[body.name] = argument.name
    return found


def may_raise_at(node: BaseSchedulerNode) -> bool:
    """Return whether a node checks values, divides, or computes addresses, which may be wrong.

    A fallback runs PyTorch's own operator, whose result may share memory with an argument.
    """
    if isinstance(node, ExternKernelSchedulerNode):
        is_known = bool(node.origins) and not node.kernel.is_fallback
        return not is_known or any(map(may_raise, node.origins))
    if any(may_raise(origin) for _, body in _bodies_in(node) for origin in body.buffer.origins):
        return True
    accesses = [a for _, body in _bodies_in(node) for a in (*body.reads_of, *body.writes_of)]
    symbols = free_symbols([(access.strides, access.offset) for access in accesses])
    is_computed = any(symbol.name.startswith(INDIRECT_PREFIX) for symbol in symbols)
    return is_computed or not all(access.is_linear for access in accesses)


def _is_owned(buffer: Buffer | None) -> bool:
    """Return whether the graph may write to the memory: the caller's only if it is donated."""
    if isinstance(buffer, ExternKernel):
        return not (buffer.outputs or buffer.is_fallback or buffer.copies_result)
    return isinstance(buffer, (ComputedBuffer, InputBuffer))


def _can_take_over(
    body: SchedulerNode, node: KernelNode, launch: BaseSchedulerNode, dying: Buffer
) -> bool:
    if any(dying.name in k.read_names for k in kernels_in(launch) if k is not node):
        return False  # which of them runs first is not said
    own, other = body.buffer.fixed_layout(), dying.fixed_layout()
    if own.dtype != other.dtype or not equal(own.storage_size(), other.storage_size()):
        return False
    if own.device != other.device or body.is_reduction or not body.covers_reduction:
        return False
    write = body.writes_of[0]
    return all(
        (access.strides, access.offset) == (write.strides, write.offset)
        for reader in bodies(node)
        for access in reader.reads_of
        if access.name == dying.name
    ) and all(
        _reads_before(reader, body, node)
        for reader in bodies(node)
        if dying.name in reader.read_names
    )


def _reads_before(reader: SchedulerNode, writer: SchedulerNode, node: KernelNode) -> bool:
    """Return whether `reader` has read an element for the last time when `writer` writes it."""
    level = passes(node)
    if level[reader.name] != level[writer.name]:
        return level[reader.name] < level[writer.name]
    return reader.order <= writer.order and not searches(reader)
