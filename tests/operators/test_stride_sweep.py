"""A part of the sweep of strides; `stride_sweep.py` runs the whole database."""

import pytest

from tests.operators.stride_sweep import differences
from tests.operators.sweep import OPERATORS

FOUND_WRONG = """
    flip abs empty_like zeros_like sort maximum mul eq sgn deg2rad frexp index_put
    sum mean var aminmax linalg.svd svd linalg.eig pinverse
    nn.functional.hardtanh nn.functional.binary_cross_entropy
""".split()  # noqa: SIM905  (reads as a table)


@pytest.mark.parametrize("name", FOUND_WRONG)
def test_strides_of_dimensions_of_one_element_or_none_are_eager_modes(name):
    """Meta kernels gave such dimensions other strides than real kernels do."""
    assert name in OPERATORS
    found, compared = differences(name)
    assert not found
    assert compared
