"""Every program of the catalogue of the language is one graph, with CPython's values."""

import warnings

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import GraphBreakError
from minitorch2.testing.assertions import assert_matches_eager
from tests.unit.bytecode import language
from tests.unit.bytecode.language import (
    asynchronous,
    classes,
    classes_inside,
    containers,
    context_programs,
    control,
    dataclass_programs,
    functools_programs,
    generators,
    library,
    numbers_programs,
    objects,
    random_programs,
    records,
    text,
)
from tests.unit.bytecode.language.breaking import BREAKING

TOPICS = (asynchronous, classes, containers, control, dataclass_programs, functools_programs)
TOPICS += (classes_inside, context_programs, generators, library, numbers_programs, objects)
TOPICS += (random_programs, records, text)

assert all(TOPICS)  # importing them fills the tables

WHOLE = [name for name in language.PROGRAMS if name not in BREAKING]


def sizes():
    """Inputs of a first call, a second like it, and a third of another size."""
    return torch.randn(3, 4), torch.randn(3, 4), torch.randn(6, 4)


def compiled(function, **settings):
    return minitorch2.compile(function, backend="eager", **settings)


WHOLE = [name for name in language.PROGRAMS if name not in BREAKING]


@pytest.mark.parametrize("name", WHOLE)
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


@pytest.mark.parametrize("name", BREAKING)
def test_breaks_are_right(name):
    function = language.PROGRAMS[name]
    with config.patch(suppress_errors=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = compiled(function)
        for x in sizes():
            assert_matches_eager(function, x, calls=1, compile=lambda _: fast)
        with pytest.raises(GraphBreakError) as caught:
            compiled(function, fullgraph=True)(sizes()[0])
    assert caught.value.code == BREAKING[name]
