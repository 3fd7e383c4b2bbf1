"""Timing takes turns, and reports medians."""

from minitorch2.demo import timing


def test_rounds_turn_the_order():
    calls = []
    runs = {name: lambda name=name: calls.append(name) for name in "abc"}
    measured = list(timing.rounds(runs, 4))
    assert "".join(calls) == "abc" + "bca" + "cab" + "abc"
    assert all(set(each) == set("abc") for each in measured)


def test_medians_by_name():
    measured = [{"a": 1.0, "b": 30.0}, {"a": 9.0, "b": 20.0}, {"a": 2.0, "b": 10.0}]
    assert timing.medians(measured) == {"a": 2.0, "b": 20.0}


def test_seconds_are_of_the_call():
    import time

    assert timing.seconds(lambda: time.sleep(0.02)) >= 0.02
