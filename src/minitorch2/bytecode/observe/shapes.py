"""A compiled function's assumptions on sizes: symbols, ranges, guards, and the reason of each."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import indent

from minitorch2.bytecode.compiling.compiled_frame import CompiledFrame
from minitorch2.bytecode.guards import ShapeCondition
from minitorch2.bytecode.observe.sizes import SizeReport, size_report
from minitorch2.foundation.notebook import in_notebook


@dataclass(frozen=True)
class EntrySizes:
    """The sizes of one compiled entry.

    Attributes:
        function: the captured function's name.
        number: its position among the compilations of its region.
        sizes: its symbols; none if it was compiled for one set of sizes.
        numbers: the sizes of inputs that are numbers, and the reasons.
        guards: conditions on sizes that are checked at each call.
        implied: the number of conditions that needed no guard.
    """

    function: str
    number: int
    sizes: tuple[SizeReport, ...]
    numbers: tuple[str, ...]
    guards: tuple[str, ...]
    implied: int

    def __str__(self) -> str:
        head = f"{self.function}, compilation {self.number}"
        if not self.sizes:
            return "\n".join([f"{head}: every size is a number", *map(_indented, self.numbers)])
        lines = [*map(str, self.sizes), *self.numbers]
        lines += [f"guard: {guard}" for guard in self.guards]
        lines.append(f"implied by these, so not guarded: {self.implied} conditions")
        return f"{head}:\n" + _indented("\n".join(lines))


def _indented(text: str) -> str:
    return indent(text, "    ")


@dataclass(frozen=True)
class ShapesReport:
    """The sizes of all entries of a compiled function, in the order of compilation."""

    entries: tuple[EntrySizes, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries)) or "nothing is compiled yet"

    def _repr_html_(self) -> str:
        """Return the report for a notebook."""
        return in_notebook(f"<pre>{html.escape(str(self))}</pre>")


def shapes_report(entries: Iterable[CompiledFrame]) -> ShapesReport:
    """Return the report of compiled entries."""
    ordered = sorted(entries, key=lambda entry: entry.number)
    return ShapesReport(tuple(map(_entry_sizes, ordered)))


def _entry_sizes(entry: CompiledFrame) -> EntrySizes:
    guards = [g for g in entry.guards.guards if isinstance(g, ShapeCondition)]
    env = entry.shape_env
    return EntrySizes(
        entry.residual.co_qualname,
        entry.number,
        () if env is None else tuple(size_report(env)),
        () if env is None else tuple(f"{size} = {why}" for size, why in env.numbers.items()),
        tuple(map(str, guards)),
        0 if env is None else env.implied,
    )
