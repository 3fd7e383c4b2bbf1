"""The calls that led to compilations, as a tree.

    tree ::= Calls(functions, inner)        what was compiled here, and the calls from here
    call ::= "file:line in function"        from the outermost to the one that was compiled

Frames of PyTorch and of this package are left out. A thread that compiles in the background has no
caller.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

import torch

from minitorch2.bytecode.frames.callers import user_frames
from minitorch2.explorer.store import Compilation

LIBRARIES = (str(Path(torch.__file__).parent), contextlib.__file__, "<frozen")
MOST = 40
"""The innermost calls that are kept of one compilation."""


def callers_of(code: CodeType) -> tuple[str, ...]:
    """Return the user's calls that run now, the outermost first, without that of `code` itself."""
    frames = (f for f in user_frames(sys._getframe(1)) if f.f_code is not code)
    kept = (f for f in frames if not f.f_code.co_filename.startswith(LIBRARIES))
    calls = [f"{f.f_code.co_filename}:{f.f_lineno} in {f.f_code.co_qualname}" for f in kept]
    return tuple(reversed(calls[:MOST]))


@dataclass
class Compiled:
    """The compilations of one function in one place of the tree."""

    compilations: int = 0
    breaks: int = 0
    seconds: float = 0.0

    def add(self, compilation: Compilation) -> None:
        """Count a compilation."""
        self.compilations += 1
        self.breaks += len(compilation.breaks)
        self.seconds += sum(compilation.seconds.values())

    def __str__(self) -> str:
        many = "s" * (self.compilations != 1)
        breaks = f", {self.breaks} with a graph break" if self.breaks else ""
        return f"{self.compilations} compilation{many} in {self.seconds:.2f} s{breaks}"


@dataclass
class Calls:
    """A place in the tree: the functions that were compiled there, and the calls from there."""

    functions: dict[str, Compiled] = field(default_factory=dict)
    inner: dict[str, Calls] = field(default_factory=dict)

    def add(self, compilation: Compilation) -> None:
        """Add a compilation behind its calls."""
        place = self
        for call in compilation.callers:
            place = place.inner.setdefault(call, Calls())
        name = f"{compilation.function} at {compilation.place}"
        place.functions.setdefault(name, Compiled()).add(compilation)

    def lines(self) -> Iterator[str]:
        """Yield the tree, two spaces a level."""
        for name, compiled in self.functions.items():
            yield f"{name}: {compiled}"
        for call, calls in self.inner.items():
            yield call
            yield from (f"  {line}" for line in calls.lines())


def tree_of(compilations: Iterable[Compilation]) -> Calls:
    """Return the tree of the calls that led to compilations."""
    tree = Calls()
    for each in compilations:
        if each.function:
            tree.add(each)
    return tree
