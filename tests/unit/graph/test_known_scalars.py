"""Scalars computed of numbers keep their value while capturing, but never a value that is old."""

import torch

import minitorch2
from minitorch2.graph.fake_tensor import FakeMode


def test_a_scalar_made_of_numbers_is_a_size():
    """Longformer divides its sizes with `torch.div`."""

    def program(x):
        rows = torch.div(4, 2, rounding_mode="trunc")
        return x.view(rows, -1) + x.new_zeros(torch.tensor(3) + 3)

    x = torch.randn(4, 3)
    for backend in ("eager", "numba"):
        compiled = minitorch2.compile(program, backend=backend, fullgraph=True)
        assert torch.equal(compiled(x), program(x))


def test_reading_a_known_scalar_does_not_break():
    def program(x):
        n = torch.tensor(3)
        return x + n.item() + int(n * 2)

    x = torch.ones(2)
    compiled = minitorch2.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), program(x))


def test_what_is_written_to_is_not_known():
    def program(x):
        n, m = torch.tensor(2), torch.tensor(2)
        n.view(1).add_(1)
        m += 4
        return x + n.item() + m.item()

    x = torch.ones(2)
    assert torch.equal(minitorch2.compile(program, backend="eager")(x), program(x))


def test_what_is_random_or_has_elements_is_not_known():
    with FakeMode():
        assert torch.rand(()).known is None
        assert torch.ones(1).known is None
        assert (torch.tensor(2.0) * torch.rand(())).known is None
        assert (torch.tensor(2.0) * 2).known.item() == 4
