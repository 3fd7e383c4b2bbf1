"""Training programs, compiled, leave what eager PyTorch leaves; ordinary steps are one graph.

Here is a small sample. `python -m tests.property.training_programs` checks each part and any number
of random programs, in kernels.
"""

import itertools

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import minitorch2
from tests.property import training_styles
from tests.property.training_programs import Program, check, programs, random_programs

SMALL = settings(
    max_examples=max(settings().max_examples // 20, 1),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a smaller program is no clearer one
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
ARRIVALS = ("accumulated", "gradient_hooks", "reduced_in_backward", "twice_backward", "weighted")
"""Styles in which more happens to a gradient than that it is stored."""

HOOKS = ("hooks_of_leaves_inside", "hooks_of_modules_inside", "hooks_with_effects_inside")
"""Styles whose step sets hooks and removes them."""

BROKEN = ("broken_before", "broken_behind")
"""Styles in which Python runs ``backward``, or may do so."""

RARE_MODELS = ("sparse", "checkpointed", "bag", "embedding", "hooked")
"""Models whose gradients are sparse, or made in a second forward pass."""
PLAIN_STYLES = ("ordinary", "zeros_kept", "accumulated")


@SMALL
@given(programs(models=["linear", "unused"], optimizers=["plain", "sgd"], styles=ARRIVALS))
def test_gradients_arrive_as_in_eager(program: Program) -> None:
    check(program)


@SMALL
@given(programs(models=RARE_MODELS, optimizers=["plain"], styles=PLAIN_STYLES))
def test_gradients_of_rare_modules_are_eagers(program: Program) -> None:
    check(program)


@SMALL
@given(programs(models=["linear", "unused"], optimizers=["plain"], styles=HOOKS))
def test_hooks_that_a_step_sets_are_called(program: Program) -> None:
    check(program)


@SMALL
@given(programs(models=["linear"], losses=["mse"], optimizers=["plain"], styles=BROKEN))
def test_generated_programs_are_not_captured(program: Program) -> None:
    breaks = check(program, "numba").texts("graph_break")
    assert not [text for text in breaks if training_styles.__file__ not in text.splitlines()[0]]


@SMALL
@given(st.lists(st.integers(0, 4), max_size=5), st.sampled_from(("sum", "mean", "tanh")))
def test_sparse_gradients_are_eagers(places: list[int], step: str) -> None:
    def program(table: torch.Tensor) -> torch.Tensor:
        rows = torch.nn.functional.embedding(torch.tensor(places).long(), table, sparse=True)
        return getattr(rows * 2, step)().sum()

    gradients = []
    for function in (program, minitorch2.compile(program, backend="numba")):
        table = torch.linspace(-1, 1, 15).view(5, 3).requires_grad_()
        function(table).backward()
        gradients.append(table.grad)
    found, wanted = gradients
    assert found.layout is wanted.layout is torch.sparse_coo
    torch.testing.assert_close(found.to_dense(), wanted.to_dense(), equal_nan=True)


@SMALL
@given(programs())
def test_random_training_programs(program: Program) -> None:
    check(program)


@pytest.mark.parametrize("program", [*itertools.islice(random_programs(3), 2)], ids=str)
def test_random_training_programs_in_kernels(program: Program) -> None:
    check(program, "numba")
