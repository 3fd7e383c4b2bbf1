"""The call that waits for a collective: it also reads what the collective reads.

A collective may read its operands until it is done. Memory is free, or written in place, after its
last reader. So the wait counts as a reader of the operands of the start.
"""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import MultiOutput, current_table
from minitorch2.loopir.lowering.fallback import extern_call, realize_arguments

LIBRARY = torch.library.Library("minitorch2", "FRAGMENT")  # type: ignore[no-untyped-call]
LIBRARY.define("wait_for(Tensor started, Tensor[] read) -> Tensor")  # type: ignore[no-untyped-call]


def wait_for(started: torch.Tensor, read: list[torch.Tensor]) -> torch.Tensor:
    """Return the result of a collective when it has come; `read` are its operands."""
    del read
    return torch.ops._c10d_functional.wait_tensor(started)  # type: ignore[no-any-return]


LIBRARY.impl("wait_for", wait_for, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]


def wait_tensor(started: TensorBox) -> Any:
    """Call `wait_for` with the start's operands."""
    view = realize_arguments(started, "a wait reads memory")
    buffer = view.buffer
    kernel = buffer.kernel if isinstance(buffer, MultiOutput) else buffer
    read = kernel.views() if hasattr(kernel, "views") else []
    wait = torch.ops.minitorch2.wait_for.default
    return extern_call(wait, (view, read), {}, current_table().result, is_fallback=True)
