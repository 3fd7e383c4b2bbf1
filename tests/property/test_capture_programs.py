"""Random programs behave the same when their frames are captured."""

import os

from hypothesis import HealthCheck, given, settings

import minitorch2
from minitorch2 import config
from minitorch2.testing.programs import programs

IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large]


def patient(examples):
    """Of these there are more than of other examples: each is small, and the space is large."""
    count = 4 * examples if IS_DEEP else examples
    return settings(max_examples=count, suppress_health_check=UNHURRIED)


def capture(function):
    return minitorch2.compile(function, backend="eager")


@patient(150)
@given(programs())
def test_captured_programs_match_cpython(program):
    with config.patch(suppress_errors=False):
        program.check(capture)
