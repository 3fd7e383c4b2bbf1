"""The conditions on sizes that a compilation assumed, as Python text and as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy

from minitorch2.graph.symbols.conditions import map_condition
from minitorch2.graph.symbols.shape_env import ShapeEnv
from minitorch2.graph.symbols.text import CALLED, print_condition


def assumptions(env: ShapeEnv, names: Mapping[sympy.Symbol, str] | None = None) -> list[str]:
    """Return the conditions that the example inputs decided, over symbols of the inputs.

    Args:
        env: the sizes of the compilation.
        names: text that stands for a symbol; other symbols stand for themselves.
    """
    in_inputs = env.knowledge.in_inputs
    conditions = [map_condition(guard.condition, in_inputs) for guard in env.guards]
    return [f"({print_condition(c, names)})" for c in conditions if not isinstance(c, bool)]


def function_of(
    parameters: Iterable[str], text: str, objects: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return a function with an expression for its body; its text is the library's own.

    Args:
        parameters: the names of the parameters.
        text: a Python expression, which may contain printed sizes and conditions.
        objects: the other objects that the expression names.
    """
    function: Callable[..., Any] = eval(
        f"lambda {', '.join(parameters)}: {text}", {**CALLED, **(objects or {})}
    )
    return function
