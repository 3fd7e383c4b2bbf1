"""Regions of these tests defer from the first operator on; `test_visit.py` has the first visits."""

import inspect

import pytest

import minitorch2
from minitorch2 import config, lazy


@pytest.fixture(autouse=True)
def _deferred_from_the_first_visit_on(request, monkeypatch):
    if not getattr(request.module, "WITH_FIRST_VISITS", False):
        defaults = inspect.unwrap(minitorch2.lazily).__kwdefaults__
        monkeypatch.setitem(defaults, "eager_first", False)


@pytest.fixture
def empty_trie():
    """No step is known, and none is left to later tests."""
    lazy.reset()
    yield
    lazy.reset()


@pytest.fixture
def quick():
    """Programs of graphs that run eagerly: where deferral is tested, and not kernels."""
    with config.patch(backend="aot_eager"):
        yield
