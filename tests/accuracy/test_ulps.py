"""Each elementary function, compiled, over its whole range; `ulps.py` scans more densely."""

import pytest
import torch

from tests.accuracy.ulps import FUNCTIONS, Errors, compared, table, truth

STRIDES = {torch.float32: 8191, torch.float64: 1 << 54}


@pytest.mark.parametrize("dtype", STRIDES, ids=str)
def test_errors_are_four_units_or_eagers_own(dtype):
    errors = table(dtype, STRIDES[dtype], 500)
    assert errors.keys() == FUNCTIONS.keys()
    assert {name: each for name, each in errors.items() if not each.is_small} == {}


def errors_of(ours: torch.Tensor, x: torch.Tensor) -> Errors:
    return compared((x,), ours, x.exp(), truth("exp", (x,)))


def test_the_measure_sees_a_wrong_unit_a_wrong_infinity_and_a_lost_subnormal():
    x = torch.tensor([1.0, 2.0, 88.0, 89.0, -100.0])
    assert errors_of(x.exp(), x).is_small
    off = x.exp() * (1 + torch.tensor([0.0, 6e-7, 0.0, 0.0, 0.0]))
    assert 9 < errors_of(off, x).ours < 10 and errors_of(off, x).worst == (2.0,)
    assert errors_of(x.exp().where(x != 88, torch.inf), x).special == 1
    assert errors_of(x.exp().where(x != 89, 3.4e38), x).special == 1
    assert not errors_of(x.exp().where(x > 0, 0.0), x).is_small
