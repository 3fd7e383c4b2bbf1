"""Sites: products and convolutions of a schedule that a template could compute.

site ::= Site(product, prologues, epilogue)   product: a library call that is a contraction
                                              prologues: kernels of its operands alone
                                              epilogue: the pointwise kernel that alone reads it
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from minitorch2 import stages
from minitorch2.codegen.triton.own_kernels import OwnKernelNode
from minitorch2.codegen.triton.templates.contraction import Contraction
from minitorch2.loopir.buffers import BufferView, ComputedBuffer
from minitorch2.loopir.expressions import equal, product
from minitorch2.loopir.iteration import Access
from minitorch2.loopir.layout import contiguous_strides, is_dense
from minitorch2.loopir.loops import Pointwise
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.memory_plan import plan_memory
from minitorch2.loopir.ops import ops
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    KernelNode,
    Schedule,
    SchedulerNode,
    bodies,
)


@dataclass(frozen=True)
class Site:
    """A library call with the kernels before and after it that could become one kernel with it."""

    product: ExternKernelSchedulerNode
    sum: Contraction
    prologues: tuple[SchedulerNode, ...]
    epilogue: KernelNode | None

    @property
    def behind(self) -> tuple[KernelNode, ...]:
        """The epilogue, if there is one."""
        return () if self.epilogue is None else (self.epilogue,)

    @cached_property
    def stores(self) -> list[SchedulerNode]:
        """The bodies that store a result: the epilogue's, or one that stores the sum unchanged."""
        return bodies(self.epilogue) if self.epilogue else [identity(self.product)]


def find_sites(
    schedule: Schedule, outputs: Collection[str], taken: Collection[object] = ()
) -> Iterator[Site]:
    """Yield the sites of a schedule, in order, without nodes that are in `taken` by then.

    A kernel between two products may be the epilogue of one or the prologue of the other.
    """
    readers: dict[str, list[BaseSchedulerNode]] = {}
    for node in schedule.nodes:
        for name in node.read_names:
            readers.setdefault(name, []).append(node)
    producers = {node.name: node for node in schedule.nodes if isinstance(node, SchedulerNode)}

    def only_reader(name: str) -> BaseSchedulerNode | None:
        found = readers.get(name, [])
        return found[0] if len(found) == 1 and name not in outputs else None

    for node in schedule.nodes:
        if not isinstance(node, ExternKernelSchedulerNode):
            continue
        given = Contraction.of(node.kernel)
        if given is None:
            continue
        views = {operand.view.name: operand.view for operand in (given.left, given.right)}
        prologues = tuple(
            producers[name]
            for name, view in views.items()
            if only_reader(name) is not None
            and producers.get(name) not in (None, *taken)
            and _is_computable(producers[name], view)
        )
        reader = only_reader(node.name)
        behind = reader if isinstance(reader, SchedulerNode | FusedSchedulerNode) else None
        fits = behind is not None and behind not in taken and _fits(behind, node.name, given)
        yield Site(node, given, prologues, behind if fits else None)


def _is_computable(node: SchedulerNode, view: BufferView) -> bool:
    """Return whether a kernel computes an operand element by element, on the operand's device."""
    layout = node.buffer.fixed_layout()
    is_plain = isinstance(node.buffer.loops, Pointwise) and layout.offset == 0
    return is_plain and is_dense(layout.size, layout.stride) and layout.device == view.layout.device


def _fits(epilogue: KernelNode, name: str, given: Contraction) -> bool:
    """Return whether a kernel visits exactly the result's elements, and each body once."""
    return all(
        not body.has_inner_loops
        and equal(product(body.sizes), given.elements)
        and body.buffer.base is None
        and body.buffer.device == given.left.view.layout.device
        and all(in_order(access, body) for access in body.reads_of if access.name == name)
        for body in bodies(epilogue)
    )


def in_order(access: Access, body: SchedulerNode) -> bool:
    """Return whether a body visits a buffer's elements in the order of memory."""
    return access.offset == 0 and access.strides == contiguous_strides(body.sizes)


def identity(node: ExternKernelSchedulerNode) -> SchedulerNode:
    """Return the body that stores a sum where the library would, in the order of memory."""
    kernel = node.kernel
    layout = kernel.fixed_layout()
    loops = Pointwise(
        layout.device, layout.dtype, layout.size,
        lambda index: ops.load(kernel.name, layout.index(index)),
    )  # fmt: skip
    body = SchedulerNode(ComputedBuffer(kernel.name, layout, loops, origins=()), node.order)
    if not layout.is_contiguous():
        steps = body.writes_of[0].strides
        body.permute(sorted(range(len(steps)), key=lambda loop: -int(steps[loop] or 0)))
    return body


def replaced(
    lowered: LoweredGraph,
    plan: Schedule,
    capabilities: Capabilities,
    own: Mapping[BaseSchedulerNode, OwnKernelNode],
    taken: Collection[BaseSchedulerNode],
) -> Schedule:
    """Return the schedule with own kernels in the place of nodes, and without those in `taken`."""
    if not own:
        return plan
    kept = [node for node in plan.nodes if node not in taken or node in own]
    nodes = [own.get(node, node) for node in kept]
    result = plan_memory(Schedule(nodes, log=plan.log), lowered, capabilities)
    stored = {body.name for node in own.values() for body in node.nodes}
    absorbed = {node.name for each in own.values() for node in each.absorbed}
    result.removed |= absorbed - stored
    result.inplace = result.inplace.without(stored)
    stages.count("templates", len(own))
    return result
