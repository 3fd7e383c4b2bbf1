"""The step that is being recorded: where it is in the trie, its inputs, numbers and values.

There is one step in the process. All threads add to it: autograd runs gradients of tensors on a GPU
in threads of its own, and they belong to the step. The LazyTensor paper (section 4) has one such
record for each device. A step here may hold operators of several devices, so a copy from one to
another does not end it.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar, Final

import torch
from torch.nn.parameter import is_lazy

from minitorch2 import config
from minitorch2.foundation.compile_lock import new_lock
from minitorch2.graph.fake_tensor import FakeConverter
from minitorch2.lazy.trie import Event, Numbers, Place, Trie
from minitorch2.lazy.value import Metas, Ref, Value, ref_of

_OF_THE_LIST: Final = 2
"""References to a value that nobody else holds: `values`, and an argument."""
_OF_THE_STEP: Final = 5
"""References to an input: `plain`, `inputs`, `values` (some), a variable and an argument."""
LOCK = new_lock()
"""Held while an operator is recorded and while a step runs."""
TRIE = Trie()


class Step:
    """The operators that were recorded since the last barrier.

    Attributes:
        began: when the step before it ended, in seconds of `time.perf_counter`.
        default_dtype: the dtype of new tensors; another one begins another step.
        is_inference: whether it is recorded in inference mode; leaving that begins another step.
        place: where the step is in the trie.
        form: where it is among the steps of its sizes.
        inputs: the values that have entered, in order.
        numbers: the numbers of each event.
        values: the values by their numbers; those that nobody else holds are dead. The step does
            not hold values that have been computed, since eager mode would not.
        plain: the ordinary tensors that have entered, by identity; they are held by their values.
        copies: the copies of ordinary tensors that have entered outside of a region, with the
            tensors and their versions.
        in_region: whether the last operator was called in a region.
        memories: the first input in each memory, by the identity of the storage.
        writes: whether an operator wrote to memory that was there before the step.
        most_operators: after so many, the step ends.
        entries: the data that have entered with the last call, at known forms.
        at_once: whether the operators have run so far, since one of them was new.
        made: the ordinary tensors that such operators have made in a region, with their numbers,
            by identity.
        catch_up: runs the operators of a step so far (set by `barrier.py`).
    """

    catch_up: ClassVar[Callable[[Step], None]]

    def __init__(self) -> None:
        self.began = perf_counter()
        self.default_dtype = torch.get_default_dtype()
        self.is_inference = torch.is_inference_mode_enabled()
        self.form = TRIE.first(self.default_dtype)
        self.place = self.form.place
        self.inputs: list[Value] = []
        self.numbers: list[Numbers] = []
        self.values: list[Any] = []
        self.plain: dict[int, Value] = {}
        self.copies: dict[int, tuple[torch.Tensor, int, Value]] = {}
        self.in_region = False
        self.memories: dict[int, int] = {}
        self.writes = False
        self.most_operators = config.current().lazy_most_operators
        self.entries: list[Any] = []
        self.at_once = False
        self.made: dict[int, tuple[weakref.ref[torch.Tensor], Ref]] = {}
        self._converter: FakeConverter | None = None

    def known_results(self, event: Event, sizes: Numbers, numbers: Numbers) -> Metas | None:
        """Add an event if a step of these sizes had it; return the metadata of its results.

        This is the way of nearly all operators, so it is short.
        """
        form = self.form.next.get((event, sizes))
        if form is None:
            return None
        self.form, self.place = form, form.place
        self.numbers.append(numbers)
        return form.results

    def has_memory_of(self, data: torch.Tensor) -> bool:
        """Return whether an input of the step shares memory with a real tensor."""
        if is_lazy(data) or data.is_nested:
            return False
        return data.layout is torch.strided and memory_of(data) in self.memories

    def uses(self, data: torch.Tensor, *, exposes: bool) -> bool:
        """Return whether the step may write the memory of a real tensor, or read it."""
        return (self.writes or exposes) and self.has_memory_of(data)

    def was_there(self, value: Value) -> bool:
        """Return whether a value's memory is older than the step."""
        data = value.root.data
        return data is not None and self.has_memory_of(data)

    def meets_new(self, event: Event) -> bool:
        """Return whether the next operator is to run at once; those before it have run then.

        A program that is new runs as in eager mode, with eager mode's errors, and the trie learns
        it. Operators that have run before are deferred.
        """
        if not self.at_once and event not in self.place.next:
            Step.catch_up(self)
            self.values = [None if v is None else weakref.ref(v) for v in self.held()]
            self.at_once = True
        return self.at_once

    def held(self) -> list[Any]:
        """Return the values by their numbers; None for those that only the step holds.

        Python's references tell. A view is let go before its base.
        """
        values = self.values
        if self.at_once:
            return [None if ref is None else ref() for ref in values]
        references = sys.getrefcount
        for number in range(len(values) - 1, -1, -1):
            if references(values[number]) <= _OF_THE_LIST:
                values[number] = None
        return [*values]

    def go_on(self, event: Event, numbers: Numbers) -> Place:
        """Add an event; return its place in the trie."""
        place = TRIE.follow(self.place, event, numbers)
        self.numbers.append(numbers)
        self.place = place
        return place

    def note_results(self, event: Event, sizes: Numbers, results: Metas) -> None:
        """Remember the metadata of the results of the last event, for steps of these sizes."""
        self.place.results = self.place.results or results
        self.form = TRIE.add(self.form, event, sizes, self.place, results)

    def go_back(self) -> None:
        """Remove the last event, which has failed."""
        failed, self.place = self.place, self.place.parent or self.place
        self.numbers.pop()
        if failed.results is None:
            TRIE.forget(failed)

    def promise(self, value: Value) -> Ref:
        """Give a value the next number of the step."""
        values = self.values
        value.step = self
        ref = value.ref = ref_of(len(values))
        values.append(weakref.ref(value) if self.at_once else value)
        return ref

    def make(self, tensor: torch.Tensor | None) -> None:
        """Give an ordinary tensor that an operator has made the next number of the step."""
        known = None
        if tensor is not None:
            known = weakref.ref(tensor)
            self.made[id(tensor)] = known, ref_of(len(self.values))
        self.values.append(known)

    def ref_made(self, tensor: torch.Tensor) -> Ref | None:
        """Return the number of an ordinary tensor that an operator of the step has made."""
        known = self.made.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def skip(self) -> None:
        """Count a result that no value stands for."""
        self.values.append(None)

    def end(self) -> None:
        """Let the values of the step be what they are: data, or views of data.

        The program may give an ordinary tensor other memory (``x.data = y``). Views still show the
        memory that they were made of, so a value that is held has a tensor of its own.
        """
        for value in self.plain.values():
            if value.data is not None and sys.getrefcount(value) > _OF_THE_STEP - self.at_once:
                value.data = value.data.detach()
        for ended in self.held() if self.at_once else self.values:
            if isinstance(ended, Value):
                ended.step = ended.ref = ended.fake = None

    def copy_of(self, tensor: torch.Tensor) -> Value:
        """Return a value that an ordinary tensor has now, whatever is written to it later."""
        version = -1 if tensor.is_inference() else tensor._version
        known = self.copies.get(id(tensor))
        if known is None or known[1] != version or version == -1:
            copy = tensor.detach().clone(memory_format=torch.preserve_format)
            known = self.copies[id(tensor)] = tensor, version, Value(copy)
        return known[2]

    def fake_of_data(self, data: torch.Tensor) -> Any:
        """Return the fake of a real tensor; tensors that share memory have fakes that do."""
        self._converter = self._converter or FakeConverter()
        return self._converter.convert(data.detach())


