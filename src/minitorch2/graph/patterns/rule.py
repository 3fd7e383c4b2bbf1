"""A rule is a function that returns both sides of a law; its test is to call it.

::

    @rule("simplify_algebra")
    def double_negation(x: Tensor) -> tuple[Tensor, Tensor]:
        \"\"\"``-(-x) --> x``\"\"\"
        return -(-x), x

The function is traced once, when it is first asked for (``graph/symbolic_trace.py``): the first
result is what to look for, the second what to put in its place. Annotations say what a parameter
stands for: a tensor, a number, a dtype, a constant of the graph, or anything. The law in the
docstring ends in ``if ...`` where a condition is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import torch

from minitorch2.graph.extensions import note_extension
from minitorch2.graph.graph import Graph
from minitorch2.graph.node import Node
from minitorch2.graph.symbolic_trace import symbolic_trace

Sides: TypeAlias = Callable[..., tuple[Any, Any]]
Condition: TypeAlias = Callable[..., bool]
Constant: TypeAlias = Annotated[torch.Tensor, "held by the graph"]
"""A parameter that stands for a tensor which the graph holds (``get_attr``), as a frozen weight."""


@dataclass(frozen=True, eq=False)
class Rule:
    """``before --> after if condition``.

    ``condition`` gets the arguments that match the parameters, by name: fake tensors for nodes, and
    plain numbers and dtypes.
    """

    name: str
    law: str
    sides: Sides
    condition: Condition | None = None

    @cached_property
    def graph(self) -> Graph:
        """Return the trace of both sides. Raises TraceError where a side cannot be traced."""
        graph = symbolic_trace(self.sides).graph
        kinds = get_type_hints(self.sides, include_extras=True)
        for node in graph.placeholders:
            node.meta["kind"] = kinds.get(str(node.target), Any)
        return graph

    @property
    def before(self) -> Node:
        """Return the root of what to look for."""
        return self.graph.output_node.args[0][0]  # type: ignore[no-any-return]

    @property
    def after(self) -> Any:
        """Return what to put in its place: a node of the same graph, or a number."""
        return self.graph.output_node.args[0][1]

    @property
    def parameters(self) -> dict[str, Node]:
        """Return the placeholders by name."""
        return {str(node.target): node for node in self.graph.placeholders}

    def __call__(self, *values: Any, **options: Any) -> tuple[Any, Any]:
        """Return both sides, computed."""
        return self.sides(*values, **options)


FAMILIES: Final[dict[str, list[Rule]]] = {}
"""Every rule, by the pass that applies it."""


def rule(family: str, *, when: Condition | None = None) -> Callable[[Sides], Rule]:
    """Make a function that returns both sides a rule of a family; a decorator."""

    def register(sides: Sides) -> Rule:
        made = make_rule(sides, when)
        FAMILIES.setdefault(family, []).append(made)
        note_extension(sides)
        return made

    return register


def make_rule(sides: Sides, condition: Condition | None = None) -> Rule:
    """Make a rule without a family."""
    law = inspect.cleandoc(sides.__doc__ or "").split("\n\n")[0].replace("``", "")
    return Rule(sides.__name__, " ".join(law.split()), sides, condition)
