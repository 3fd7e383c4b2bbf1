"""From a scheduled kernel to the source of a range function, and the arguments of its call.

Four shapes, chosen by where memory is contiguous and by whether stores may meet:

    pointwise    for i in range(lo, hi):            the outer loops, flattened, shared by threads
                     for j in range(n): ...         the inner loop, which is vectorized
    rows         for i in range(lo, hi):            one row: reductions along contiguous memory
                     for r in range(k): ...         one loop per pass over the row
    columns      for i in range(lo, hi):            a block of outputs that are neighbours in memory
                     for r in range(k):
                         for j in block: ...        reductions across rows: many accumulators
    scatter      for i in range(lo, hi):            elements of its own for every thread
                     for r in range(k): ...         stores that may meet, in order

A fused kernel makes one pass over the reduction loops for each step in the chain of results that
depend on each other. Values needed by a later pass stay on the stack if the schedule has removed
their buffers.
"""

from __future__ import annotations

from collections.abc import Mapping

from minitorch2.codegen.numba.columns import ColumnPrinter
from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.codegen.numba.pointwise import PointwisePrinter
from minitorch2.codegen.numba.rows import RowPrinter
from minitorch2.codegen.numba.scatter import ScatterPrinter
from minitorch2.codegen.target import Kernel
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.loop_order import reduces_across
from minitorch2.loopir.schedule import KernelNode, Schedule, bodies
from minitorch2.native.kernels.runtime import KernelSource


def print_kernel(
    node: KernelNode, schedule: Schedule, buffers: Mapping[str, Buffer], name: str
) -> Kernel[KernelSource]:
    """Return the kernel of a scheduled node.

    Raises:
        LoweringError: a primitive has no Numba form for its dtype.
    """
    shape = _choose_shape(node)
    return shape(node, schedule, buffers).print(name)


def _choose_shape(node: KernelNode) -> type[KernelPrinter]:
    if any(body.repeats_stores for body in bodies(node)):
        return ScatterPrinter
    if not any(body.has_inner_loops for body in bodies(node)):
        return PointwisePrinter
    return ColumnPrinter if reduces_across(node) else RowPrinter
