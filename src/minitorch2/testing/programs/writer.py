"""Fills the forms of the grammar in; remembers which variables are surely bound, by kind."""

from __future__ import annotations

import re
from itertools import count

from hypothesis import strategies as st

from minitorch2.testing.programs.grammar import EXPRESSIONS, STATEMENTS, VARIABLES

INDENT = "    "
_SLOT = re.compile(r"\$(block|new\w|tmp\w|[TNCLSOD](?!\w)|[tnlo])(\d?)")
_BLOCKS = tuple(form for form in STATEMENTS if "$block" in form)
_SIMPLE = tuple(form for form in STATEMENTS if "$block" not in form)

DEEPEST_EXPRESSION = 2
LONGEST = 24
"""Lines after which no further blocks are begun: many programs find more than long ones."""


class Writer:
    """The writer of a function's body.

    Args:
        deepest: how many blocks a statement may be nested in.

    Attributes:
        lines: what is written so far.
        known: the variables that are bound whenever the next line runs, by kind.
    """

    def __init__(self, draw: st.DrawFn, deepest: int) -> None:
        self.draw = draw
        self.deepest = deepest
        self.lines: list[str] = []
        self.known = {kind: list(names) for kind, names in VARIABLES.items()}
        self._numbers = count()

    def block(self, length: int, indent: str, depth: int) -> None:
        """Write statements.

        Args:
            length: how many.
            indent: what their lines begin with.
            depth: how many blocks they are in.
        """
        for _ in range(length):
            may_nest = depth < self.deepest and len(self.lines) < LONGEST
            compound = may_nest and self.draw(st.booleans())
            form = self.draw(st.sampled_from(_BLOCKS if compound else _SIMPLE))
            self.statement(form, indent, depth)

    def statement(self, form: str, indent: str, depth: int) -> None:
        """Write one statement; its new variables are known behind it."""
        names: dict[str, str] = {}
        outside = {kind: list(known) for kind, known in self.known.items()}
        for line in form.split("\n"):
            if line.strip() == "$block":
                self._nested(line.removesuffix("$block") + indent, depth, names)
            else:
                self.lines.append(indent + self._filled(line, names, DEEPEST_EXPRESSION))
        self.known = outside
        self._learn(names, "new")

    def _nested(self, indent: str, depth: int, names: dict[str, str]) -> None:
        """Write a nested block; names that it binds are forgotten behind it."""
        before = {kind: list(known) for kind, known in self.known.items()}
        self._learn(names, "tmp")
        self.block(self.draw(st.integers(1, 2)), indent, depth + 1)
        self.known = before

    def _learn(self, names: dict[str, str], prefix: str) -> None:
        for slot, name in names.items():
            if slot.startswith(prefix) and slot[3] in self.known:
                self.known[slot[3]].append(name)

    def expression(self, kind: str, depth: int) -> str:
        """Return an expression of a kind; at depth 0 a short one."""
        forms = EXPRESSIONS[kind]
        if depth <= 0:
            forms = tuple(form for form in forms if not re.search(r"\$[TNCLSOD]", form))
        return self._filled(self.draw(st.sampled_from(forms)), {}, depth - 1)

    def _filled(self, form: str, names: dict[str, str], depth: int) -> str:
        """Return a form with its slots filled in; `names` are the variables of its form so far."""
        return _SLOT.sub(lambda match: self._slot(match, names, depth), form)

    def _slot(self, match: re.Match[str], names: dict[str, str], depth: int) -> str:
        kind, slot = match[1], match[0][1:]
        if kind in EXPRESSIONS:
            return self.expression(kind, depth)
        if slot not in names:
            names[slot] = self._variable(kind)
        return names[slot]

    def _variable(self, kind: str) -> str:
        if kind.startswith(("new", "tmp")):
            return f"{kind[3].lower()}{next(self._numbers)}"
        return self.draw(st.sampled_from(self.known[kind.upper()]))
