"""A part of the sweep of errors for every run of the tests; `error_sweep.py` runs all of it."""

import pytest

from tests.operators.error_sweep import KINDS, WRONG, compare
from tests.operators.value_errors import VALUE_ERRORS

CASES = {case.name: case for case in KINDS["values"](None)}
WITH_KERNELS = """
    cholesky|inv|one_hot big|bce|embedding|gather|index neg|scatter|index_put|nll|cross_entropy
    multinomial neg|bernoulli|int floor div|int mod|fill_ u8|full item|masked_scatter|max empty
    assert_async2|as_strided|repeat_interleave|max_unpool|random_
""".replace("\n", "|").split("|")  # fmt: skip


@pytest.mark.parametrize("name", [*VALUE_ERRORS][::4])
def test_captured_calls_raise_as_in_eager(name):
    status, note = compare(CASES[name], "unread", "eager")
    assert status not in WRONG, note


@pytest.mark.parametrize("name", [name.strip() for name in WITH_KERNELS if name.strip()])
@pytest.mark.parametrize("program", ["read", "unread", "caught", "written"])
def test_kernels_raise_as_in_eager(name, program):
    status, note = compare(CASES[name], program, "numba")
    assert status in ("same", "text"), note


@pytest.mark.parametrize("name", ["cholesky", "bce", "gather", "cross_entropy", "embedding", "inv"])
def test_errors_of_values_are_raised_where_gradients_are_needed(name):
    status, note = compare(CASES[name], "read", "numba", backward=True)
    assert status in ("same", "text"), note


@pytest.mark.parametrize("name", ["gather", "index neg", "bce", "one_hot big", "int mod"])
def test_interpreted_triton_kernels_raise_as_in_eager(name):
    status, note = compare(CASES[name], "read", "triton")
    assert status in ("same", "text"), note


@pytest.mark.parametrize("kind", ["operators", "modules"])
def test_a_sample_of_pytorchs_own_error_inputs(kind):
    names = {"gather", "uniform", "kthvalue", "nn.RNNCell", "nn.GRUCell"}
    for case in KINDS[kind](names):
        status, note = compare(case, "read", "eager")
        assert status not in WRONG, f"{case.name}: {note}"
