"""Seconds to the first result: cold with empty caches, then in a second process with warm ones."""

from collections.abc import Iterator

from benchmarks.measure import Result
from minitorch2.demo.first_result import first_results
from minitorch2.demo.workloads import WORKLOADS


def results(compilers: list[str]) -> Iterator[Result]:
    """Two results a workload; each measurement has a process, each pair a cache, of its own."""
    for workload in WORKLOADS:
        pairs = {name: list(first_results(workload, name)) for name in compilers}
        for i, state in enumerate(("cold", "warm")):
            seconds = {name: pair[i].seconds for name, pair in pairs.items()}
            yield Result(f"{workload}, {state}", seconds, [])
