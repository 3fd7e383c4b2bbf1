"""Exercises of the chapter on recorded launches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2.codegen.replay import Replayed
from minitorch2.course.exercise import exercise

PAGE = "gpu/replay"


class Repeat:
    """A record of a call: it runs again, into the memory of its first results."""

    def __init__(self, call: Callable[[list[Any]], list[Tensor]], arguments: list[Any]) -> None:
        self.call, self.arguments = call, arguments
        self.outputs = call(list(arguments))

    def replay(self) -> None:
        """Run the call, and write over the results."""
        for output, new in zip(self.outputs, self.call(list(self.arguments)), strict=True):
            output.copy_(new)


class Recorder:
    """Record calls on the CPU as CUDA graphs are recorded on a GPU."""

    def __init__(self) -> None:
        self.records = 0

    def stream(self) -> int:
        """Return the one stream that a CPU has."""
        return 0

    def record(
        self, call: Callable[[list[Any]], list[Tensor]], arguments: list[Any]
    ) -> tuple[Repeat, list[Tensor]]:
        """Record a call, and return the record and its results."""
        self.records += 1
        made = Repeat(call, list(arguments))
        return made, made.outputs


def recordings(kept: int) -> int:
    """Return how many recordings ten calls make whose last `kept` results are held."""
    recorder = Recorder()
    fast = Replayed(lambda arguments: [arguments[0] * 2], recorder)  # type: ignore[arg-type]
    held: list[Tensor] = []
    for number in range(10):
        held += fast([torch.full((4,), float(number))])
        del held[: max(0, len(held) - kept)]
    return recorder.records


@exercise(
    PAGE,
    "look",
    question="""
        A recorded call runs ten times. How many recordings are made if no result is held, and
        how many if the last three results are always held? Set `none` and `three`.
    """,
    stub="""
        from minitorch2.course.exercises.recordings import recordings

        none = ...
        three = ...
    """,
    hints=(
        "A result that somebody holds is not overwritten.",
        "While the last three are held, the next call needs one more.",
    ),
    solution="""
        from minitorch2.course.exercises.recordings import recordings

        none, three = recordings(0), recordings(3)
    """,
)
def count_recordings(none: int, three: int) -> None:
    """Count them."""
    found = recordings(0), recordings(3)
    assert (none, three) == found, f"{none} and {three} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        `record(call, x)` returns a function that repeats the call as a CUDA graph would: it
        reads the memory of the first `x` and writes the memory of the first result. So it
        gives old numbers. Change `again` so that it serves a new input.
    """,
    stub="""
        def record(call, x):
            place = x.clone()
            result = call(place)

            def again(new):
                result.copy_(call(place))
                return result

            return again
    """,
    hints=("The recording reads `place`, so the new input must be there.",),
    solution="""
        def record(call, x):
            place = x.clone()
            result = call(place)

            def again(new):
                place.copy_(new)
                result.copy_(call(place))
                return result

            return again
    """,
)
def serve_new_inputs(record: Callable[..., Callable[[Tensor], Tensor]]) -> None:
    """Call it with others, and look at the addresses that the call sees."""
    seen: set[int] = set()

    def call(x: Tensor) -> Tensor:
        seen.add(x.data_ptr())
        return x * 2 + 1

    again = record(call, torch.zeros(3))
    inputs = [torch.full((3,), float(n)) for n in range(4)]
    results = {again(x).data_ptr() for x in inputs}
    found = again(inputs[2])
    torch.testing.assert_close(found, inputs[2] * 2 + 1)
    assert len(seen) == len(results) == 1, "a recording reads and writes one place"


@exercise(
    PAGE,
    "build",
    question="""
        Write the class `Pool`: `take()` gives a buffer (any object that can be referenced
        weakly, made by the function given to `Pool`) that nobody else holds. A buffer is used
        again as soon as whoever took it has dropped it.
    """,
    stub="""
        class Pool:
            def __init__(self, make):
                self.make = make

            def take(self):
                return self.make()
    """,
    hints=(
        "Hand out a small object that holds the buffer, and watch it by `weakref.ref`.",
        "`take` returns the holder; its attribute `buffer` is the buffer.",
    ),
    solution="""
        import weakref


        class Holder:
            def __init__(self, buffer):
                self.buffer = buffer


        class Pool:
            def __init__(self, make):
                self.make, self.entries = make, []

            def take(self):
                for entry in self.entries:
                    if entry[1]() is None:
                        break
                else:
                    entry = [self.make(), None]
                    self.entries.append(entry)
                holder = Holder(entry[0])
                entry[1] = weakref.ref(holder)
                return holder
    """,
)
def reuse_buffers(Pool: Callable[..., Any]) -> None:
    """Hold some, drop others, and count what is made."""
    numbers = itertools.count()
    made: list[int] = []

    def make() -> Tensor:
        made.append(next(numbers))
        return torch.zeros(1)

    pool = Pool(make)
    held = [pool.take() for _ in range(3)]
    places = {id(each.buffer) for each in held}
    assert len(places) == len(made) == 3, "held buffers must differ"
    del held[1]
    fresh = pool.take()
    assert len(made) == 3 and id(fresh.buffer) in places, "a dropped buffer is used again"
    assert all(fresh.buffer is not each.buffer for each in held), "this one is still held"


@exercise(
    PAGE,
    "build",
    question="""
        Write `finish(host, kernels)`: the host needs `host` microseconds to request each
        launch, and the GPU runs kernel after kernel, each no earlier than it is requested.
        When is the last one done?
    """,
    stub="""
        def finish(host, kernels):
            return host * len(kernels) + sum(kernels)
    """,
    hints=("Two clocks: when the host has requested it, and when the GPU is free.",),
    solution="""
        def finish(host, kernels):
            requested = done = 0
            for kernel in kernels:
                requested += host
                done = max(done, requested) + kernel
            return done
    """,
)
def two_clocks(finish: Callable[[float, Sequence[float]], float]) -> None:
    """Try a host that is slow, a GPU that is slow, and turns between them."""
    cases = (
        (5, (2, 2, 2), 17),
        (1, (4, 4, 4), 13),
        (3, (10, 1, 1, 1), 16),
        (3, (), 0),
        (0, (2, 3), 5),
    )
    for host, kernels, expected in cases:
        found = finish(host, kernels)
        assert found == expected, f"{kernels} at {host} each: {expected}, not {found}"
