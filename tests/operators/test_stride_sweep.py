"""A part of the sweep of strides; `stride_sweep.py` runs the whole database."""

import pytest
import torch

from minitorch2.graph.fake_tensor import to_fake
from tests.operators.stride_sweep import differences
from tests.operators.sweep import OPERATORS

FOUND_WRONG = """
    flip abs empty_like zeros_like sort maximum mul eq sgn deg2rad frexp index_put
    sum mean var aminmax linalg.svd svd linalg.eig pinverse
    unsafe_split fill cdist nn.functional.huber_loss nn.functional.conv2d
    nn.functional.pixel_unshuffle nn.functional.hardtanh nn.functional.binary_cross_entropy
    nn.functional.layer_norm nn.functional.unfold nonzero_static
""".split()  # noqa: SIM905  (reads as a table)


@pytest.mark.parametrize("name", FOUND_WRONG)
def test_strides_of_dimensions_of_one_element_or_none_are_eager_modes(name):
    """Meta kernels gave such dimensions other strides than real kernels do."""
    assert name in OPERATORS
    found, compared = differences(name)
    assert not found
    assert compared


@pytest.mark.parametrize("func", [torch.tril, torch.triu])
@pytest.mark.parametrize("strides", [(1, 7), (7, 7), (1, 3)])
def test_triangles_of_a_column_are_row_major(func, strides):
    column = torch.zeros(22).as_strided((3, 1), strides)
    assert func(to_fake(column)).stride() == func(column).stride()


@pytest.mark.parametrize("dims", [(0, 1, 2), (2, 0, 1), (0,), (2, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_spectra_of_real_numbers_lie_as_cpu_libraries_put_them(dims, order):
    """`rfftn` of three dimensions promised another order, so `.view(-1)` of it was refused."""
    x = torch.randn(5, 6, 8).permute(order)
    assert torch.fft.rfftn(to_fake(x), dim=dims).stride() == torch.fft.rfftn(x, dim=dims).stride()
