"""Timing several variants fairly: one process, taking turns, medians."""

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from time import perf_counter

Run = Callable[[], object]


def seconds(run: Run) -> float:
    """Return the seconds of one call."""
    start = perf_counter()
    run()
    return perf_counter() - start


def rounds(runs: Mapping[str, Run], count: int) -> Iterator[dict[str, float]]:
    """Call every variant once in each round; return each round's seconds by name.

    The order turns by one each round, so that no variant always follows the same neighbour.
    """
    names = list(runs)
    for i in range(count):
        turn = i % len(names)
        yield {name: seconds(runs[name]) for name in names[turn:] + names[:turn]}


def medians(measured: list[dict[str, float]]) -> dict[str, float]:
    """Return the median seconds of each variant."""
    return {name: median(each[name] for each in measured) for name in measured[0]}
