"""A rule is a function that returns both sides of a law; its test is to call it.

::

    @rule("simplify_algebra")
    def double_negation(x: Tensor) -> tuple[Tensor, Tensor]:
        \"\"\"``-(-x) --> x``\"\"\"
        return -(-x), x

The function is traced once (``graph/symbolic_trace.py``): the first result is what to look for, the
second what to put in its place. Annotations say what a parameter stands for: a tensor, a number, a
dtype, a constant of the graph, or anything. The law in the docstring ends in ``if ...`` where a
condition is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import torch

from minitorch2.graph.extensions import note_extension
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
    before: Node
    after: Any
    parameters: dict[str, Node]
    condition: Condition | None = None

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
    """Make a rule without a family. Raises UnsupportedError where a side cannot be traced."""
    graph = symbolic_trace(sides).graph
    kinds = get_type_hints(sides, include_extras=True)
    parameters = dict(zip(inspect.signature(sides).parameters, graph.placeholders, strict=True))
    for name, node in parameters.items():
        node.meta["kind"] = kinds.get(name, Any)
    before, after = graph.output_node.args[0]
    law = inspect.cleandoc(sides.__doc__ or "").split("\n\n")[0].replace("``", "")
    return Rule(sides.__name__, " ".join(law.split()), sides, before, after, parameters, condition)
