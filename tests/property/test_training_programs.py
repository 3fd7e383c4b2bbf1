"""Training programs, compiled, leave what eager PyTorch leaves; ordinary steps are one graph.

Here is a small sample. `python -m tests.property.training_programs` checks each part and any number
of random programs, in kernels.
"""

import itertools

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.property.training_programs import Program, check, programs, random_programs

SMALL = settings(
    max_examples=max(settings().max_examples // 20, 1),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a smaller program is no clearer one
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
ARRIVALS = ("accumulated", "gradient_hooks", "reduced_in_backward", "twice_backward", "weighted")
"""Styles in which more happens to a gradient than that it is stored."""


@SMALL
@given(programs(models=["linear", "unused"], optimizers=["plain", "sgd"], styles=ARRIVALS))
def test_gradients_arrive_as_in_eager(program: Program) -> None:
    check(program)


@SMALL
@given(programs())
def test_random_training_programs(program: Program) -> None:
    check(program)


@pytest.mark.parametrize("program", [*itertools.islice(random_programs(3), 2)], ids=str)
def test_random_training_programs_in_kernels(program: Program) -> None:
    check(program, "numba")
