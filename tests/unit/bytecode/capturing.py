"""Shared by the tests of capture: compare with eager and count what was made."""

from collections import Counter

import minitorch2
from minitorch2 import config, stages
from minitorch2.testing.assertions import assert_matches_eager


def capture(function, **settings):
    """Compile with the backend that changes nothing."""
    return minitorch2.compile(function, backend="eager", **settings)


def check(function, *inputs, graphs=None, breaks=0, calls=2, **settings):
    """Compare with eager; assert how many graphs and breaks there were. Returns the open log."""
    with config.patch(suppress_errors=False), stages.collect() as log:
        assert_matches_eager(
            function, *inputs, calls=calls, compile=lambda f: capture(f, **settings)
        )
    made = Counter({"graphs": log.counts["graphs"], "breaks": log.counts["graph_breaks"]})
    assert log.counts["frames_as_is"] == 0, "a function ran in Python"
    assert made["breaks"] == breaks, f"{made['breaks']} breaks: {log.texts('graph_break')}"
    assert graphs is None or made["graphs"] == graphs, log.texts("captured_graph")
    return log


def residual(log, number=0):
    """The text of one residual function."""
    return log.texts("residual.py")[number]
