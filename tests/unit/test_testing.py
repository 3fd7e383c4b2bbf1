"""The public test tools: they see what is wrong, and say what they need."""

import sys

import pytest
import torch

import minitorch2
from minitorch2 import testing


def double_first(items, x):
    print("doubling")
    items.append(len(items))
    return x * 2


def without_effects(function):
    return lambda items, x: x * 2


def with_other_numbers(function):
    return lambda items, x: function(items, x) + 1e-3


def as_it_is(function):
    return function


@pytest.mark.parametrize("compile", [as_it_is, minitorch2.compile])
def test_a_right_compiler_passes(compile):
    testing.assert_matches_eager(double_first, [1], torch.ones(3), compile=compile)


@pytest.mark.parametrize("compile", [without_effects, with_other_numbers])
def test_a_wrong_compiler_fails(compile):
    with pytest.raises(AssertionError):
        testing.assert_matches_eager(double_first, [1], torch.ones(3), compile=compile)


def test_everything_exported_is_documented():
    assert all(getattr(testing, name).__doc__ for name in testing.__all__)


def test_without_hypothesis_one_sentence_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("minitorch2.testing")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "hypothesis"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'minitorch2\[test\]'"):
        __import__("minitorch2.testing")
