"""Memory as a graph of elements that may point to others; the leaves are memory locations."""

from __future__ import annotations

from collections.abc import Iterable


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
        """Return the memory locations that an element may be; kept until something is added."""
        if element not in self._leaves:
            self._leaves[element] = frozenset(
                each for each in _reach(element, contents=False) if not each.targets
            )
        return self._leaves[element]

    def closure(self, element: Element) -> frozenset[Element]:
        """Return the memory locations of an element and of all that it holds."""
        if element not in self._closures:
            self._closures[element] = frozenset(
                each for each in _reach(element, contents=True) if not each.targets
            )
        return self._closures[element]

    def contents(self, element: Element) -> set[Element]:
        """Return the elements that a container may hold."""
        found = (each.contained for each in _reach(element, contents=False))
        return set().union(*found)


def _reach(element: Element, *, contents: bool) -> set[Element]:
    seen, todo = {element}, [element]
    while todo:
        each = todo.pop()
        new = (each.targets | each.contained if contents else each.targets) - seen
        seen |= new
        todo += new
    return seen
