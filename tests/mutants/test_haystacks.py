"""Planted bugs are found in programs, named, and cut down to at most 12 operations."""

import pytest

from tests.mutants.haystacks import (
    CAPTURED,
    HAYSTACKS,
    LATER,
    SEARCHED,
    SINGLE,
    is_of_capture,
    is_of_single,
    is_small,
    search,
    search_later,
    search_single,
    searched,
)
from tests.mutants.left_out import OF_BUGS, why_left_out
from tests.mutants.mutants import MUTANTS

FLOORS = {
    "graph": ("autograd", "the backend passed"),  # which run the passes
    "autograd": "autograd",
    "loopir": ("loopir", "codegen"),
    "scheduler": "codegen",
    "wrapper": "codegen",
    "codegen numba": "codegen",
    "codegen triton": "codegen",
    "script": "the backend scripted",
}
QUICK = (
    "the derivative of gelu lacks its second term",
    "what is masked off is 0 instead of the given value",
)
SHOWN = [
    pytest.param(mutant, id=mutant.name, marks=() if mutant.bug in QUICK else pytest.mark.slow)
    for mutant in MUTANTS
    if mutant.bug in HAYSTACKS
]


@pytest.mark.parametrize("mutant", SHOWN)
def test_the_search_finds_the_bug_and_a_small_program(mutant):
    found = searched(mutant)
    assert is_small(found), str(found)
    assert found.blame.floor.startswith(FLOORS[mutant.layer])


@pytest.mark.parametrize(
    "bug",
    [*[*CAPTURED][:5], *(pytest.param(bug, marks=pytest.mark.slow) for bug in [*CAPTURED][5:])],
)
def test_a_bug_of_capture_is_blamed_on_capture(bug):
    (mutant,) = [mutant for mutant in MUTANTS if mutant.bug == bug]
    found = searched(mutant)
    assert is_of_capture(found), str(found)
    assert search(CAPTURED[bug]).difference is None


@pytest.mark.parametrize("bug", LATER)
def test_a_bug_of_guards_is_found_in_a_later_call(bug):
    (mutant,) = [mutant for mutant in MUTANTS if mutant.bug == bug]
    found = searched(mutant)
    assert found.blame is not None and found.blame.floor.startswith("guards"), str(found)
    assert search_later(bug).difference is None


@pytest.mark.parametrize(
    "bug",
    [*[*SINGLE][:2], *(pytest.param(bug, marks=pytest.mark.slow) for bug in [*SINGLE][2:])],
)
def test_a_function_that_is_wrong_as_a_whole_is_blamed_and_cut(bug):
    (mutant,) = [mutant for mutant in MUTANTS if mutant.bug == bug]
    found = searched(mutant)
    assert is_of_single(bug, found), str(found)
    assert search_single(bug).difference is None


def test_the_kernel_with_a_bug_is_named():
    (mutant,) = [mutant for mutant in MUTANTS if mutant.bug == QUICK[1]]
    blame = searched(mutant).blame
    assert blame.first_wrong.startswith("pad = torch.nn.functional.pad(")
    assert blame.kernels == ("fused_constant_pad_nd_0",)


def test_each_bug_has_a_program_or_a_reason():
    bugs = {mutant.bug for mutant in MUTANTS}
    assert SEARCHED | OF_BUGS.keys() <= bugs
    assert SEARCHED.isdisjoint(OF_BUGS)
    for mutant in MUTANTS:
        assert mutant.bug in SEARCHED or why_left_out(mutant), mutant.name
