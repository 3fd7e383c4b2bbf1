"""Containers given to a name that had another type: the old type is no more than a hint."""

# ruff: noqa: RET504 - the assignments are what is tested

import pytest
import torch
from torch import Tensor

from minitorch2 import jit

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
X = torch.ones(2, 2)


def comprehension(x: Tensor) -> list[Tensor]:
    a: list[list[Tensor]] = []
    for _ in range(2):
        a.append([x, x])
    a = [torch.cat(part) for part in a]
    return a


def unrolled(x: Tensor) -> list[int]:
    a: list[Tensor] = [x]
    a = [part.size(0) for part in (x, x)]
    return a


def filtered(x: Tensor, n: int) -> list[int]:
    n = [each for each in range(n) if each > 1]
    return n


def literal(x: Tensor) -> list[int]:
    a: list[Tensor] = [x]
    a = [1, 2]
    return a


def dictionary(x: Tensor) -> dict[str, int]:
    a: dict[str, Tensor] = {"a": x}
    a = {"b": 1}
    return a


def parameter(x: Tensor) -> list[int]:
    x = [row.size(0) for row in x]
    return x


@pytest.mark.parametrize("function", [comprehension, unrolled, literal, dictionary, parameter])
def test_a_name_may_get_a_container_of_another_type(function):
    """AnchorGenerator of torchvision gives one name lists of lists, then lists."""
    expected = function(X)
    for found in (jit.script(function)(X), torch.jit.script(function)(X)):
        assert str(found) == str(expected)


def test_a_number_may_become_a_list():
    assert jit.script(filtered)(X, 4) == filtered(X, 4) == [2, 3]


def emptied(n: int) -> list[int]:
    a: list[int] = [n]
    a = []
    a.append(n)
    return a


def mixed(n: int) -> list[float]:
    a: list[float] = [n, 1.5]
    return a


@pytest.mark.parametrize("function", [emptied, mixed])
def test_an_old_type_is_still_a_hint(function):
    assert jit.script(function)(3) == function(3)
