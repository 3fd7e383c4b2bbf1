"""Random programs of deeper nesting behave the same when captured, gradients included."""

from hypothesis import given

from minitorch2 import config
from minitorch2.testing.programs import programs
from tests.property.test_capture_programs import capture, patient


@patient(100)
@given(programs(depth=3))
def test_captured_nested_programs_match_cpython(program):
    with config.patch(suppress_errors=False):
        program.check(capture)


@patient(30)
@given(programs())
def test_captured_programs_have_the_same_gradients(program):
    with config.patch(suppress_errors=False):
        program.check(capture, variants=2, gradients=True)
