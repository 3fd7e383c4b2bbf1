"""The examples of `docs/graph_breaks.md` do what the page says."""

import warnings
from collections.abc import Iterator

import pytest
import torch

import minitorch2
from minitorch2.bytecode import numpy_capture as numpy_capture  # an extension: it registers itself
from minitorch2.bytecode.compiling.compiled_frame import GraphBreak
from minitorch2.bytecode.compiling.reasons import reasons
from minitorch2.bytecode.dispatch import Dispatcher, Region
from tests.unit.bytecode import break_examples
from tests.unit.bytecode.break_examples import functions, modules, page, tensors, values

assert all((functions, modules, tensors, values))  # importing them fills the tables

BREAKING, WHOLE = break_examples.BREAKING, break_examples.WHOLE


def breaks_of(example: break_examples.Example) -> Iterator[GraphBreak]:
    """All breaks of a call; what the program raises is its own affair."""
    region = Region(minitorch2.lookup_backend(example.backend))
    compiled = Dispatcher(region, example.function).as_function()
    # One example leaves autocast on, as it does in eager.
    with warnings.catch_warnings(), torch.autocast("cpu", enabled=False), example.within():
        warnings.simplefilter("ignore")
        try:
            for args in example.calls:
                compiled(*args)
        except Exception:
            assert example.raises
    for cache in region.caches.values():
        yield from (each.graph_break for each in cache.compiled if each.graph_break is not None)
        if cache.as_is is not None:
            yield cache.as_is


def test_every_reason_has_an_example_or_a_justification():
    known = set(BREAKING) | set(break_examples.WITHOUT_EXAMPLE)
    assert set(reasons()) - known == set()
    assert known - set(reasons()) == set()
    assert not set(BREAKING) & set(break_examples.WITHOUT_EXAMPLE)
    assert set(WHOLE) <= set(BREAKING)


@pytest.mark.parametrize("code", BREAKING)
def test_breaks_with_its_code(code):
    found = list(breaks_of(BREAKING[code]))
    assert code in {each.reason for each in found}
    shown = next(each for each in found if each.reason == code)
    assert shown.fix and f"why {code}" in str(shown)


@pytest.mark.parametrize("code", WHOLE)
def test_the_changed_program_is_one_graph(code):
    assert list(breaks_of(WHOLE[code])) == []


@pytest.mark.parametrize("code", BREAKING)
def test_the_page_shows_the_program(code):
    text = BREAKING[code].text
    assert "@breaks" not in text and text.startswith(("def ", "async def ", "@"))


def test_the_page_is_up_to_date():
    """`python -m tests.unit.bytecode.break_examples.page` writes it anew."""
    assert page.PATH.read_text(encoding="utf-8") == page.page()
