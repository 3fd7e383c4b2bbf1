"""Random scripts do in each of our ways of running them what they do in CPython.

`python -m tests.property.script_programs --count 10000` is the deep run.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.script_programs import check


@given(seed=st.integers(0, 2**20))
@settings(max_examples=15)
def test_scripts_do_what_cpython_does(seed):
    check(seed)
