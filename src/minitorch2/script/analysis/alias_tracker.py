"""Memory as a graph of elements that may point to others; the leaves are memory locations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TypeAlias


class Element:
    """A value's memory: what it may point to, and what a container holds."""

    def __init__(self) -> None:
        self.targets: set[Element] = set()
        self.contained: set[Element] = set()


class AliasTracker:
    """Elements, with one leaf for all memory that is known outside: the wildcard.

    Attributes:
        changed: whether anything was added since it was set to False.
    """

    def __init__(self) -> None:
        self.wildcard = Element()
        self.wildcard.contained.add(self.wildcard)
        self.changed = False
        self._leaves: dict[Element, frozenset[Element]] = {}
        self._closures: dict[Element, frozenset[Element]] = {}

    def point(self, element: Element, targets: Iterable[Element]) -> None:
        """Let an element point to others."""
        if element is not self.wildcard:
            self._add(element.targets, set(targets) - {element})

    def hold(self, element: Element, contents: Iterable[Element]) -> None:
        """Let each memory location of a container hold elements."""
        for leaf in self.leaves(element):
            if leaf is self.wildcard:
                for each in contents:
                    self.escape(each)
            else:
                self._add(leaf.contained, set(contents))

    def escape(self, element: Element) -> None:
        """Let the memory of an element, and what it holds, be known outside."""
        for leaf in self.closure(element) - {self.wildcard}:
            self.point(leaf, (self.wildcard,))

    def _add(self, known: set[Element], new: set[Element]) -> None:
        if not new <= known:
            known |= new
            self.changed = True
            self._leaves.clear()
            self._closures.clear()

    def leaves(self, element: Element) -> frozenset[Element]:
        """Return the memory locations that an element may be; kept until something is added.

        The search ends at elements whose leaves are kept, so each link is followed about once
        (TorchScript overview, "Alias Analysis": path compression).
        """
        return _leaves(element, self._leaves, contents=False)

    def closure(self, element: Element) -> frozenset[Element]:
        """Return the memory locations of an element and of all that it holds."""
        return _leaves(element, self._closures, contents=True)

    def contents(self, element: Element) -> set[Element]:
        """Return the elements that a container may hold."""
        found = (each.contained for each in _reach(element, contents=False))
        return set().union(*found)


Kept: TypeAlias = dict[Element, frozenset[Element]]


def _leaves(element: Element, kept: Kept, *, contents: bool) -> frozenset[Element]:
    """Return the leaves that links of an element lead to, and keep them."""
    if element not in kept:
        reached = _reach(element, kept, contents=contents)
        parts = (kept.get(each, () if each.targets else (each,)) for each in reached)
        kept[element] = frozenset(chain.from_iterable(parts))
    return kept[element]


def _reach(element: Element, kept: Kept | None = None, *, contents: bool) -> set[Element]:
    """Return what an element leads to, without links behind elements of ``kept``."""
    seen, todo = {element}, [element]
    while todo:
        each = todo.pop()
        if kept and each in kept:
            continue
        new = (each.targets | each.contained if contents else each.targets) - seen
        seen |= new
        todo += new
    return seen
