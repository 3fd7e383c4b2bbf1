"""Calls that values make raise: compiled programs raise what eager does, and lose no exception.

The calls are those of `tests.operators.value_errors`; `tests.operators.error_sweep` runs PyTorch's
own error inputs as well.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.operators.error_sweep import KINDS, PROGRAMS, WRONG, compare

CASES = {case.name: case for case in KINDS["values"](None)}


@given(
    st.sampled_from(sorted(CASES)),
    st.sampled_from(sorted(PROGRAMS)),
    st.sampled_from(("eager", "aot_eager", "numba")),
    st.booleans(),
)
@settings(
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example is one call already
    suppress_health_check=[HealthCheck.too_slow],
)
def test_no_exception_is_lost(name: str, program: str, backend: str, backward: bool) -> None:
    status, note = compare(CASES[name], program, backend, backward)
    assert status not in WRONG, f"{name}, {program}, {backend}, {status}: {note}"
