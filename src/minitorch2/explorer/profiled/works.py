"""The work of kernels and library calls: the bytes that they must move, and what they compute.

Bytes are those of memory that lies outside a kernel: each element that is read or written counts
once. A value that only the kernel itself reads has no memory, and counts nothing. Operations are
the primitives of loop bodies, as the handler that counts them finds, times their iterations. An
expensive primitive counts as `EXPENSIVE`. Symbolic sizes have the values of the example inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import sympy

from minitorch2.codegen.extern import PRODUCTS, is_linear
from minitorch2.codegen.wrapper import WrapperModule
from minitorch2.explorer.profiled.spending import KERNEL, LIBRARY
from minitorch2.graph.node import Node, SourceLine
from minitorch2.loopir.buffers import Buffer, ExternKernel
from minitorch2.loopir.expressions import Expr, index_symbols, product
from minitorch2.loopir.handlers.counter import CountingHandler
from minitorch2.loopir.iteration import Access
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.ops import use_handler
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    KernelNode,
    Schedule,
    SchedulerNode,
    bodies,
    kernels_in,
)

EXPENSIVE = 10
"""The operations of an expensive primitive, a polynomial of ten terms or more."""


@dataclass(frozen=True)
class Work:
    """The work of one kernel or library call, once.

    Attributes:
        kind: ``"kernel"`` or ``"library call"``.
        name: of its range in a profile, such as ``fused_relu_0`` or ``aten::mm``.
        bytes: what it reads and writes of memory.
        operations: what it computes; 0 of library calls but matrix products.
        lines: the user's lines, each once.
        moves_only: whether it computes nothing: it changes a layout.
        hindrance: a property that slows it, as text; "" if none is known.
        nodes: the names of the nodes of the schedule that it runs.
        operator: of a library call, whose range may have the name of another one.
    """

    kind: str
    name: str
    bytes: float
    operations: float = 0.0
    lines: tuple[str, ...] = ()
    moves_only: bool = False
    hindrance: str = ""
    nodes: tuple[str, ...] = ()
    operator: str = ""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a graph's buffers, with the values of symbols in the example inputs."""

    buffers: Mapping[str, Buffer]
    hints: Mapping[sympy.Symbol, int] = field(default_factory=dict)

    @staticmethod
    def of(lowered: LoweredGraph) -> Sizes:
        """Return the sizes of a lowered graph."""
        return Sizes(lowered.by_name(), lowered.hints)

    def number(self, size: Expr) -> float:
        """Return a size as a number; 0 if it has a symbol without a value."""
        known = sympy.sympify(size).subs(self.hints)
        return float(known) if known.is_number else 0.0

    def bytes_of(self, name: str) -> float:
        """Return the bytes of a buffer's memory; 0 for a call that has none."""
        buffer = self.buffers.get(name)
        if buffer is None or (isinstance(buffer, ExternKernel) and buffer.outputs):
            return 0.0
        return self.number(buffer.fixed_layout().storage_size()) * buffer.dtype.itemsize

    def touched(self, body: SchedulerNode, name: str, accesses: Iterable[Access]) -> float:
        """Return the bytes of a buffer that accesses of a body touch."""
        elements = sum(self.number(a.elements(body.sizes)) for a in accesses if a.name == name)
        return min(elements * self.buffers[name].dtype.itemsize, self.bytes_of(name))


def works_of(module: WrapperModule, plan: Schedule, lowered: LoweredGraph) -> list[Work]:
    """Return the work of each kernel and library call of a graph, in order."""
    sizes = Sizes.of(lowered)
    return [work for node in plan.nodes for work in _works(node, module, plan, sizes)]


def _works(
    node: BaseSchedulerNode, module: WrapperModule, plan: Schedule, sizes: Sizes
) -> Iterator[Work]:
    if isinstance(node, ExternKernelSchedulerNode):
        yield _work_of_call(node, sizes)
    elif node.name in module.launches:
        yield _work_of_launch(module.launches[node.name].name, node, plan, sizes)


