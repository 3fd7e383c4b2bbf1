"""Check a lowered graph against the rules of its grammar; run in tests and with `config.verify`."""

from __future__ import annotations

import torch

from minitorch2.errors import VerificationError
from minitorch2.loopir.buffers import (
    Buffer,
    BufferView,
    ComputedBuffer,
    ExternKernel,
    InputBuffer,
    MultiOutput,
)
from minitorch2.loopir.dependencies import extract_reads_writes
from minitorch2.loopir.expressions import index_symbols
from minitorch2.loopir.handlers.dtypes import TypingHandler
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.ops import use_handler


def verify_lowered(lowered: LoweredGraph) -> None:
    """Check unique names, writes before reads, and well typed bodies that store once.

    Raises:
        VerificationError: one of these does not hold.
    """
    dtypes = {b.name: b.dtype for b in lowered.inputs if isinstance(b, InputBuffer)}
    dtypes |= {name: constant.dtype for name, constant in lowered.constants.items()}
    for buffer in lowered.buffers:
        if buffer.name in dtypes:
            raise VerificationError(f"two buffers are called {buffer.name}")
        for name in names_read(buffer):
            if name not in dtypes:
                raise VerificationError(f"{buffer.name} reads {name}, which comes later or never")
        dtypes[buffer.name] = buffer.dtype
        if isinstance(buffer, ComputedBuffer):
            _verify_body(buffer, dtypes)
    for output in lowered.outputs:
        if isinstance(output, BufferView) and output.name not in dtypes:
            raise VerificationError(f"output {output.name} is never computed")


def names_read(buffer: Buffer) -> set[str]:
    """Return the names of the buffers that must be there before this one can be computed."""
    if isinstance(buffer, ComputedBuffer):
        loops = buffer.loops
        accesses = extract_reads_writes(buffer.run, loops.ranges, loops.reduction_ranges)
        base = {buffer.base} if buffer.base else set()
        return base | {dependency.name for dependency in accesses.reads}
    if isinstance(buffer, ExternKernel):
        return {view.name for view in buffer.views()}
    return {buffer.kernel.name} if isinstance(buffer, MultiOutput) else set()


def _verify_body(buffer: ComputedBuffer, dtypes: dict[str, torch.dtype]) -> None:
    loops = buffer.loops
    symbols = index_symbols("i", len(loops.ranges) + len(loops.reduction_ranges))
    accesses = extract_reads_writes(buffer.run, loops.ranges, loops.reduction_ranges)
    if [write.name for write in accesses.writes] != [buffer.name]:
        raise VerificationError(f"the body of {buffer.name} must store exactly once, into it")
    with use_handler(TypingHandler(dtypes)):
        buffer.run(symbols[: len(loops.ranges)], symbols[len(loops.ranges) :])
