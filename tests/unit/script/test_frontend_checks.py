"""`torch._check` and its relatives in scripts: the errors of eager, with their messages."""

import pytest
import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.script.syntax.errors import ScriptError

X = torch.ones(2, 3)


def plain(x: Tensor, n: int) -> Tensor:
    torch._check(n > 1)
    return x * n


def message(x: Tensor, n: int) -> Tensor:
    torch._check(n > 1, lambda: f"{n} is too small for {x.dim()}")
    return x * n


def value(x: Tensor, n: int) -> Tensor:
    for size in x.shape:
        torch._check_value(size > n, message=lambda: f"a size of {size}")
    return x


def index(x: Tensor, n: int) -> Tensor:
    torch._check_index(n < x.size(0), lambda: "outside")
    return x[n]


def type_(x: Tensor, n: int) -> Tensor:
    torch._check_type(n > 1, lambda: "wrong")
    return x


def not_implemented(x: Tensor, n: int) -> Tensor:
    torch._check_not_implemented(n > 1)
    return x


def with_a_class(x: Tensor, n: int) -> Tensor:
    torch._check_with(AssertionError, n > 1, lambda: f"{n} is too small")
    return x


FUNCTIONS = [plain, message, value, index, type_, not_implemented, with_a_class]


def outcome(call, n):
    try:
        return str(call(X, n))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_checks_raise_what_eager_raises(function):
    script = jit.script(function)
    for n in (1, 3, 0, 2, 1):
        assert outcome(script, n) == outcome(function, n)


def of_a_tensor(x: Tensor) -> Tensor:
    torch._check(x.sum() > 1)
    return x


def test_a_check_of_a_tensor_is_refused_as_eager_refuses_it():
    with pytest.raises(ScriptError, match="no bool"):
        jit.script(of_a_tensor)
    with pytest.raises(TypeError, match="must be a bool"):
        of_a_tensor(X)


def test_sizes_of_unpooling_are_checked():
    """The survey of `torch.nn.functional` found this function refused."""
    script = jit.script(torch.nn.functional._check_unpool_output_size)
    script([1, 2], 1)
    with pytest.raises(ValueError, match="output_size"):
        script([1, -2], 1)
