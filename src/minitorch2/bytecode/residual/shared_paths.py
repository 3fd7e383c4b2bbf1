"""Load many values whose access paths begin alike, following each common part once.

    m._modules['a']._parameters['weight'],    -->    a_parameters = m._modules['a']._parameters
    m._modules['a']._parameters['bias']              a_parameters['weight'], a_parameters['bias']

A path is shared if it branches: if two different steps go on from it. The parameters of a model of
n layers are then loaded in O(n) steps. Guards share paths in the same way, in `guard_function`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from minitorch2.bytecode.guards.sources import ItemSource, Naming, Source, StepSource, plainly


def share_paths(
    sources: Sequence[Source], new_name: Callable[[str], str], named: Naming = plainly
) -> tuple[list[str], list[str]]:
    """Return assignments of the shared paths, in order, and an expression for each source.

    Args:
        sources: the sources to load.
        new_name: makes a fresh variable name out of a suggestion.
        named: returns the name of a function of Python's.
    """
    branching = _branching(sources)
    names: dict[Source, str] = {}
    assignments: list[str] = []

    def expression(source: Source) -> str:
        if not isinstance(source, StepSource):
            return source.expression(named)
        if source in names:
            return names[source]
        text = source.step(expression(source.of), named)
        if source in branching:
            names[source] = new_name(_suggestion(source))
            assignments.append(f"{names[source]} = {text}")
            return names[source]
        return text

    expressions = [expression(source) for source in sources]
    return assignments, expressions


def _branching(sources: Iterable[Source]) -> set[Source]:
    """Return the paths from which at least two different steps are taken."""
    steps = {step for source in sources for step in source.path() if isinstance(step, StepSource)}
    branches = Counter(step.of for step in steps)
    return {source for source, count in branches.items() if count > 1}


def _suggestion(source: Source) -> str:
    """Return the last names on the path, back to a proper one: ``layer_0_modules``."""
    words: list[str] = []
    for step in source.path():
        word = str(step.key) if isinstance(step, ItemSource) else getattr(step, "name", "")
        words.insert(0, word.strip("_"))
        if word.isidentifier() and not word.startswith("_"):
            break
    return "_".join(filter(None, words))
