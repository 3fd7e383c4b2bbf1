"""Every program of the catalogue of the language is one graph, with CPython's values."""

import warnings

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.testing.assertions import assert_matches_eager
from tests.unit.bytecode import language
from tests.unit.bytecode.language import (
    asynchronous,
    classes,
    containers,
    control,
    dataclass_programs,
    functools_programs,
    generators,
    library,
    numbers_programs,
    text,
)

TOPICS = (asynchronous, classes, containers, control, dataclass_programs, functools_programs)
TOPICS += (generators, library, numbers_programs, text)

assert all(TOPICS)  # importing them fills the tables

WHOLE = [name for name in language.PROGRAMS if name not in language.BREAKS]


def sizes():
    """Inputs of a first call, a second like it, and a third of another size."""
    return torch.randn(3, 4), torch.randn(3, 4), torch.randn(6, 4)


def compiled(function, **settings):
    return minitorch2.compile(function, backend="eager", **settings)


@pytest.mark.parametrize(
    "name", [name for name in language.PROGRAMS if name not in language.BREAKS]
)
def test_one_graph(name):
    function = language.PROGRAMS[name]
    with config.patch(suppress_errors=False), stages.collect() as log, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        fast = compiled(function, fullgraph=True)
        for x in sizes():
            assert_matches_eager(function, x, calls=1, compile=lambda _: fast)
    assert log.counts["graph_breaks"] == 0
    assert log.counts["frames_as_is"] == 0
    assert 1 <= log.counts["graphs"] <= 3


@pytest.mark.parametrize("name", language.BREAKS)
def test_breaks_on_purpose(name):
    function = language.PROGRAMS[name]
    with config.patch(suppress_errors=False), stages.collect() as log:
        fast = compiled(function)
        for x in sizes():
            assert_matches_eager(function, x, calls=1, compile=lambda _: fast)
    assert language.BREAKS[name] in "".join(log.texts("graph_break"))
