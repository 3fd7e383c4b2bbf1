"""Random programs behave the same when their frames are captured."""

from hypothesis import HealthCheck, given, settings

import minitorch2
from minitorch2 import config
from minitorch2.testing.programs import programs

PATIENT = settings(
    max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def capture(function):
    return minitorch2.compile(function, backend="eager")


@PATIENT
@given(programs())
def test_captured_programs_match_cpython(program):
    with config.patch(suppress_errors=False):
        program.check(capture)