def owns_memory(tensor: torch.Tensor) -> bool:
    """Return whether no other library may read or write a tensor's memory at any time."""
    trusted = _TRUSTED.get(id(tensor))
    return tensor.untyped_storage().resizable() or (trusted is not None and trusted() is tensor)


def trust(tensor: torch.Tensor) -> None:
    """Note that no other library uses the memory of a tensor, although PyTorch marks it so."""
    key = id(tensor)
    _TRUSTED[key] = weakref.ref(tensor, lambda _: _TRUSTED.pop(key, None))


_TRUSTED: Final[dict[int, weakref.ref[torch.Tensor]]] = {}
"""By the identity of tensors, while they live."""


def memory_of(data: torch.Tensor) -> int:
    """Return the identity of a real tensor's memory."""
    return int(data.untyped_storage()._cdata)


@dataclass
class Counters:
    """Counts of events since the process began, or since `reset`.

    Attributes:
        recorded: events that were recorded: operators, and data that entered.
        inferred: operators the form of whose results the trie did not know.
        now: operators on numbers of the host, and random draws, that ran at once.
        fallbacks: operators that ran in eager mode, by operator and line.
        barriers: steps that ended, by cause and line.
        obstacles: steps that cannot be compiled, by reason and line of the barrier.
        interpreted: steps that ran operator by operator.
        ran: steps that ran as compiled programs.
        first_visits: regions that ran in eager mode, at least until the program came by again.
        repeated: calls of stable functions that ran without Python.
        delayed: steps whose operators had waited for their barrier.
        seconds_delayed: how long these steps lasted until their first kernel ran, in all.
    """

    recorded: int = 0
    inferred: int = 0
    now: int = 0
    fallbacks: Counter[tuple[str, str]] = field(default_factory=Counter)
    barriers: Counter[tuple[str, str]] = field(default_factory=Counter)
    obstacles: Counter[tuple[str, str]] = field(default_factory=Counter)
    interpreted: int = 0
    ran: int = 0
    first_visits: int = 0
    repeated: int = 0
    delayed: int = 0
    seconds_delayed: float = 0.0


COUNTS = Counters()
_current = Step()


def current() -> Step:
    """Return the step that is being recorded."""
    return _current


def begin() -> Step:
    """Begin a new step; return the one that ends."""
    global _current
    ended, _current = _current, Step()
    return ended


def is_pending(value: Value) -> bool:
    """Return whether a value is part of the step that is being recorded."""
    return value.step is _current
