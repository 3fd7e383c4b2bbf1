"""What a compilation holds, and what it puts off."""

from __future__ import annotations

import gc

import pytest

import minitorch2
from minitorch2.foundation.compile_lock import COMPILING, AsBefore, put_garbage_off


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collections_are_put_off_and_come_back(is_enabled: bool) -> None:
    try:
        if not is_enabled:
            gc.disable()
        with pytest.raises(ValueError), AsBefore():
            put_garbage_off()
            with COMPILING, AsBefore():
                put_garbage_off()
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()


def test_a_thread_that_waits_for_another_ones_compilation_leaves_the_collector_on() -> None:
    """It saw the collector switched off by the other one, and left it so."""
    with AsBefore():
        put_garbage_off()
        second = AsBefore()
    with second:
        put_garbage_off()
    assert gc.isenabled()


def test_nothing_is_collected_while_a_graph_is_compiled() -> None:
    torch = pytest.importorskip("torch")
    seen = []

    def backend(gm, example_inputs):
        seen.append(gc.isenabled())
        return gm

    minitorch2.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    assert seen == [False] and gc.isenabled()
