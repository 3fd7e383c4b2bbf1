"""Calls that raise: compiled programs raise what eager does, at its line, and lose no exception.

The calls are those of `tests.operators.value_errors`, the error inputs of PyTorch's own operator
and module databases, and samples of the operator database with extreme values in them. What
becomes of a call's result is random, too: `tests.operators.error_sweep` has the programs.
"""

from __future__ import annotations

import functools

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from torch.testing._internal.common_modules import module_db

from tests.operators.error_sweep import DEADLY, KINDS, PROGRAMS, WRONG, Case, compare
from tests.operators.sweep import OPERATORS

CASES = {case.name: case for case in KINDS["values"](None)}
SOURCES = [
    *(("operators", name) for name, op in OPERATORS.items() if op.error_inputs_func is not None),
    *(("modules", info.name) for info in module_db if info.module_error_inputs_func is not None),
    *(("extremes", name) for name, op in OPERATORS.items() if not op.name.startswith(DEADLY)),
]
"""The kinds of calls and the operators or modules that have some."""
BACKENDS = st.sampled_from(("eager", "aot_eager", "numba"))
NO_DERIVATIVE = "is not implemented"
"""Where PyTorch has no derivative, a joint graph cannot be made: the backend fails, and the program
runs in Python unless `suppress_errors` is off, as it is here."""
QUICK = settings(
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example is one call already
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@functools.cache
def cases(kind: str, name: str) -> tuple[Case, ...]:
    """The calls of one kind of an operator or a module."""
    return tuple(KINDS[kind]({name}))


@given(st.sampled_from(sorted(CASES)), st.sampled_from(sorted(PROGRAMS)), BACKENDS, st.booleans())
@QUICK
def test_no_exception_is_lost(name: str, program: str, backend: str, backward: bool) -> None:
    status, note = compare(CASES[name], program, backend, backward)
    assert status not in WRONG, f"{name}, {program}, {backend}, {status}: {note}"


@given(
    st.sampled_from(SOURCES),
    st.integers(0, 99),
    st.sampled_from(sorted(PROGRAMS)),
    BACKENDS,
    st.booleans(),
)
@QUICK
def test_pytorchs_own_errors(
    source: tuple[str, str], number: int, program: str, backend: str, backward: bool
) -> None:
    found = cases(*source)
    assume(found)
    case = found[number % len(found)]
    status, note = compare(case, program, backend, backward)
    assume(not (backward and NO_DERIVATIVE in note))
    assert status not in WRONG, f"{case.name}, {program}, {backend}, {status}: {note}"
