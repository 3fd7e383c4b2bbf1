"""Random functions behave the same after a round trip, and split at any instruction."""

import contextlib

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from minitorch2.bytecode.machine.disassemble import disassemble
from tests.property.random_functions import programs
from tests.unit.bytecode.machine.observation import (
    function_of,
    observe,
    remade,
    traced_lines,
)
from tests.unit.bytecode.machine.splitting import in_two_steps, split_points

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")
PATIENT = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
ARGUMENTS = st.tuples(
    st.sampled_from([0, 1, -2, 5, None, "s", (1, 2)]), st.sampled_from([0, 3, True, [1]])
)


def remade_function(source):
    space = {}
    exec(remade(compile(source, "<program>", "exec")), space)
    return space["f"]


@PATIENT
@given(programs(), ARGUMENTS)
def test_round_trip_behaves_the_same(source, arguments):
    with compiles():
        original, again = function_of(source), remade_function(source)
        assert observe(again, *arguments) == observe(original, *arguments)


@PATIENT
@given(programs(), ARGUMENTS)
def test_round_trip_traces_the_same_lines(source, arguments):
    with compiles():
        original, again = function_of(source), remade_function(source)
        assert traced_lines(again, *arguments) == traced_lines(original, *arguments)


@PATIENT
@given(programs(), ARGUMENTS, st.data())
def test_split_function_behaves_the_same(source, arguments, data):
    with compiles():
        function = function_of(source)
        points = sorted(split_points(function.__code__).items())
        assume(points)
        index, depth = data.draw(st.sampled_from(points))
        found = observe(in_two_steps(function, index, depth), *arguments)
        expected = observe(function_of(source), *arguments)
        assert visible(found) == visible(expected), disassemble(function.__code__)[index]


@contextlib.contextmanager
def compiles():
    """Some texts are no programs (a name that is parameter and nonlocal): nothing to see."""
    with contextlib.suppress(SyntaxError):
        yield


def visible(outcome):
    """An empty cell is "free" in a continuation, which makes UnboundLocalError a NameError."""
    unbound = "cannot access" in outcome.error
    printed = outcome.printed.replace("UnboundLocalError", "NameError")
    return outcome.value, printed, "unbound" if unbound else outcome.error
