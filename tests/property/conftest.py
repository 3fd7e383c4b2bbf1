"""Property tests make many objects; those that earlier tests left are not looked through again."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def young_heap() -> Iterator[None]:
    """Garbage collections see the objects of this module alone."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
