"""Reports on lazy programs: counts, barriers and fallbacks by line, causes of compilations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from minitorch2.graph.node import SourceLine
from minitorch2.lazy.step import COUNTS, TRIE, Counters, Step
from minitorch2.lazy.trie import Numbers, Place


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
            return Compilation("other results are held at the end", _line_of_value(place, new))
        if varying is not None:
            return varying
        return Compilation("a size leaves the range that earlier programs serve", place.line)
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
                return Compilation(f"a {what} was {old} and is {new}", _next_line(place, event))
    return None


def _pairs(a: Sequence[Numbers], b: Sequence[Numbers]) -> Iterator[tuple[Numbers, Numbers]]:
    return zip(a, b, strict=True)


def _next_line(end: Place, event: Place) -> SourceLine | None:
    """Return the line of an event; data enter at the line of the operator that reads them first."""
    path = end.path
    behind = path[path.index(event) :]
    return next((place.line for place in behind if place.line is not None), None)


def _divergence(end: Place) -> Compilation | None:
    """Return where a path leaves another one that was compiled, if it does."""
    for place in end.path:
        assert place.parent is not None
        others = [p for p in place.parent.next.values() if p is not place]
        if others and not end.programs:
            was, now = _described(others[0]), _described(place)
            cause = (
                f"the step has {_described(place)} where an earlier one had {_described(others[0])}"
            )
            if was == now:
                cause += ", with other arguments"
            return Compilation(cause, _next_line(end, place), others[0].line)
    return None


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

    def __str__(self) -> str:
        c = self.counts
        steps = c.interpreted + c.ran
        lines = [
            f"{c.recorded} events recorded, {c.inferred} operators inferred; {c.now} ran at once",
            f"{steps} steps: {c.ran} as programs, {c.interpreted} operator by operator",
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
