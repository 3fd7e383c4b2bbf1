"""Random programs behave the same when their frames are captured."""

import os

from hypothesis import HealthCheck, given, settings

import minitorch2
from minitorch2 import config
from minitorch2.testing.programs import programs

EXAMPLES = 2000 if os.environ.get("HYPOTHESIS_PROFILE", "default") == "default" else 20_000
"""Of these there are more than of other examples: each is small, and the space is large."""

PATIENT = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def capture(function):
    return minitorch2.compile(function, backend="eager")


@PATIENT
@given(programs())
def test_captured_programs_match_cpython(program):
    with config.patch(suppress_errors=False):
        program.check(capture)
