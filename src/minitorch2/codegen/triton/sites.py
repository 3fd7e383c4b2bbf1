"""Where a schedule has a product or a convolution that a template could compute.

site ::= Site(product, prologues, epilogue)   product: a library call that is a contraction
                                              prologues: kernels of its operands alone
                                              epilogue: the pointwise kernel that alone reads it
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from minitorch2.codegen.triton.contraction import Contraction
from minitorch2.loopir.buffers import BufferView, ComputedBuffer
from minitorch2.loopir.expressions import equal, product
from minitorch2.loopir.iteration import Access
from minitorch2.loopir.layout import contiguous_strides, is_dense
from minitorch2.loopir.loops import Pointwise
from minitorch2.loopir.ops import ops
from minitorch2.loopir.schedule import (
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    KernelNode,
    Schedule,
    SchedulerNode,
    bodies,
)


@dataclass(frozen=True, eq=False)
class Site:
    """A library call with the kernels before and after it that could be one with it."""

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
        """The bodies that store something: the epilogue's, or one that stores the sum as it is."""
        return bodies(self.epilogue) if self.epilogue else [_identity(self.product)]


def find_sites(schedule: Schedule, outputs: Collection[str]) -> Iterator[Site]:
    """The sites of a schedule, in order; no kernel is in two of them."""
    taken = set[int]()
    readers: dict[str, list[object]] = {}
    for node in schedule.nodes:
        for name in node.read_names:
            readers.setdefault(name, []).append(node)
    producers = {node.name: node for node in schedule.nodes if isinstance(node, SchedulerNode)}

    def is_private(name: str) -> bool:
        return name not in outputs and len(readers.get(name, ())) == 1

    for node in schedule.nodes:
        if not isinstance(node, ExternKernelSchedulerNode):
            continue
        given = Contraction.of(node.kernel)
        if given is None:
            continue
        views = {operand.view.name: operand.view for operand in (given.left, given.right)}
        candidates = [producers[name] for name in views if name in producers and is_private(name)]
        prologues = tuple(
            p for p in candidates if id(p) not in taken and _is_computable(p, views[p.name])
        )
        (epilogue,) = readers[node.name] if is_private(node.name) else (None,)
        if id(epilogue) in taken or not _fits(epilogue, node.name, given):
            epilogue = None
        taken |= {id(part) for part in (*prologues, epilogue)}
        yield Site(node, given, prologues, epilogue)  # type: ignore[arg-type]


def _is_computable(node: SchedulerNode, view: BufferView) -> bool:
    """Whether a kernel computes an operand element by element, on the operand's device."""
    layout = node.buffer.fixed_layout()
    is_plain = isinstance(node.buffer.loops, Pointwise) and layout.offset == 0
    return is_plain and is_dense(layout.size, layout.stride) and layout.device == view.layout.device


def _fits(epilogue: object, name: str, given: Contraction) -> bool:
    """Whether a kernel visits exactly the result's elements, and each body once."""
    if not isinstance(epilogue, SchedulerNode | FusedSchedulerNode):
        return False
    return all(
        not body.is_reduction
        and equal(product(body.sizes), given.elements)
        and body.buffer.base is None
        and body.buffer.device == given.left.view.layout.device
        and all(_in_order(access, body) for access in body.reads_of if access.name == name)
        for body in bodies(epilogue)
    )


def _in_order(access: Access, body: SchedulerNode) -> bool:
    return access.offset == 0 and access.strides == contiguous_strides(body.sizes)


def _identity(node: ExternKernelSchedulerNode) -> SchedulerNode:
    """The body that stores a sum where the library would, its loops in the order of memory."""
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
