"""The lines of a kernel: outside of its loop, inside, and those after the loop's end.

    kernel ::= outer*                                        no reduction, or a block holds all
            |  outer* (for roffset: loop*; after*)+ outer*   a loop over blocks of reduced elements

A line that does not vary along the reduction is hoisted out of the loop. Equal expressions are
computed once: the cache is on the text, and forgets a loop's names with the loop (PyTorch 2 paper,
section 4.5).
"""

from __future__ import annotations

from minitorch2.codegen.common import INDENT, Namer
from minitorch2.codegen.triton.values import IN_LOOP, Dimensions


class KernelBody:
    """Lines in order, with names `tmp0, tmp1, ...` for equal right-hand sides."""

    def __init__(self) -> None:
        self.outer: list[str] = []
        self._loop: list[str] | None = None
        self._after: list[str] = []
        self._names: dict[str, str] = {}
        self._loop_names: dict[str, str] = {}
        self._namer = Namer()
        self.varying = IN_LOOP

    def fresh(self, kind: str = "tmp") -> str:
        """Return a new name. The variables x0, r1, i2 share one count, as in the slides."""
        return self._namer.fresh(kind) if kind == "tmp" else kind + self._namer.fresh("")

    def assign(self, text: str, dims: Dimensions, kind: str = "tmp") -> str:
        """Return the variable that holds `text`, computed at most once where it is visible."""
        if text in self._names:
            return self._names[text]
        inside = self._loop is not None and dims & self.varying
        names = self._loop_names if inside else self._names
        if text not in names:
            name = self.fresh(kind)
            self.line(f"{name} = {text}", dims)
            names[text] = name
        return names[text]

    def statement(self, text: str, dims: Dimensions) -> None:
        """Add a line that is needed at most once where it is visible."""
        inside = self._loop is not None and dims & self.varying
        names = self._loop_names if inside else self._names
        if text not in names:
            names[text] = ""
            self.line(text, dims)

    def line(self, text: str, dims: Dimensions) -> None:
        """A statement, inside the loop if it varies along the reduction."""
        (self._loop if self._loop is not None and dims & self.varying else self.outer).append(text)

    def after_loop(self, text: str) -> None:
        """A statement that needs the loop to be complete."""
        (self._after if self._loop is not None else self.outer).append(text)

    def open_loop(self, first_lines: list[str]) -> None:
        """Begin a pass over the reduction."""
        self._loop = list(first_lines)

    def close_loop(self, header: str) -> None:
        """End the pass: its names are out of scope, and its reductions are complete."""
        loop, after = self.leave_loop(), self._after
        self.outer += [header, *(INDENT + line for line in loop), *after]
        self._after = []

    def leave_loop(self) -> list[str]:
        """Return the lines of the pass for the printer of the loop; its names are out of scope."""
        assert self._loop is not None
        loop, self._loop, self._loop_names = self._loop, None, {}
        return loop

    def cut_loop(self) -> list[str]:
        """Return the lines of the pass so far; what follows still knows their names."""
        loop, self._loop = self._loop or [], []
        return loop

    @property
    def in_loop(self) -> bool:
        """True if a pass is open."""
        return self._loop is not None
