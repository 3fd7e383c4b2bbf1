"""Check a lowered graph against the rules of its grammar; run in tests and with `config.verify`."""

from __future__ import annotations

from typing import Any

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
from minitorch2.loopir.expressions import index_symbols
from minitorch2.loopir.handlers.dtypes import TypingHandler
from minitorch2.loopir.handlers.recorder import RecordingHandler
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.ops import OpsHandler, use_handler


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
        _run(buffer, recorder := RecordingHandler())
        base = {buffer.base} if buffer.base else set()
        return base | {name for name, _ in recorder.reads}
    if isinstance(buffer, ExternKernel):
        return {view.name for view in buffer.views()}
    return {buffer.kernel.name} if isinstance(buffer, MultiOutput) else set()


def _verify_body(buffer: ComputedBuffer, dtypes: dict[str, torch.dtype]) -> None:
    _run(buffer, recorder := RecordingHandler())
    if [name for name, _ in recorder.writes] != [buffer.name]:
        raise VerificationError(f"the body of {buffer.name} must store exactly once, into it")
    _run(buffer, TypingHandler(dtypes))


def _run(buffer: ComputedBuffer, handler: OpsHandler[Any]) -> None:
    kept, reduced = len(buffer.loops.ranges), len(buffer.loops.reduction_ranges)
    symbols = index_symbols("i", kept + reduced)
    with use_handler(handler):
        buffer.run(symbols[:kept], symbols[kept:])
