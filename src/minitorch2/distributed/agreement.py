"""`same_on_all_ranks`: an error where ranks compile different programs, instead of a dead lock.

A rank whose graph breaks may run other collectives than one whose graph does not, and each waits
for the other. Inside the block each rank keeps a journal. At its end journals are compared, through
the store of the process group: no collective is used, since the ranks may be inside of one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any, Final

import torch.distributed as dist

from minitorch2 import stages
from minitorch2.distributed.journal import Journal, first_difference, place_of
from minitorch2.errors import MinitorchError
from minitorch2.errors.cautions import caution
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
_BLOCKS: Final = count()
"""Ranks enter the same blocks in the same order, so the number of a block is the same on each."""
_LEFT: Final = "the end of the block"
_SHOWN: Final = 3
"""Events of each rank that an error shows: a graph, the break that ends it, and what follows."""
_UNTOLD: Final = "a place that it has not told"


class RanksDifferError(MinitorchError):
    """Ranks of one job compile different programs, or some never reach the end of the block."""

    default_code = "ranks-differ"


@contextmanager
def same_on_all_ranks(group: Any = None, *, seconds: float = 60.0) -> Iterator[None]:
    """Check that all ranks compile the same inside the block, such as the first steps of training.

    While a rank is inside for longer than `seconds`, a warning says where each rank is and how they
    differ. Each block costs a few messages to the store; use it for the first steps.

    Args:
        group: the process group; the default one if it is None.
        seconds: the time to wait for the other ranks.

    Raises:
        RanksDifferError: the journals differ, or a rank has not left the block in time. It is also
            raised from an error inside the block, such as a collective's timeout, if ranks differ.
    """
    if not dist.is_initialized():
        cause = "there is no process group"
        fix = "call torch.distributed.init_process_group before, or leave the block out"
        raise RanksDifferError(cause, fix=fix)
    block = _Block(group or dist.group.WORLD, seconds)
    try:
        with stages.collect_into((*stages.open_logs(), block.journal)):
            yield
    except Exception as error:
        difference = block.leave(waits=False)
        if difference is not None:
            raise difference from error
        error.add_note("\n".join(block.places()))
        raise
    difference = block.leave(waits=True)
    if difference is not None:
        raise difference


class _Block:
    """One rank inside a block, with a thread that tells where it is if that takes long."""

    def __init__(self, group: Any, seconds: float) -> None:
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        self.store = dist.PrefixStore(f"minitorch2/{next(_BLOCKS)}", group.get_group_store())
        self.seconds = seconds
        self.journal = Journal()
        self._thread = threading.get_ident()
        self._end = threading.Event()
        self._watch = threading.Thread(target=self._tell_if_late, daemon=True)
        self._watch.start()

    def leave(self, *, waits: bool) -> RanksDifferError | None:
        """End the block; return what is wrong with the ranks, if anything is."""
        self._end.set()
        self._watch.join()
        self._publish(_LEFT)
        late: list[int] = []
        for rank in range(self.world):
            try:
                # A rank that is inside still has told where it is, if it is late as well.
                limit = self.seconds if waits else min(self.seconds, 1.0)
                self.store.wait([f"{rank}/{_LEFT}"], timedelta(seconds=limit))
            except dist.DistStoreError:
                late.append(rank)
        return self._difference(late)

    def _publish(self, place: str) -> None:
        told = json.dumps({"place": place, "events": self.journal.events})
        self.store.set(f"{self.rank}/told", told)
        if place == _LEFT:
            self.store.set(f"{self.rank}/{_LEFT}", "")

    def _tell_if_late(self) -> None:
        """Warn once if the block takes long; tell the store where this rank is each second."""
        waited = 0.0
        while not self._end.wait(min(1.0, self.seconds)):
            waited += min(1.0, self.seconds)
            self._publish(place_of(self._thread))
            if self.seconds <= waited < self.seconds + 1.0:
                self._end.wait(1.0)  # until the other ranks have told as well
                late = [r for r in range(self.world) if self._told(r).get("place") != _LEFT]
                difference = self._difference(late) if late else None
                if difference is not None:
                    caution(_LOGGER, f"{self.seconds:g} s inside of a block: {difference}")

    def places(self) -> list[str]:
        """Return a line for each rank that says where it is."""
        told = map(self._told, range(self.world))
        return [f"rank {r} is at {t.get('place', _UNTOLD)}" for r, t in enumerate(told)]

    def _told(self, rank: int) -> Mapping[str, Any]:
        key = f"{rank}/told"
        return json.loads(self.store.get(key)) if self.store.check([key]) else {}

    def _difference(self, late: list[int]) -> RanksDifferError | None:
        journals = [self._told(rank).get("events", []) for rank in range(self.world)]
        found = first_difference(journals)
        if found is None and not late:
            return None
        lines = [line for rank, line in enumerate(self.places()) if rank in late]
        if found is not None:
            lines += [
                f"rank {rank} compiled, from event {found} on: {'; '.join(events[found:][:_SHOWN])}"
                for rank, events in enumerate(journals)
            ]
        cause = (
            "ranks have compiled different programs"
            if found is not None
            else "ranks wait for each other"
        )
        return RanksDifferError("\n  ".join([cause, *lines]), fix=_FIX)


_FIX: Final = (
    "let all ranks take the same way through the program: decide by values that all of them have"
)