def _work_of_launch(name: str, node: BaseSchedulerNode, plan: Schedule, sizes: Sizes) -> Work:
    parts = kernels_in(node)
    run = [body for part in parts for body in bodies(part)]
    counters = [*map(counted, run)]
    return Work(
        KERNEL,
        name,
        sum(kernel_bytes(part, plan, sizes) for part in parts),
        sum(c.total * sizes.number(product(b.sizes)) for b, c in zip(run, counters)),
        lines_of(origin for body in run for origin in body.buffer.origins),
        not any(counter.cost.operations for counter in counters),
        "; ".join(dict.fromkeys(h for b, c in zip(run, counters) for h in hindrances(b, c))),
        (node.name,),
    )


def kernel_bytes(kernel: KernelNode, plan: Schedule, sizes: Sizes) -> float:
    """Return the bytes that a kernel reads from memory of others, and writes to memory."""
    own = {body.name for body in bodies(kernel)}
    read = dict.fromkeys(kernel.read_names - own - plan.removed, 0.0)
    written = dict.fromkeys((own - plan.removed) & sizes.buffers.keys(), 0.0)
    for body in bodies(kernel):
        for name in body.read_names & read.keys() & sizes.buffers.keys():
            read[name] = max(read[name], sizes.touched(body, name, body.reads_of))
        if body.name in written:
            written[body.name] = sizes.touched(body, body.name, body.writes_of)
    return sum(read.values()) + sum(written.values())


class _Arithmetic(CountingHandler):
    """A counter that does not take loads for operations."""

    def note(self, primitive: str) -> None:
        """Count one operation, if it is not a load."""
        super().note("constant" if primitive == "load" else primitive)

    @property
    def total(self) -> int:
        """The operations, with expensive ones as so many as they cost."""
        return self.cost.operations + (EXPENSIVE - 1) * self.cost.expensive


def counted(body: SchedulerNode) -> _Arithmetic:
    """Return the handler that has counted one iteration of a body."""
    counter = _Arithmetic()
    symbols, kept = index_symbols("c", len(body.sizes)), len(body.ranges)
    with use_handler(counter):
        body.run(symbols[:kept], symbols[kept:])
    return counter


def hindrances(body: SchedulerNode, counter: _Arithmetic) -> Iterator[str]:
    """Yield the properties of a body for which no machine reaches its limit."""
    for access in body.reads_of:
        inner = access.strides[-1] if access.strides else 0
        if access.is_indirect or not access.is_linear:
            yield f"it reads {access.name} at addresses that it computes"
        elif inner not in (0, 1) and not isinstance(body.sizes[-1], sympy.Basic):
            yield f"its inner loop reads {access.name} with stride {inner}"
    if counter.cost.expensive:
        yield f"{counter.cost.expensive} expensive operations for each element of {body.name}"


def lines_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the user's lines of nodes, each once."""
    lines: Iterable[SourceLine | None] = (node.meta.get("source") for node in nodes)
    return tuple(dict.fromkeys(f"{line.file}:{line.line}" for line in lines if line is not None))


def _work_of_call(node: ExternKernelSchedulerNode, sizes: Sizes) -> Work:
    call = node.kernel
    read = dict.fromkeys(view.name for view in call.views())
    made = [output.name for output in call.outputs] or [call.name]
    return Work(
        LIBRARY,
        "aten::linear" if is_linear(call) else operator_name(call),
        sum(map(sizes.bytes_of, (*read, *made))),
        _product_operations(call, sizes),
        lines_of(call.origins),
        nodes=(node.name,),
        operator=operator_name(call),
    )


def operator_name(call: ExternKernel) -> str:
    """Return the name of the operator that a library call runs."""
    schema = getattr(call.target, "_schema", None)
    return str(schema.name if schema is not None else call.target)


def _product_operations(call: ExternKernel, sizes: Sizes) -> float:
    """Return the operations of a matrix product; 0 for another call."""
    if call.target not in PRODUCTS:
        return 0.0
    *_, left, _ = (view.layout.size for view in call.views())
    return 2.0 * sizes.number(product((*call.fixed_layout().size, left[-1])))
