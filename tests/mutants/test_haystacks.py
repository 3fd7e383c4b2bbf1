"""Planted bugs are found in programs, named, and cut down to at most 12 operations."""

import pytest

from tests.mutants.haystacks import HAYSTACKS, is_small, searched
from tests.mutants.mutants import MUTANTS

FLOORS = {
    "graph": "autograd",  # which runs the passes
    "autograd": "autograd",
    "loopir": ("loopir", "codegen"),
    "scheduler": "codegen",
    "wrapper": "codegen",
    "codegen numba": "codegen",
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


def test_each_haystack_has_its_bug():
    assert HAYSTACKS.keys() <= {mutant.bug for mutant in MUTANTS}
