"""A view made without gradients needs one as soon as its base does: guards must not miss it."""

import pytest
import torch

import minitorch2
from minitorch2 import stages


def view_of_a_parameter():
    with torch.no_grad():
        return torch.nn.Parameter(torch.ones(4, 4))[0]


def test_a_view_made_without_gradients_needs_the_gradient_of_its_base():
    compiled = minitorch2.compile(lambda x: x * 2, backend="numba")
    assert not compiled(torch.ones(4)).requires_grad
    view = view_of_a_parameter()
    assert view.requires_grad
    assert view.grad_fn is None
    assert compiled(view).requires_grad


@pytest.mark.parametrize("make", [view_of_a_parameter, lambda: torch.ones(4, 4)[0]])
def test_its_entry_serves_the_next_call(make):
    """The position embeddings of Reformer are such views."""
    compiled = minitorch2.compile(lambda x: x * 2, backend="eager")
    with stages.collect() as log:
        compiled(make())
        compiled(make())
    assert log.counts["graphs"] == 1
