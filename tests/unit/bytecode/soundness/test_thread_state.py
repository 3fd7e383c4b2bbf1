"""What an interrupted compilation leaves behind is put back."""

import torch
from torch.overrides import BaseTorchFunctionMode

from minitorch2.bytecode.dispatch.isolation import ThreadState
from minitorch2.graph.dispatch_mode import DispatchMode


def test_modes_that_were_not_left_are_left():
    before = ThreadState.now()
    torch.set_grad_enabled(False)
    BaseTorchFunctionMode().__enter__()
    DispatchMode().__enter__()
    before.restore()
    assert ThreadState.now() == before
