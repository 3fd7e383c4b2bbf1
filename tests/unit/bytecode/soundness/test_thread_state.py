"""What an interrupted compilation leaves behind is put back."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.overrides import BaseTorchFunctionMode

import minitorch2
from minitorch2.bytecode.compiling.isolation import ThreadState
from minitorch2.graph.dispatch_mode import DispatchMode


def test_modes_that_were_not_left_are_left():
    before = ThreadState.now()
    torch.set_grad_enabled(False)
    BaseTorchFunctionMode().__enter__()
    DispatchMode().__enter__()
    before.restore()
    assert ThreadState.now() == before


def _without_gradients(x, places):
    with torch.no_grad():
        y = x[places]
    return y * 2


def _in_autocast(x, places):
    with torch.autocast("cpu"):
        return (x[places] * x) @ x


def _in_a_level(x, places):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(x, x)[places].sin()).tangent


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [_without_gradients, _in_autocast, _in_a_level])
def test_a_graph_that_raises_leaves_the_modes_that_it_has_entered(function, backend):
    """Gradients were off, and autocast on, in all that followed."""
    compiled = minitorch2.compile(function, backend=backend)
    x = torch.randn(4)
    compiled(x, torch.tensor([1, 2, 0, 0]))
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9, 2, 0, 0]))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert forward_ad._current_level == -1
