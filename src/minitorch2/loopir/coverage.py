"""The operators that have lowerings: `python -m minitorch2.loopir --operators`.

Any other operator is called as it is, counted and listed by `minitorch2.explain`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from minitorch2.loopir.lowering import LOWERINGS
from minitorch2.loopir.lowering.matmul import LIBRARY_CALLS
from minitorch2.native.torch_internals.operators import OpOverload


@dataclass(frozen=True)
class Coverage:
    """`loops` and `library` are the operators with their overloads, by how they are lowered."""

    loops: dict[str, list[OpOverload]]
    library: dict[str, list[OpOverload]]

    def __str__(self) -> str:
        rows = [("loops", self.loops), ("library calls by choice", self.library)]
        rows.append(("together", self.loops | self.library))
        lines = [f"{'lowered to':24} {'operators':>9} {'overloads':>9}"]
        for name, found in rows:
            lines.append(f"{name:24} {len(found):9} {sum(map(len, found.values())):9}")
        return "\n".join(lines)


def coverage() -> Coverage:
    """Return the table of lowerings, by operator."""
    by_name: dict[str, list[OpOverload]] = {}
    for overload in LOWERINGS:
        by_name.setdefault(overload._schema.name, []).append(overload)
    library = {f"aten::{name}" for name in LIBRARY_CALLS}
    return Coverage(
        {name: found for name, found in by_name.items() if name not in library},
        {name: found for name, found in by_name.items() if name in library},
    )


def listing(title: str, found: dict[str, list[OpOverload]]) -> Iterable[str]:
    """Yield a line for each operator, with its overloads."""
    yield f"\n{title}:"
    for name, overloads in sorted(found.items()):
        yield f"  {name.split('::')[1]}: {', '.join(o._overloadname for o in overloads)}"
