"""Programs cannot tell deferred execution from eager mode: not by values, text, types or errors."""

import pytest
import torch

from minitorch2 import config, lazy
from tests.unit.lazy.expressions import EXPRESSIONS
from tests.unit.lazy.programs import PROGRAMS, matrix
from tests.unit.lazy.training import PROGRAMS as TRAINING

EVERYTHING = (
    PROGRAMS
    | TRAINING
    | {
        f"{name}": lambda expression=expression: expression(matrix())
        for name, expression in EXPRESSIONS.items()
    }
)


def seen(value):
    """Return what a caller sees of a result: a tensor's contents, dtype, strides and history."""
    if isinstance(value, torch.Tensor):
        data = lazy.to_eager(value.detach()) if value.layout is torch.strided else value
        return [data, value.requires_grad, value.is_leaf, isinstance(value, torch.nn.Parameter)]
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [
            type(value).__name__ if not hasattr(value, "_fields") else "named",
            *map(seen, value),
        ]
    return [type(value).__name__, value]


def assert_same_view(given, wanted):
    """Compare; numbers may differ in the last digits, since kernels may round otherwise."""
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)
    elif isinstance(wanted, dict):
        assert [*given] == [*wanted]
        for key, item in wanted.items():
            assert_same_view(given[key], item)
    elif isinstance(wanted, list):
        assert len(given) == len(wanted), (given, wanted)
        for one, other in zip(given, wanted, strict=True):
            assert_same_view(one, other)
    elif isinstance(wanted, float):
        assert given == pytest.approx(wanted, rel=1e-5, abs=1e-6, nan_ok=True)
    elif not hasattr(wanted, "dtype"):
        assert given == wanted
    else:
        assert (given == wanted).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERYTHING)
def test_a_program_sees_what_it_sees_in_eager_mode(name):
    function = EVERYTHING[name]
    torch.manual_seed(0)
    wanted = seen(function())
    lazy.reset()
    for compile_after in (99, 99, 1):
        torch.manual_seed(0)
        with config.patch(backend="aot_eager", lazy_compile_after=compile_after), lazy.lazily():
            given = seen(function())
        assert_same_view(given, wanted)
