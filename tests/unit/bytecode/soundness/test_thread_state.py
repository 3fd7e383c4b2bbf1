"""What an interrupted compilation leaves behind is put back."""

import torch
from torch.overrides import TorchFunctionMode

from minitorch2.bytecode.dispatch.isolation import ThreadState
from minitorch2.graph.dispatch_mode import DispatchMode


class Watching(DispatchMode):
    """A mode that was entered and never left."""


def test_modes_that_were_not_left_are_left():
    before = ThreadState.now()
    Watching().__enter__()
    TorchFunctionMode().__enter__()
    torch.set_grad_enabled(False)
    before.restore()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch._C._len_torch_function_stack() == 0
    assert torch.is_grad_enabled()
