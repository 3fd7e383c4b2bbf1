"""Every public function of NumPy, and every method of arrays, is captured or breaks as it is listed.

A captured one gives what NumPy gives, without a break; one that is listed as breaking gives it, too.
"""

import inspect
import warnings

import numpy as np
import pytest

import minitorch2
from minitorch2 import config, stages
from tests.property.test_numpy_programs import same
from tests.unit.bytecode.torch_values import numpy_coverage
from tests.unit.bytecode.torch_values.numpy_coverage import ARRAYS, BREAKS, CAPTURED, ELSEWHERE
from tests.unit.bytecode.torch_values.programs import program_of

SHARE = 4
"""Tests that the captured functions are dealt out to."""


def _run(name: str, expression: str) -> int:
    """Compare with NumPy; how many breaks there were."""
    function = program_of(f"({expression}), A", [*ARRAYS])
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    arguments = [[ARRAYS[array]() for array in names] for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = function(*arguments[0])
        with config.patch(suppress_errors=False), stages.collect() as log:
            given = minitorch2.compile(function, backend="eager")(*arguments[1])
    assert log.counts["frames"], f"{expression} is not looked at"
    if name not in ("numpy.empty", "numpy.empty_like"):
        same((given, arguments[1]), (wanted, arguments[0]), expression)
    return log.counts["graph_breaks"] + log.counts["frames_as_is"]


@pytest.mark.parametrize("part", range(SHARE))
def test_captured(part):
    broken = [name for name in [*CAPTURED][part::SHARE] if _run(name, CAPTURED[name])]
    assert not broken, "these break"


def test_breaks():
    captured = [name for name, (text, _) in BREAKS.items() if not _run(name, text)]
    assert not captured, "these are captured"


def test_every_public_function_is_listed():
    public = {
        f"{module.__name__}.{name}"
        for module, names in (
            (np, np.__all__),
            (np.linalg, np.linalg.__all__),
            (np.fft, np.fft.__all__),
        )
        for name in names
        if callable(getattr(module, name)) and not inspect.isclass(getattr(module, name))
    }
    public |= {f"ndarray.{name}" for name in dir(np.ndarray) if not name.startswith("_")}
    listed = {*CAPTURED, *BREAKS, *ELSEWHERE}
    newer = {"numpy.linalg.matrix_norm"} if np.__version__ < "2" else set()
    assert public - listed <= newer, sorted(public - listed)
    assert numpy_coverage.figures()
