"""Schedules of a printed kernel: ours, made as the CPU target shapes its loops, or a machine's.

pointwise ::= the innermost loop in vectors, the outermost one shared by threads
rows      ::= totals of a row where the row is written; along the row, a total for each lane
columns   ::= totals of a block of neighbours, all in vectors, down the columns
two nests ::= totals are stored first, and both nests read them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from minitorch2.codegen.halide import Argument, Dim
from minitorch2.loopir.expressions import Expr

Loops = Sequence[tuple[str, Expr]]
LANES = 16
"""How many elements a vector has; LLVM makes it two where they are too wide."""
BLOCK = 64
"""How many columns are reduced at once."""
TASK = 16384
"""How many elements are worth a task of a thread."""
GUARD = "hl.TailStrategy.GuardWithIf"
"""No element is computed twice: memory that is read may be the one that is written."""
ESTIMATE = 64
"""What an autoscheduler is told of a size that varies."""


@dataclass
class Nest:
    """An output function: its loops, outermost first, and what it stores."""

    name: str
    loops: list[tuple[str, Expr]]
    elements: list[str] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)


@dataclass
class Total:
    """A reduction over a domain; the kept loops and the reduced ones, outermost first."""

    domain: str
    kept: Loops
    reduced: Loops
    is_in_order: bool = False


@dataclass
class Definitions:
    """The parts of a kernel that have an order: outputs, reductions, and values of whole rows."""

    nests: list[Nest] = field(default_factory=list)
    totals: dict[str, Total] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)


def ours(found: Definitions, across: bool) -> list[str]:
    """Return the lines of our schedule; `across`: neighbours in memory are reduced apart."""
    nests = [nest for nest in found.nests if nest.loops]
    lines: list[str] = []
    is_alone = len(found.nests) == 1 == len(nests)
    for nest in nests:
        kept = [loop for loop in nest.loops if loop[0].startswith("i")]
        if found.totals and is_alone and across:
            lines += _blocks(nest, kept)
        elif found.totals and is_alone and kept == nest.loops:
            lines += _shared(nest.name, nest.loops)
        elif across and kept != nest.loops:
            order = [*nest.loops[len(kept) :], *kept]  # neighbours in memory innermost
            lines.append(f"{nest.name}.reorder({', '.join(name for name, _ in reversed(order))})")
            lines += _vectors(nest.name, order)
        else:
            lines += _vectors(nest.name, nest.loops)
    for name, total in found.totals.items():
        place = _place(nests[0], total, across) if is_alone else "compute_root()"
        lines += _total(name, total, across, place)
    for name in found.rows if is_alone else ():
        lines.append(f"{name}.{_place(nests[0], None, across)}")
        last = nests[0].loops[-1]
        if not across and (lanes := _lanes(last[1])):
            lines.append(f"{name}.vectorize({last[0]}, {lanes}, {GUARD})")
    return lines


def _place(nest: Nest, total: Total | None, across: bool) -> str:
    """Return where the totals of an output are computed: in its row, or in its block."""
    kept = [name for name, _ in nest.loops if name.startswith("i")]
    return f"compute_at({nest.name}, {'block' if across else kept[-1]})"


def _lanes(size: Expr) -> int:
    """Return the width of vectors along a loop, 0 for none."""
    if not isinstance(size, int):
        return LANES
    return next((n for n in (LANES, 8, 4) if size >= n), 0)


def _vectors(name: str, loops: Loops) -> list[str]:
    """Order a nest of independent elements."""
    last, size = loops[-1]
    lanes = _lanes(size)
    if len(loops) > 1:
        lines = [f"{name}.vectorize({last}, {lanes}, {GUARD})"] if lanes else []
        return lines + _shared(name, loops)
    if isinstance(size, int) and size < 2 * TASK:
        return [f"{name}.vectorize({last}, {lanes}, {GUARD})"] if lanes else []
    return [
        'task, inner = hl.Var("task"), hl.Var("inner")',
        f"{name}.split({last}, task, inner, {TASK}, {GUARD})",
        f"{name}.vectorize(inner, {lanes}, {GUARD}).parallel(task)",
    ]


def _shared(name: str, loops: Loops) -> list[str]:
    """Let threads share the outermost loop, in tasks that are worth it."""
    first, size = loops[0]
    inside = prod(n if isinstance(n, int) else ESTIMATE for _, n in loops[1:])
    rows = max(1, TASK // max(1, inside))
    if isinstance(size, int) and size <= rows:
        return []
    if rows == 1:
        return [f"{name}.parallel({first})"]
    return [
        'task = hl.Var("task")',
        f"{name}.split({first}, task, {first}, {rows}, {GUARD}).parallel(task)",
    ]


def _blocks(nest: Nest, kept: Loops) -> list[str]:
    """Order an output so that a block of neighbours has its totals to itself."""
    last, size = kept[-1]
    block = min(BLOCK, size) if isinstance(size, int) else BLOCK
    lanes = _lanes(block)
    inner = [name for name, _ in reversed(nest.loops) if name.startswith("r")]
    outer = ["block", *(name for name, _ in reversed(kept[:-1]))]
    lines = [
        f'block, {last}i = hl.Var("block"), hl.Var("{last}i")',
        f"{nest.name}.split({last}, block, {last}i, {block}, {GUARD})",
        f"{nest.name}.reorder({', '.join([f'{last}i', *inner, *outer])})",
    ]
    if lanes:
        lines.append(f"{nest.name}.vectorize({last}i, {lanes}, {GUARD})")
    return [*lines, f"{nest.name}.parallel({outer[-1]})"]


def _total(name: str, total: Total, across: bool, place: str) -> list[str]:
    """Order a reduction."""
    lines = [f"{name}.{place}"]
    last, size = total.kept[-1]
    update = f"{name}.update()"
    if across:
        k = ", ".join(f"{total.domain}[{i}]" for i in range(len(total.reduced)))
        rest = ", ".join(loop for loop, _ in reversed(total.kept[:-1]))
        lines.append(f"{update}.reorder({last}, {k}{', ' * bool(rest)}{rest})")
        if lanes := _lanes(size):
            lines += [f"{f}.vectorize({last}, {lanes}, {GUARD})" for f in (name, update)]
        return lines
    if place == "compute_root()" and not total.is_in_order and total.kept[0][1] != 1:
        lines.append(f"{update}.parallel({total.kept[0][0]})")
    lanes = _lanes(total.reduced[-1][1])
    if total.is_in_order or not lanes:
        return lines
    lane, part = f"{name}_lane", f"{name}_part"
    lines += [
        f'{lane}, rest, turn = hl.Var("{lane}"), hl.RVar("rest"), hl.RVar("turn")',
        f"{update}.split({total.domain}[0], rest, turn, {lanes}, {GUARD})",
        f"{part} = {update}.rfactor(turn, {lane})",
        f"{part}.{place if 'at(' in place else f'compute_at({name}, {last})'}.vectorize({lane})",
        f"{part}.update().vectorize({lane})",
    ]
    return lines


def found_by(
    scheduler: str,
    estimates: Sequence[tuple[str, tuple[tuple[Dim, Dim], ...]]],
    words: Sequence[str],
) -> list[str]:
    """Return the lines that let an autoscheduler find a schedule, given sizes to expect."""
    lines = [f"{word}_.set_estimate({ESTIMATE})" for word in words]
    for name, dims in estimates:
        sizes = (ESTIMATE if isinstance(extent, str) else extent for extent, _ in dims)
        lines.append(f"{name}.set_estimates([{', '.join(f'(0, {n})' for n in sizes)}])")
    return [*lines, f"lib.autoschedule(pipeline, '{scheduler.capitalize()}')"]
