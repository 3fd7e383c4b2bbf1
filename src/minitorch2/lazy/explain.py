"""Reports on lazy programs: counts, barriers and fallbacks by line, causes of compilations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minitorch2.graph.node import SourceLine
from minitorch2.lazy.step import COUNTS, TRIE, Counters, Step
from minitorch2.lazy.trie import Numbers, Place
from minitorch2.lazy.visit import VISITED


@dataclass(frozen=True)
class Compilation:
    """A compilation of a step, and its cause.

    Attributes:
        cause: what was new about the step, in words.
        line: the user's line where it left what was known.
        other: the line that earlier steps had there, or None.
    """

    cause: str
    line: SourceLine | None
    other: SourceLine | None = None

    def __str__(self) -> str:
        other = f"\n  before: {self.other}" if self.other else ""
        return f"{self.cause}\n  {self.line or 'in a library'}{other}"


COMPILATIONS: list[Compilation] = []


def why_compiled() -> list[Compilation]:
    """Return the compilations of lazy steps in this process, in order, each with its cause."""
    return [*COMPILATIONS]


def cause_of(step: Step, live: frozenset[int]) -> Compilation:
    """Return why a step is about to be compiled."""
    place = step.place
    if place.programs:
        varying = _number_that_varies(place)
        if live not in place.programs:
            known = max(place.programs, key=len)
            new = min(live - known, default=min(live ^ known))
            lines = _line_of_value(place, new), _line_of_value(place, min(known, default=new))
            return Compilation("other results are held at the end", *lines)
        if varying is not None:
            return varying
        return Compilation(
            "a size leaves the range that earlier programs serve", place.line, place.line
        )
    left = _divergence(place)
    if left is not None:
        return left
    return Compilation(f"a new step of {len(step.numbers)} events has repeated", _first_line(place))


def _number_that_varies(place: Place) -> Compilation | None:
    """Return the first number that differs between the last two steps that ended at a place."""
    if len(place.samples) < 2:
        return None
    *_, before, now = place.samples
    for event, (one, other) in zip(place.path, _pairs(before, now), strict=True):
        for old, new in zip(one, other, strict=True):
            if old != new:
                what = "size of an input" if event.func is None else f"number of {event.func}"
                line = _next_line(place, event)
                return Compilation(f"a {what} was {old} and is {new}", line, line)
    return None


def _pairs(a: Sequence[Numbers], b: Sequence[Numbers]) -> Iterator[tuple[Numbers, Numbers]]:
    return zip(a, b, strict=True)


def _next_line(end: Place, event: Place) -> SourceLine | None:
    """Return the line of an event; data enter at the line of the operator that reads them first."""
    path = end.path
    behind = path[path.index(event) :]
    return next((place.line for place in behind if place.line is not None), None)


def _divergence(end: Place) -> Compilation | None:
    """Return where a path leaves the earlier path that it shares most events with, if it does."""
    for after in end.next.values():
        cause = f"the step ends where an earlier one goes on with {_described(after)}"
        return Compilation(cause, end.line, _next_line_below(after))
    path = end.path
    for place in reversed(path):
        before = place.parent
        assert before is not None
        other = next((p for p in before.next.values() if p is not place), None)
        if other is not None:
            return _other_event(end, place, other)
        if before.seen:
            cause = f"the step goes on with {_described(place)} where an earlier one ended"
            return Compilation(cause, _next_line(end, place), before.line)
    return _other_default(path)


def _other_event(end: Place, place: Place, other: Place) -> Compilation:
    was, now = _described(other), _described(place)
    cause = f"the step has {now} where an earlier one had {was}"
    if place.func is other.func:
        cause += ", with other arguments" if place.func else f": {_difference(place, other)}"
    return Compilation(cause, _next_line(end, place), _next_line_below(other))


def _difference(place: Place, other: Place) -> str:
    """Return in what inputs differ, but for their sizes."""
    pairs = zip(_FACTS, place.event[1:], other.event[1:], strict=True)
    return ", ".join(f"{fact} was {old} and is {new}" for fact, new, old in pairs if new != old)


_FACTS: Final = ("dtype", "rank", "device", "layout", "shared memory")


def _other_default(path: Sequence[Place]) -> Compilation | None:
    """Return the change of the default dtype, if an equal step began with another one."""
    root = path[0].parent
    for dtype, first in TRIE.firsts.items():
        known = first.place.next.get(path[0].event)
        if first.place is not root and known is not None:
            cause = f"the default dtype is another one: an earlier step began with {dtype}"
            return Compilation(cause, _first_line(path[-1]), _next_line_below(known))
    return None


def _next_line_below(place: Place) -> SourceLine | None:
    """Return the line of a place, or of the first operator behind data that entered there."""
    while place.line is None and place.next:
        place = next(iter(place.next.values()))
    return place.line


def _described(place: Place) -> str:
    return "another input" if place.func is None else str(place.func)


def _first_line(end: Place) -> SourceLine | None:
    return next((place.line for place in end.path if place.line is not None), None)


def _line_of_value(end: Place, number: int) -> SourceLine | None:
    """Return the line that made a value."""
    made = 0
    for place in end.path:
        made += 1 if place.func is None else len(place.results or ())
        if made > number:
            return place.line
    return None


@dataclass(frozen=True)
class Metrics:
    """Counts of a lazy program.

    Attributes:
        counts: what has happened; see `Counters`.
        compiled: how many programs were compiled.
        places: how many operators of different steps are remembered.
    """

    counts: Counters
    compiled: int
    places: int

    @property
    def seconds_to_first_kernel(self) -> float:
        """The mean time from the begin of a deferred step to its first kernel; 0.0 without one.

        Eager mode runs the first kernel at once (PyTorch 2 paper, section 2.3).
        """
        return self.counts.seconds_delayed / max(self.counts.delayed, 1)

    def __str__(self) -> str:
        c = self.counts
        steps = c.interpreted + c.ran
        lines = [
            f"{c.recorded} events recorded, {c.inferred} operators inferred; {c.now} ran at once",
            f"{steps} steps: {c.ran} as programs, {c.interpreted} operator by operator; "
            f"{c.first_visits} first visits in eager mode",
            f"{self.compiled} programs compiled; {self.places} places remembered",
            *_table("barriers", c.barriers),
            *_table("operators in eager mode", c.fallbacks),
            *_table("steps that cannot be compiled", c.obstacles),
        ]
        return "\n".join(lines)


def _table(title: str, counts: Counter[tuple[Any, str]]) -> Iterator[str]:
    if counts:
        yield f"{title}:"
    for (what, line), count in counts.most_common():
        yield f"  {count:5} {what}  {line}".rstrip()


def metrics() -> Metrics:
    """Return what lazy programs of this process have done so far."""
    return Metrics(COUNTS, len(COMPILATIONS), TRIE.count)


def forget() -> None:
    """Forget all counts and compilations."""
    COMPILATIONS.clear()
    COUNTS.__init__()  # type: ignore[misc]
    VISITED.clear()
