"""Random scripts do in each of our ways of running them what they do in CPython.

`python -m tests.property.script_programs --count 10000` is the deep run.
"""

import pytest

from tests.property.script_programs import check


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_scripts_do_what_cpython_does(first):
    for seed in range(first, first + 10):
        check(seed)
