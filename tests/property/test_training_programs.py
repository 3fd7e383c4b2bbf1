"""Training programs, compiled, leave what eager PyTorch leaves; ordinary steps are one graph."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings

from tests.property.training_programs import (
    LOSSES,
    MODELS,
    OPTIMIZERS,
    STYLES,
    Program,
    check,
    programs,
    random_programs,
)

NAMED = [
    *(Program(model, "cross_entropy", "momentum", "ordinary") for model in MODELS),
    *(Program("mlp", loss, "sgd", "ordinary") for loss in LOSSES),
    *(Program("mlp", "mse", optimizer, "ordinary") for optimizer in OPTIMIZERS),
    *(Program("mlp", "cross_entropy", "adamw", style) for style in STYLES),
]
"""Each part once, with ordinary others."""


@pytest.mark.parametrize("program", NAMED, ids=str)
def test_each_model_loss_optimizer_and_style(program: Program) -> None:
    check(program)


@given(programs())
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_random_training_programs(program: Program) -> None:
    check(program)


@pytest.mark.parametrize("program", itertools.islice(random_programs(3), 8), ids=str)
def test_random_training_programs_in_kernels(program: Program) -> None:
    check(program, "numba")
