"""A region's record of one code object: its entries, or the reason why it runs in Python."""

from __future__ import annotations

import itertools
import linecache
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import CodeType
from typing import TYPE_CHECKING

from minitorch2.bytecode.compiling.compiled_frame import CompiledFrame, GraphBreak
from minitorch2.bytecode.dispatch.recompiles import Misses
from minitorch2.bytecode.guards.sizes import SizeHistory
from minitorch2.bytecode.guards.sources import Source
from minitorch2.foundation.compile_lock import new_lock
from minitorch2.graph.node import SourceLine

if TYPE_CHECKING:
    from minitorch2.bytecode.dispatch.dispatcher import Dispatcher

_FRAME_NUMBERS = itertools.count()


class CodeCache:
    """A region's record of one code object.

    Attributes:
        code: the code object.
        turn: held by the thread that compiles it.
        compiled: its entries, in the order in which they are tried.
        died: the number of entries that were dropped because an object known by its id has died.
        as_is: the reason why its frames run in Python; None while they are captured.
        varying: its parameters that change too often to be constants.
        misses: the reasons why its entries did not serve calls.
        is_given: whether it is the code of a function that the user compiles.
        was_called: whether a call has needed to be compiled before, for some stances.
        sizes: the sizes and numbers with which it was compiled.
        pending: the compilation of it in another thread; None if none was asked for.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.turn = new_lock()
        self.compiled: list[CompiledFrame] = []
        self.died = 0
        self.as_is: GraphBreak | None = None
        self.varying: set[Source] = set()
        self.misses = Misses(code.co_qualname)
        self._frame_number: int | None = None
        self._compilations = itertools.count()
        self.is_given = False
        self.was_called = False
        self.sizes = SizeHistory()
        self.pending: Future[None] | None = None
        self.shared: dict[int, Dispatcher] = {}
        self.dispatchers: weakref.WeakSet[Dispatcher] = weakref.WeakSet()
        self._watches: dict[int, list[weakref.ref[object]]] = {}

    @property
    def times_compiled(self) -> int:
        """The number of entries, those included that were dropped when an object died."""
        return len(self.compiled) + self.died

    def new_compile_id(self) -> str:
        """Return the numbers of the frame in this process and its next compilation: ``"0/1"``."""
        if self._frame_number is None:
            self._frame_number = next(_FRAME_NUMBERS)
        return f"{self._frame_number}/{next(self._compilations)}"

    def add(self, compiled: CompiledFrame) -> None:
        """Add an entry; it is dropped when an object dies that its guards know by its id only."""
        self.compiled.append(compiled)
        self._watches[id(compiled)] = list(self._watch(compiled))
        for dispatcher in list(self.dispatchers):
            dispatcher.add(compiled)

    def drop(self, compiled: CompiledFrame) -> None:
        """Forget an entry."""
        self._watches.pop(id(compiled), None)
        self.compiled = [entry for entry in self.compiled if entry is not compiled]
        for dispatcher in list(self.dispatchers):
            dispatcher.drop(compiled)

    def _watch(self, compiled: CompiledFrame) -> Iterator[weakref.ref[object]]:
        """Yield weak references that drop the entry when their object dies."""
        this, entry = weakref.ref(self), weakref.ref(compiled)

        def forget(_: object, ending: Callable[[], bool] = sys.is_finalizing) -> None:
            cache, dropped = this(), entry()
            if cache is not None and dropped is not None and not ending():
                cache.died += 1
                cache.drop(dropped)

        for value in compiled.guards.watched():
            yield weakref.ref(value, forget)


def first_line(code: CodeType) -> SourceLine:
    """Return the line on which a function is defined."""
    text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return SourceLine(code.co_filename, code.co_firstlineno, text, code.co_name)
