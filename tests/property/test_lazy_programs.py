"""Random programs cannot tell deferred execution from eager mode."""

from hypothesis import given

from minitorch2 import config, lazy
from minitorch2.testing.programs import programs
from tests.property.test_capture_programs import patient


def lazily(function):
    """The function, with its operators deferred. Kernels are not what is tested here."""

    def deferred(*args):
        with config.patch(backend="aot_eager"), lazy.lazily():
            return function(*args)

    return deferred


@patient(150)
@given(programs())
def test_lazy_programs_match_cpython(program):
    program.check(lazily, tolerance=1e-5)


@patient(60)
@given(programs())
def test_gradients_of_lazy_programs_match_eager(program):
    program.check(lazily, gradients=True, tolerance=1e-5)
