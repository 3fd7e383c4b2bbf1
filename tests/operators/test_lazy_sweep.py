"""A part of the sweep of deferred execution; `lazy_sweep.py` runs the whole database."""

import pytest
import torch

from tests.operators.lazy_sweep import differences
from tests.operators.sweep import OPERATORS

FOUND_WRONG = """
    tensor_split as_strided_scatter nn.functional.upsample_nearest nn.functional.upsample_bilinear
    nn.functional.interpolate:nearest nn.functional.interpolate:bicubic
""".split()  # noqa: SIM905  (reads as a table)
SAMPLED = [*OPERATORS][::40]


@pytest.mark.parametrize("name", [*dict.fromkeys([*FOUND_WRONG, *SAMPLED])])
def test_deferred_values_and_gradients_match_eager(name):
    op = OPERATORS[name]
    if torch.float32 in op.dtypes:
        assert not [*differences(op, torch.float32, limit=2)]
