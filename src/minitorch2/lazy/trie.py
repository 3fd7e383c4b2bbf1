"""The trie of steps: one place for each sequence of operators that a step has begun with.

    place ::= parent, event; the places that have followed it; programs of steps that end here
    form  ::= place, sizes so far; the metadata of the event's results; the forms that have followed

A step walks down from the root, through places and forms at once. A place stands for steps with the
same operators, whatever their sizes: programs are kept there. A form stands for steps of the same
sizes: if an operator was seen before at a form, the metadata of its results are known. Then no
shape is propagated, no graph is built, nothing is hashed but one event. The LazyTensor paper
(section 4) keeps programs by a hash of the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import torch

from minitorch2.graph.node import SourceLine
from minitorch2.lazy.value import Metas, Operator

Number: TypeAlias = "int | float"
Numbers: TypeAlias = tuple[Number, ...]
Event: TypeAlias = tuple[Any, ...]
"""The plan of an operator, or None for data that enters; the arguments but for varying numbers."""

MISS: Final = object()
"""The answer to a call that was not expected."""
Programs: TypeAlias = "Mapping[frozenset[int], Sequence[Program]]"
"""By the values that were alive."""
NO_PROGRAMS: Final[Programs] = MappingProxyType({})
ENTERED: Final = object()
"""The answer to a call whose next data have entered, as they were expected to."""
MOST_SAMPLES = 4
"""So many different steps that ended at one place are remembered, to see which numbers vary."""


class Program(Protocol):
    """A compiled path; `program.py` has the class."""

    outputs: tuple[int, ...]

    def admits(self, numbers: Sequence[Numbers]) -> bool:
        """Return whether a step with these numbers may run as this program."""
        ...

    def run(self, numbers: Sequence[Numbers], data: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run a step that is admitted; return the values of `outputs`."""
        ...


@dataclass(eq=False, slots=True)
class Place:
    """The position of a step in the trie: the events so far.

    Attributes:
        parent: the place before; None for the root.
        event: what happened here.
        numbers: its numbers when it first happened.
        results: the metadata of each new result, at first; None until they have been inferred.
        line: the user's line at which it first happened.
        next: the places that have followed.
        seen: how many steps have ended here.
        samples: the numbers of different steps that have ended here.
        programs: what such steps were compiled to, by the values that were alive.
        obstacle: why such steps cannot be compiled; empty if they can.
    """

    parent: Place | None = None
    event: Event = (None,)
    numbers: Numbers = ()
    results: Metas | None = None
    line: SourceLine | None = None
    next: dict[Event, Place] = field(default_factory=dict)
    seen: int = 0
    samples: tuple[tuple[Numbers, ...], ...] = ()
    programs: Programs = field(default_factory=lambda: NO_PROGRAMS)
    obstacle: str = ""

    @property
    def func(self) -> Operator | None:
        """The operator; None for data that enters."""
        plan = self.event[0]
        return None if plan is None else plan.func

    @property
    def path(self) -> list[Place]:
        """The places from the first event to this one."""
        places: list[Place] = []
        place = self
        while place.parent is not None:
            places.append(place)
            place = place.parent
        return places[::-1]

    def note_sample(self, numbers: tuple[Numbers, ...]) -> None:
        """Remember the numbers of a step that ended here, if they are new."""
        self.seen += 1
        if numbers not in self.samples:
            self.samples = (*self.samples[1 - MOST_SAMPLES :], numbers)


def no_match(*_: Any) -> Any:
    """Match no call; each form begins so, and those whose last event has no short way remain so."""
    return MISS


@dataclass(eq=False, slots=True)
class Form:
    """The position of a step among the steps of the same sizes.

    Attributes:
        place: the place of the step.
        results: the metadata of each new result of the last event.
        next: the forms that have followed, by event and by those of its numbers that tell sizes.
        expected: the form that followed last, if `match` knows calls that lead to it.
        match: compares a call with the last event and records it (`expect.py`).
        wanted: what `match` compares and makes.
    """

    place: Place
    results: Metas = ()
    next: dict[tuple[Event, Numbers], Form] = field(default_factory=dict)
    expected: Form | None = None
    match: Callable[..., Any] = no_match
    wanted: tuple[Any, ...] = ()


class Trie:
    """All places and forms. If there are too many, as programs never repeat, it begins anew."""

    def __init__(self) -> None:
        self.firsts: dict[torch.dtype, Form] = {}
        self.count = 0

    def first(self, default: torch.dtype) -> Form:
        """Return where steps begin whose new tensors have this dtype by default."""
        known = self.firsts.get(default)
        if known is None:
            known = self.firsts[default] = Form(Place())
        return known

    def follow(self, place: Place, event: Event, numbers: Numbers) -> Place:
        """Return the place behind another one, a new one if the event is new there."""
        after = place.next.get(event)
        if after is None:
            after = place.next[event] = Place(place, event, numbers)
            self.count += 1
        return after

    def add(self, form: Form, event: Event, sizes: Numbers, place: Place, results: Metas) -> Form:
        """Add the form that follows another one by an event; return it."""
        after = form.next[event, sizes] = Form(place, results)
        self.count += 1
        return after

    def forget(self, place: Place) -> None:
        """Remove a place whose event has failed."""
        assert place.parent is not None
        del place.parent.next[place.event]
        self.count -= 1

    def limit(self, most: int) -> None:
        """Begin anew if there are more places and forms than ``most``."""
        if self.count > most:
            self.__init__()  # type: ignore[misc]

    def places(self) -> Iterator[Place]:
        """All places below the roots."""
        waiting = [form.place for form in self.firsts.values()]
        while waiting:
            place = waiting.pop()
            yield from place.next.values()
            waiting += place.next.values()
